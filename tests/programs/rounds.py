"""A training with two optimizers, in the way that its argument names: prints its losses."""

import copy
import sys

import torch
from torch import nn

torch.manual_seed(0)


def network(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, 8), nn.ReLU(), nn.Linear(8, outputs))


def update(optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item().hex()


def critics():
    """Train a critic several times for each time that a generator is trained."""
    generator, critic = network(4, 2), network(2, 1)
    of_generator, of_critic = (torch.optim.Adam(one.parameters()) for one in (generator, critic))
    for _ in range(10):
        for _ in range(5):
            made = generator(torch.randn(4, 4)).detach()
            update(of_critic, (critic(made) - critic(torch.randn(4, 2))).mean())
        print("loss", update(of_generator, -critic(generator(torch.randn(4, 4))).mean()))


def meta():
    """Train copies with optimizers of their own, and then what they are copies of."""
    model = network(4, 1)
    outer = torch.optim.Adam(model.parameters())
    for _ in range(8):
        fast = copy.deepcopy(model)
        inner = torch.optim.SGD(fast.parameters(), lr=0.1)
        for _ in range(3):
            update(inner, fast(torch.randn(4, 4)).pow(2).mean())
        gradients = torch.autograd.grad(fast(torch.randn(4, 4)).pow(2).mean(), fast.parameters())
        for parameter, gradient in zip(model.parameters(), gradients, strict=True):
            parameter.grad = gradient
        outer.step()
        print("loss", model(torch.ones(1, 4)).item().hex())


def layers():
    """Train one layer to its end, and then the next one."""
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    of_first, of_second = (torch.optim.SGD(one.parameters(), lr=0.1) for one in (first, second))
    for _ in range(9):
        print("loss", update(of_first, first(torch.randn(2, 4)).pow(2).mean()))
    for _ in range(9):
        made = first(torch.randn(2, 4)).detach()
        print("loss", update(of_second, second(made).pow(2).mean()))


def folds():
    """Train a model for each fold in turn, and evaluate it, in two epochs."""
    models = [network(4, 1) for _ in range(3)]
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in models]
    for _ in range(2):
        for model, optimizer in zip(models, optimizers, strict=True):
            model.train()
            for _ in range(5):
                print("loss", update(optimizer, model(torch.randn(4, 4)).pow(2).mean()))
            model.eval()
            with torch.no_grad():
                model(torch.randn(8, 4))


{"critics": critics, "meta": meta, "layers": layers, "folds": folds}[sys.argv[1]]()
