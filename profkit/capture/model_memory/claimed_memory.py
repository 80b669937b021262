"""extents: which bytes of memory tensors cover, each byte counted for the first that claims it."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn.parameter import is_lazy
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

_COMPRESSED = ("crow_indices", "ccol_indices", "col_indices", "row_indices", "values")


@dataclass(slots=True)
class Storage:
    """One block of memory that tensors are views of."""

    device: str
    """Type and index, such as cuda:0."""

    size_bytes: int
    """Bytes of the whole block."""

    owner: Any
    """Owner of the first claim to a part of it."""

    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    def cover(self, start: int, end: int) -> int:
        """Cover the bytes from `start` to `end`, and return how many were not covered before."""
        first = bisect_left(self.ends, start)
        last = bisect_right(self.starts, end)
        before = sum(map(int.__sub__, self.ends[first:last], self.starts[first:last]))
        if first < last:
            start, end = min(start, self.starts[first]), max(end, self.ends[last - 1])
        self.starts[first:last] = [start]
        self.ends[first:last] = [end]
        return end - start - before

    @property
    def covered_bytes(self) -> int:
        """Bytes that some tensor covers."""
        return sum(self.ends) - sum(self.starts)


class ClaimedMemory:
    """The memory that was claimed so far, by storage."""

    def __init__(self) -> None:
        self.storages: dict[int, Storage] = {}

    def claim(self, tensor: torch.Tensor, owner: Any = None, *, whole: bool = False) -> int:
        """Claim the bytes of `tensor`, which is dense; return how many were unclaimed before.

        With `whole`, claim all of a storage without claims: a view keeps all of it alive.
        """
        memory = tensor.untyped_storage()
        start, size = memory.data_ptr(), int(memory.nbytes())
        if start == 0 or size == 0:
            return 0
        storage = self.storages.get(start)
        if storage is None:
            storage = self.storages[start] = Storage(str(tensor.device), size, owner)
        elif not storage.starts:
            storage.owner = owner
        if whole and not storage.starts:
            return storage.cover(0, size)
        offset = int(tensor.storage_offset()) * tensor.element_size()
        end = min(offset + span_bytes(tensor), size)
        return storage.cover(offset, end) if end > offset else 0

    def unclaimed(self) -> Iterator[tuple[Storage, int]]:
        """Yield storages that tensors cover only in part, and the bytes of the rest."""
        for storage in self.storages.values():
            if rest := storage.size_bytes - storage.covered_bytes:
                yield storage, rest


def span_bytes(tensor: torch.Tensor) -> int:
    """Return the bytes from the first to the last element, however far they lie apart."""
    if tensor.is_nested:
        return int(tensor.untyped_storage().nbytes())  # of several shapes, and so of none
    if tensor.numel() == 0:
        return 0
    reach = sum(
        (size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
    )
    return (reach + 1) * tensor.element_size()


def tensors_with_memory(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield the tensors with memory of their own, on this rank, that `tensor` is made of.

    One for a plain tensor, the local one for a distributed one, indices and values for a sparse
    one; none for tensors without memory: meta, fake and lazy ones, wrappers, unknown layouts.
    """
    if hasattr(tensor, "to_local"):
        yield from tensors_with_memory(tensor.to_local().detach())
    elif is_traceable_wrapper_subclass(tensor):
        parts = [getattr(tensor, name) for name in tensor.__tensor_flatten__()[0]]
        for part in parts:
            # Some name a mesh or another description among them.
            if isinstance(part, torch.Tensor):
                yield from tensors_with_memory(part)
    elif tensor.layout == torch.sparse_coo:
        yield from (tensor._indices(), tensor._values())  # noqa: SLF001 - coalesced or not
    elif tensor.layout != torch.strided:
        yield from (getattr(tensor, name)() for name in _COMPRESSED if _has_part(tensor, name))
    elif _has_memory(tensor):
        yield tensor


def _has_memory(tensor: torch.Tensor) -> bool:
    if is_lazy(tensor):
        return False  # a parameter of a lazy module before its first call
    try:
        storage = tensor.untyped_storage()
        if storage.device.type == "meta":
            return False
        storage.data_ptr()
    except RuntimeError:
        # PyTorch raises this for wrappers: functional and masked tensors, and those of a functorch
        # transform that is over. The wrapped tensor has the memory.
        return False
    return True


def _has_part(tensor: torch.Tensor, name: str) -> bool:
    rows = (torch.sparse_csr, torch.sparse_bsr)
    columns = (torch.sparse_csc, torch.sparse_bsc)
    if name == "values":
        return tensor.layout in (*rows, *columns)
    return tensor.layout in (rows if name in ("crow_indices", "col_indices") else columns)
