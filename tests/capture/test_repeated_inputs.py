"""Calls of a model with the tensors of the call before, without an operator being called."""

import gc
import weakref

import pytest
import torch
from torch import nn

from profkit import marks
from profkit.capture._repeated_inputs import RepeatedInputs


@pytest.fixture
def model():
    return nn.Linear(4, 4)


@pytest.fixture
def step(monkeypatch):
    """Return what begins the next step."""
    ended = []
    monkeypatch.setattr(marks, "steps_seen", lambda: len(ended))
    return lambda: ended.append(1)


def summed(inputs):
    """Return calls, those with the same weights, and those with others, of all places."""
    rows = inputs.counts()
    return [tuple(sum(row[at] for row in rows) for at in (1, 2, 4))] if rows else []


def counts(model, *given):
    inputs = RepeatedInputs()
    for one in given:
        inputs(model, one)
    return summed(inputs)


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
    assert summed(inputs) == [(3, 1, 1)]


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
    assert summed(inputs) == [(8, 0, 0)]


def test_memory_that_was_given_back_is_no_input_again(model):
    inputs, x = RepeatedInputs(), torch.ones(2, 4)
    inputs(model, [x])
    last, alive = weakref.ref(x), weakref.ref(model)
    del x
    gc.collect()
    assert last() is None
    inputs(model, [torch.ones(2, 4)])
    assert summed(inputs) == [(2, 0, 0)]
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


def test_tensors_of_inference_are_known_by_what_is_in_them(model):
    for shape in ((2, 4), (300, 4096)):
        with torch.inference_mode():
            x, y = torch.ones(shape), torch.ones(shape, dtype=torch.bfloat16)
            assert counts(model, [x], [x], [y], [y]) == [(4, 2, 0)]
            inputs = RepeatedInputs()
            inputs(model, [x])
            x[-1, -1] = 2
            inputs(model, [x])
            assert summed(inputs) == [(2, 0, 0)]
            assert counts(model, [x[:, 1:]], [torch.ones(0)], [x.to("meta")]) == []


def test_calls_are_counted_by_their_place_in_a_step(model, step):
    inputs, other = RepeatedInputs(), nn.Linear(4, 4)
    words = torch.ones(2, 4)
    for _ in range(5):
        inputs(other, [words])
        inputs(model, [torch.ones(2, 4)])
        inputs(nn.Conv2d(1, 1, 1), [3])
        inputs(model, [words])
        inputs(model, [words])
        step()
    assert inputs.counts() == [(0, 5, 4, 4, 0), (1, 5, 0, 0, 0), (3, 5, 0, 4, 0), (4, 5, 5, 4, 0)]


def test_a_model_may_be_given_what_changes_in_between(model, step):
    inputs, corpus = RepeatedInputs(), torch.ones(9, 4)
    for query in torch.ones(6, 2, 4).unbind():
        inputs(model, [corpus])
        step()
        inputs(model, [query + 1])
        step()
    assert inputs.counts() == [(0, 12, 0, 5, 0)]
    with torch.no_grad():
        model.bias.add_(1)
    inputs(model, [corpus])
    assert inputs.counts() == [(0, 13, 0, 5, 0)]


def test_weights_without_versions_are_no_matter():
    inputs, x = RepeatedInputs(), torch.ones(2, 4)
    with torch.inference_mode():
        inputs(nn.Linear(4, 4), [x])
    assert summed(inputs) == []
    lazy = nn.LazyLinear(3)
    inputs(lazy, [x])
    lazy(x)
    inputs(lazy, [x])
    assert summed(inputs) == [(2, 0, 1)]


def test_only_the_first_calls_are_counted(model):
    [(calls, again, _)] = counts(model, *[[torch.ones(2, 4)]] * 100)
    assert (calls, again) == (64, 63)


def test_inside_a_transform_calls_can_be_looked_at(model):
    inputs = RepeatedInputs()

    def called(weights, x):
        inputs(model, [x])
        return torch.func.functional_call(model, weights, (x,)).sum()

    weights = dict(model.named_parameters())
    torch.func.vmap(torch.func.grad(called), (None, 0))(weights, torch.ones(3, 2, 4))
    assert summed(inputs) == [(1, 0, 0)]
