import torch
from torch import nn, optim

from profkit.holdings import held


def trained(model, optimizer):
    model(torch.randn(2, 3)).sum().backward()
    optimizer.step()


def test_a_plain_model_holds_parameters_gradients_and_moments():
    model = nn.Linear(3, 4)
    optimizer = optim.AdamW(model.parameters())
    assert held(model, [optimizer]).sizes_bytes() == {
        "parameters": 16 * 4,
        "gradients": 0,
        "masters": 0,
        "states": 0,
    }
    trained(model, optimizer)
    # Two moments for each parameter, and for each tensor the number of its steps.
    assert held(model, [optimizer]).sizes_bytes() == {
        "parameters": 16 * 4,
        "gradients": 16 * 4,
        "masters": 0,
        "states": 2 * 16 * 4 + 2 * 4,
    }


def test_tied_parameters_and_views_of_one_buffer_count_once():
    first, second = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)
    buffer = torch.zeros(12)
    first.weight.data = buffer[:9].view(3, 3)
    second.weight.data = buffer[3:].view(3, 3)
    model = nn.Sequential(first, second)
    assert held(model, []).sizes_bytes()["parameters"] == 12 * 4


def test_each_of_several_optimizers_counts():
    model = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 2, bias=False))
    optimizers = [optim.SGD(layer.parameters(), lr=0.1, momentum=0.9) for layer in model]
    model(torch.randn(2, 3)).sum().backward()
    for each in optimizers:
        each.step()
    assert held(model, optimizers).sizes_bytes()["states"] == (9 + 6) * 4
