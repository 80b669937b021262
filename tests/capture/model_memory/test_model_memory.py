import random

import pytest
import torch
from torch import nn, optim
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.masked import masked_tensor

from profkit.capture.model_memory.claimed_memory import ClaimedMemory, tensors_with_memory
from profkit.capture.model_memory.memory_account import _readable_parts
from tests.capture.model_memory.tensor_sizes import sizes_bytes


def trained(model, optimizer):
    model(torch.randn(2, 3)).sum().backward()
    optimizer.step()


def test_a_plain_model_holds_parameters_gradients_and_moments():
    model = nn.Linear(3, 4)
    optimizer = optim.AdamW(model.parameters())
    assert sizes_bytes(model, [optimizer]) == {
        "parameters": 16 * 4,
        "gradients": 0,
        "masters": 0,
        "states": 0,
    }
    trained(model, optimizer)
    # Two moments for each parameter, and for each tensor the number of its steps.
    assert sizes_bytes(model, [optimizer]) == {
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
    assert sizes_bytes(model, [])["parameters"] == 12 * 4


def test_each_of_several_optimizers_counts():
    model = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 2, bias=False))
    optimizers = [optim.SGD(layer.parameters(), lr=0.1, momentum=0.9) for layer in model]
    model(torch.randn(2, 3)).sum().backward()
    for optimizer in optimizers:
        optimizer.step()
    assert sizes_bytes(model, optimizers)["states"] == (9 + 6) * 4


def test_every_byte_belongs_to_the_first_that_claims_it():
    claimed = ClaimedMemory()
    buffer = torch.zeros(12)
    assert claimed.claim(buffer[2:4]) == 2 * 4
    assert claimed.claim(buffer[6:8]) == 2 * 4
    assert claimed.claim(buffer[3:7]) == 2 * 4
    assert claimed.claim(buffer[2:8]) == 0
    # Columns of a matrix reach from its first element to its last but two.
    assert claimed.claim(buffer.view(4, 3)[:, 0]) == (12 - 2 - 6) * 4
    assert [rest for _, rest in claimed.unclaimed()] == [2 * 4]


@pytest.mark.parametrize("seed", range(5))
def test_claims_of_any_order_add_up_to_what_they_cover(seed):
    draws = random.Random(seed)  # noqa: S311 - not for secrets
    buffer, covered, claimed = torch.zeros(200), set(), ClaimedMemory()
    for _ in range(60):
        start = draws.randrange(200)
        positions = set(range(start, min(start + draws.randrange(1, 30), 200)))
        new = len(positions - covered)
        covered |= positions
        assert claimed.claim(buffer[start : max(positions) + 1]) == 4 * new
    (storage,) = claimed.storages.values()
    assert storage.covered_bytes == 4 * len(covered)


def test_a_view_keeps_its_storage_unless_that_is_somebodys():
    claimed = ClaimedMemory()
    # Both are kept: the second could get the place of the first.
    view, buffer = torch.zeros(100)[:1], torch.zeros(100)
    assert claimed.claim(view, whole=True) == 400
    assert claimed.claim(buffer[:50]) == 200
    assert claimed.claim(buffer[40:60], whole=True) == 40


def test_sparse_tensors_are_their_parts_and_meta_tensors_none():
    matrix = torch.eye(4)
    parts = {
        kind: sum(tensor.nbytes for tensor in tensors_with_memory(make(matrix)))
        for kind, make in SPARSE.items()
    }
    # Values of 4 bytes and indices of 8: two each; or five rows' ends and one column each.
    assert parts == {"coo": 4 * 4 + 4 * 2 * 8, "csr": 4 * 4 + (5 + 4) * 8, "csc": 4 * 4 + 9 * 8}
    assert list(tensors_with_memory(torch.empty(4, device="meta"))) == []


SPARSE = {
    "coo": torch.Tensor.to_sparse,
    "csr": torch.Tensor.to_sparse_csr,
    "csc": torch.Tensor.to_sparse_csc,
}


def kept_by(transform):
    """Return what a function under a transform of functorch saw, after its end."""
    seen = []
    transform(lambda given: seen.append(given) or given.sum())(torch.ones(3, 3))
    return seen[0]


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch._to_functional_tensor(torch.ones(3)),
        lambda: masked_tensor(torch.ones(3), torch.tensor([True, False, True])),
        lambda: kept_by(torch.func.grad),
        lambda: kept_by(torch.func.vmap),
        nn.UninitializedParameter,
        lambda: FakeTensorMode().from_tensor(torch.ones(3)),
    ],
    ids=["functional", "masked", "of grad", "of vmap", "lazy", "fake"],
)
@pytest.mark.filterwarnings("ignore:The PyTorch API of MaskedTensors")
def test_a_tensor_without_memory_of_its_own_is_none(make):
    assert list(tensors_with_memory(make())) == []


def test_a_tensor_of_several_shapes_has_all_of_its_buffer():
    (found,) = tensors_with_memory(torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]))
    assert ClaimedMemory().claim(found) == 5 * 4


def test_a_lazy_model_has_no_memory_before_its_first_call():
    model = nn.Sequential(nn.LazyLinear(2), nn.Linear(2, 2, bias=False))
    assert sizes_bytes(model, [])["parameters"] == 4 * 4
    model(torch.ones(1, 3))
    assert sizes_bytes(model, [])["parameters"] == (3 * 2 + 2 + 4) * 4


def test_a_tensor_whose_making_failed_is_passed_over():
    from torch.distributed.tensor import DTensor

    half = torch.Tensor._make_wrapper_subclass(DTensor, (3,))
    assert list(_readable_parts(half)) == []
    whole = torch.ones(3)
    assert [part is whole for part in _readable_parts(whole)] == [True]
