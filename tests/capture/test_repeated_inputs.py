"""Calls of a model with the tensors of the call before, without an operator being called."""

import gc
import weakref

import pytest
import torch
from torch import nn

from profkit.capture._repeated_inputs import RepeatedInputs


@pytest.fixture
def model():
    return nn.Linear(4, 4)


def counts(model, *given):
    inputs = RepeatedInputs()
    for one in given:
        inputs(model, one)
    return inputs.counts()


def test_the_same_tensors_are_told_from_others(model):
    x, y = torch.ones(2, 4), torch.ones(2, 4)
    assert counts(model, [x], [x], [y], [x]) == [(4, 1, 0)]
    assert counts(model, [{"x": x, "y": [y]}], [{"x": x, "y": [y]}]) == [(2, 1, 0)]
    assert counts(model, [x.view(8)], [x.view(8)], [x.view(4, 2)]) == [(3, 1, 0)]
    assert counts(model, [x[0]], [x[1]]) == [(2, 0, 0)]


def test_weights_that_changed_are_counted_apart(model):
    inputs, x = RepeatedInputs(), torch.ones(2, 4)
    inputs(model, [x])
    with torch.no_grad():
        model.bias.add_(1)
    inputs(model, [x])
    inputs(model, [x])
    assert inputs.counts() == [(3, 1, 1)]


def test_what_tells_two_calls_apart_makes_them_different(model):
    inputs, x, other = RepeatedInputs(), torch.ones(2, 4), nn.Linear(4, 4)
    inputs(model, [x, "a"])
    inputs(model, [x, "b"])
    with torch.no_grad():
        inputs(model, [x, "b"])
        x.add_(1)
        inputs(model, [x, "b"])
        inputs(other, [x, "b"])
        inputs(other.eval(), [x, "b"])
        inputs(other, [x.requires_grad_(), "b"])
        inputs(other, [x.detach(), "b"])
    assert inputs.counts() == [(8, 0, 0)]


def test_memory_that_was_given_back_is_no_input_again(model):
    inputs, x = RepeatedInputs(), torch.ones(2, 4)
    inputs(model, [x])
    last, alive = weakref.ref(x), weakref.ref(model)
    del x
    gc.collect()
    assert last() is None
    inputs(model, [torch.ones(2, 4)])
    assert inputs.counts() == [(2, 0, 0)]
    assert alive() is model


def test_what_has_no_weights_or_is_given_no_tensor_is_not_counted(model):
    x = torch.ones(2, 4)
    assert counts(nn.CrossEntropyLoss(), [x], [x]) == []
    assert counts(model, [3], [3]) == []
    assert counts("text", [x], [x]) == []
    nested = torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(3, 4)])
    jagged = torch.nested.as_nested_tensor([torch.ones(2, 4)], layout=torch.jagged)
    assert counts(model, [nested], [jagged], [model.weight]) == []
    assert counts(model, [nested, x], [nested, x], [jagged, x]) == [(3, 1, 0)]
    assert counts(model, [x.to_sparse()], [x.to_mkldnn()], [x.to_sparse_csr()]) == [(3, 0, 0)]
    with torch.inference_mode():
        assert counts(model, [torch.ones(2)]) == []


def test_weights_without_versions_are_no_matter():
    inputs, x = RepeatedInputs(), torch.ones(2, 4)
    with torch.inference_mode():
        inputs(nn.Linear(4, 4), [x])
    assert inputs.counts() == []
    lazy = nn.LazyLinear(3)
    inputs(lazy, [x])
    lazy(x)
    inputs(lazy, [x])
    assert inputs.counts() == [(2, 0, 1)]


def test_only_the_first_calls_are_counted(model):
    ((calls, again, _),) = counts(model, *[[torch.ones(2, 4)]] * 100)
    assert (calls, again) == (64, 63)


def test_inside_a_transform_calls_can_be_looked_at(model):
    inputs = RepeatedInputs()

    def called(weights, x):
        inputs(model, [x])
        return torch.func.functional_call(model, weights, (x,)).sum()

    weights = dict(model.named_parameters())
    torch.func.vmap(torch.func.grad(called), (None, 0))(weights, torch.ones(3, 2, 4))
    assert inputs.counts() == [(1, 0, 0)]
