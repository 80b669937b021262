"""Memory by module and kind at one instant: each byte once, for the first that claims it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from profkit.capture.model_memory import find_tensors
from profkit.capture.model_memory.claimed_memory import ClaimedMemory
from profkit.capture.model_memory.live_objects import LiveObjects
from profkit.capture.model_memory.owned_tensors import (
    ModuleIndex,
    ModulePath,
    index_modules,
    local_tensors,
)
from profkit.capture.model_memory.saved_tensors import SavedTensors

_ORDER = ("parameters", "gathered", "masters", "gradients", "states", "buffers", "buckets")


@dataclass(kw_only=True, slots=True)
class MemoryAccount:
    """Bytes at one instant by model, module, kind, device and dtype."""

    rows: dict[tuple[str, str, str, str, str], list[int]] = field(default_factory=dict)
    """Bytes, tensors, and elements of parameters on all ranks together."""

    claimed: ClaimedMemory = field(default_factory=ClaimedMemory)

    def claim(
        self, kind: str, owner: ModulePath, tensor: torch.Tensor, elements: int = 0, *, whole: bool
    ) -> None:
        """Add the bytes of `tensor` that are not claimed yet to `owner`."""
        size = self.claimed.claim(tensor, owner, whole=whole)
        if size or elements:
            dtype = str(tensor.dtype).removeprefix("torch.")
            self.add(kind, owner, str(tensor.device), dtype, [size, 1, elements])

    def add(
        self, kind: str, owner: ModulePath, device: str, dtype: str, numbers: list[int]
    ) -> None:
        """Add bytes, tensors and elements to a row."""
        key = (owner.model, owner.path, kind, device, dtype)
        before = self.rows.get(key, [0, 0, 0])
        self.rows[key] = [one + other for one, other in zip(before, numbers, strict=True)]

    def known_bytes(self, device: str, kind: str = "", model: str = "") -> int:
        """Return the claimed bytes of a device, of one kind and model if they are given."""
        return sum(
            size
            for (row_model, _, row_kind, row_device, _), (size, *_) in self.rows.items()
            if row_device == device and kind in ("", row_kind) and model in ("", row_model)
        )

    def as_lists(self) -> list[list[Any]]:
        """Return the rows as lists: the five words of the key, bytes, tensors, elements."""
        return [[*key, *numbers] for key, numbers in sorted(self.rows.items())]


def take_account(
    live_objects: LiveObjects, saved: SavedTensors, *, others: bool
) -> tuple[MemoryAccount, ModuleIndex]:
    """Return the account of this instant, and the modules in it."""
    live_objects.refresh()
    models = live_objects.named_models()
    index = index_modules(models)
    account = MemoryAccount()
    of_models = find_tensors(models, list(live_objects.optimizers))
    for part in sorted(of_models, key=lambda part: _ORDER.index(part.kind)):
        owner = ModulePath(part.model, part.path)
        account.claim(part.kind, owner, part.tensor, part.elements, whole=False)
    for activation in saved:
        owner = index.path_by_module.get(activation.module, ModulePath("", ""))
        for tensor in local_tensors(activation.tensor):
            account.claim("activations", owner, tensor, whole=True)
    _claim_buckets(account, models, live_objects)
    if others:
        for found in live_objects.tensors:
            for tensor in _readable_parts(found):
                account.claim("other", ModulePath("", ""), tensor, whole=True)
    live_objects.release_tensors()
    for storage, rest in list(account.claimed.unclaimed()):
        owner = storage.owner or ModulePath("", "")
        account.add("kept", owner, storage.device, "", [rest, 0, 0])
    _add_rest(account)
    return account, index


def _readable_parts(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield the parts of a tensor of any program; none if it was not completely made."""
    try:
        yield from local_tensors(tensor)
    except AttributeError:
        # A distributed tensor, or another subclass, whose constructor failed lacks its parts.
        return


def _claim_buckets(
    account: MemoryAccount, models: dict[str, nn.Module], live_objects: LiveObjects
) -> None:
    """Claim DDP's buckets for gradients, and add the bytes that it states but Python cannot see.

    Its buckets are C++ objects, but gradients that are views of one stay visible to Python, with
    the bucket as their base, after their last use.
    """
    for name, model in models.items():
        if not isinstance(model, nn.parallel.DistributedDataParallel):
            continue
        stated: dict[str, Any] = dict(model._get_ddp_logging_data())  # type: ignore[no-untyped-call] # noqa: SLF001
        text = stated.get("rebuilt_bucket_sizes") or stated.get("bucket_sizes") or "0"
        sizes = [int(size) for size in text.split(",")]
        owner, device = ModulePath(name, ""), str(next(model.parameters()).device)
        unseen = sum(sizes)
        if stated.get("gradient_as_bucket_view"):
            for bucket in _bases(live_objects.tensors, set(sizes)):
                account.claim("buckets", owner, bucket, whole=True)
            unseen -= account.known_bytes(device, "gradients", name)
            unseen -= account.known_bytes(device, "buckets", name)
        if unseen > 0:
            account.add("buckets", owner, device, "", [unseen, 0, 0])


def _bases(found: list[torch.Tensor], sizes_bytes: set[int]) -> Iterator[torch.Tensor]:
    """Yield the flat tensors of these sizes that others are views of."""
    for tensor in found:
        base = tensor._base if type(tensor) is torch.Tensor else None  # noqa: SLF001 - no other way
        if base is not None and base.dim() == 1 and base.nbytes in sizes_bytes:
            yield base


def _add_rest(account: MemoryAccount) -> None:
    """Add the unclaimed bytes that CUDA's allocator has given out, and those in its cache."""
    if not (torch.cuda.is_available() and torch.cuda.is_initialized()):  # type: ignore[no-untyped-call]
        return
    for index in range(torch.cuda.device_count()):
        device = f"cuda:{index}"
        allocated = torch.cuda.memory_allocated(index)
        rest = allocated - account.known_bytes(device)
        cache = torch.cuda.memory_reserved(index) - allocated
        for kind, size in (("rest", rest), ("cache", cache)):
            if size > 0:
                account.add(kind, ModulePath("", ""), device, "", [size, 0, 0])
