"""Who has which bytes of memory at one instant: each byte once, for the first that claims it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from profkit.capture.model_memory import pieces
from profkit.capture.model_memory.extents import Extents
from profkit.capture.model_memory.live_objects import Living
from profkit.capture.model_memory.pieces import Named, Owner, named, tensors
from profkit.capture.model_memory.saved_tensors import SavedTensors

_ORDER = ("parameters", "gathered", "masters", "gradients", "states", "buffers", "buckets")


@dataclass(kw_only=True, slots=True)
class Account:
    """The bytes at one instant by model, module, kind, device and type of element."""

    rows: dict[tuple[str, str, str, str, str], list[int]] = field(default_factory=dict)
    """Bytes, tensors, and elements of parameters on all ranks together."""

    extents: Extents = field(default_factory=Extents)

    def claim(
        self, kind: str, owner: Owner, tensor: torch.Tensor, elements: int = 0, *, whole: bool
    ) -> None:
        """Give what nobody has of `tensor` to `owner`."""
        size = self.extents.claim(tensor, owner, whole=whole)
        if size or elements:
            dtype = str(tensor.dtype).removeprefix("torch.")
            self.add(kind, owner, str(tensor.device), dtype, [size, 1, elements])

    def add(self, kind: str, owner: Owner, device: str, dtype: str, numbers: list[int]) -> None:
        """Add bytes, tensors and elements to a row."""
        key = (owner.model, owner.path, kind, device, dtype)
        before = self.rows.get(key, [0, 0, 0])
        self.rows[key] = [one + other for one, other in zip(before, numbers, strict=True)]

    def known_bytes(self, device: str, kind: str = "", model: str = "") -> int:
        """Return the bytes of a device that are accounted for, of one kind and model if given."""
        return sum(
            size
            for (name, _, of, at, _), (size, *_) in self.rows.items()
            if at == device and kind in ("", of) and model in ("", name)
        )

    def written(self) -> list[list[Any]]:
        """Return the rows as lists: the five words of the key, bytes, tensors, elements."""
        return [[*key, *numbers] for key, numbers in sorted(self.rows.items())]


def taken(living: Living, saved: SavedTensors, *, others: bool) -> tuple[Account, Named]:
    """Return the account of this instant, and the modules that it names."""
    living.look()
    models = living.named_models()
    places = named(models)
    account = Account()
    of_models = pieces(models, list(living.optimizers))
    for each in sorted(of_models, key=lambda piece: _ORDER.index(piece.kind)):
        owner = Owner(each.model, each.path)
        account.claim(each.kind, owner, each.tensor, each.elements, whole=False)
    for kept in saved:
        owner = places.modules.get(kept.module, Owner("", ""))
        for tensor in tensors(kept.tensor):
            account.claim("activations", owner, tensor, whole=True)
    _claim_buckets(account, models, living)
    if others:
        for found in living.tensors:
            for tensor in _readable(found):
                account.claim("other", Owner("", ""), tensor, whole=True)
    living.forget()
    for storage, rest in list(account.extents.unclaimed()):
        owner = storage.owner or Owner("", "")
        account.add("kept", owner, storage.device, "", [rest, 0, 0])
    _add_rest(account)
    return account, places


def _readable(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield the parts of somebody's tensor; none of one that is no real one."""
    try:
        yield from tensors(tensor)
    except AttributeError:
        # A distributed tensor, or another subclass, whose making has failed lacks its parts.
        return


def _claim_buckets(account: Account, models: dict[str, nn.Module], living: Living) -> None:
    """Claim what DDP reduces gradients in, and add what it states to have beyond what is seen.

    Its buckets are its own, but gradients that are views of one stay visible to Python, with the
    bucket as their base, when nobody has them any more.
    """
    for name, model in models.items():
        if not isinstance(model, nn.parallel.DistributedDataParallel):
            continue
        stated: dict[str, Any] = dict(model._get_ddp_logging_data())  # type: ignore[no-untyped-call] # noqa: SLF001
        text = stated.get("rebuilt_bucket_sizes") or stated.get("bucket_sizes") or "0"
        sizes = [int(each) for each in text.split(",")]
        owner, device = Owner(name, ""), str(next(model.parameters()).device)
        unseen = sum(sizes)
        if stated.get("gradient_as_bucket_view"):
            for bucket in _bases(living.tensors, set(sizes)):
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


def _add_rest(account: Account) -> None:
    """Add what CUDA's allocator has given out beyond all that, and what it keeps for later."""
    if not (torch.cuda.is_available() and torch.cuda.is_initialized()):  # type: ignore[no-untyped-call]
        return
    for index in range(torch.cuda.device_count()):
        device = f"cuda:{index}"
        allocated = torch.cuda.memory_allocated(index)
        rest = allocated - account.known_bytes(device)
        cache = torch.cuda.memory_reserved(index) - allocated
        for kind, size in (("rest", rest), ("cache", cache)):
            if size > 0:
                account.add(kind, Owner("", ""), device, "", [size, 0, 0])
