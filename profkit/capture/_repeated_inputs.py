"""How often a model is called with the very tensors of the call before."""

import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeGuard

from profkit.capture._given_parts import parts

if TYPE_CHECKING:
    import torch

_MOST_CALLS = 64

Weights = tuple[tuple[int, int], ...]
Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Call:
    """What a model was given; the tensors that memory belongs to are followed, and not kept."""

    key: Key
    owners: tuple["weakref.ref[torch.Tensor]", ...]
    weights: Weights

    def is_as(self, before: "_Call") -> bool:
        """Say whether the same tensors were given, with the same values."""
        if self.key != before.key:
            return False
        owners = zip(self.owners, before.owners, strict=True)
        return all(own() is not None and own() is other() for own, other in owners)


@dataclass(slots=True)
class RepeatedInputs:
    """Counts calls of models by what they were given: no operator is called, nothing is kept."""

    calls: int = 0
    again: int = 0
    after: int = 0
    last: "weakref.WeakKeyDictionary[torch.nn.Module, _Call]" = field(
        default_factory=weakref.WeakKeyDictionary
    )

    def __call__(self, called: object, given: Iterable[object]) -> None:
        """Count a call of a model with weights."""
        import torch

        if self.calls < _MOST_CALLS and isinstance(called, torch.nn.Module):
            # Parameters of other classes, as those of lazy modules, may refuse to be looked at.
            with torch._C.DisableTorchFunctionSubclass():  # noqa: SLF001 - no public name
                self._count(called, given)

    def _count(self, called: "torch.nn.Module", given: Iterable[object]) -> None:
        import torch

        if any(map(torch.Tensor.is_inference, called.parameters())):
            return
        weights = tuple((id(one), one._version) for one in called.parameters())  # noqa: SLF001
        values = [*parts(given)]
        tensors = [part for part in values if _is_plain(part)]
        if not (weights and tensors) or any(map(torch.Tensor.is_inference, tensors)):
            return
        owners = [one if one._base is None else one._base for one in tensors]  # noqa: SLF001
        call = _Call(
            key=(torch.is_grad_enabled(), called.training, *map(_value, values)),
            owners=tuple(map(weakref.ref, owners)),
            weights=weights,
        )
        self.calls += 1
        before = self.last.get(called)
        if before and call.is_as(before):
            self.again += before.weights == weights
            self.after += before.weights != weights
        self.last[called] = call

    def counts(self) -> list[tuple[int, int, int]]:
        """Return calls, those with the same weights and those with others, unless none was seen."""
        return [(self.calls, self.again, self.after)] if self.calls else []


def _is_plain(part: object) -> "TypeGuard[torch.Tensor]":
    """Tell whether `part` is a tensor with one shape, and of no class that may act otherwise."""
    import torch

    return type(part) is torch.Tensor and not part.is_nested


def _value(part: object) -> object:
    """Return what tells one value from another, of a tensor without looking at its elements."""
    import torch

    if not _is_plain(part):
        return part if isinstance(part, int | float | str | bytes | None) else id(part)
    place = (part.storage_offset(), *part.stride()) if part.layout is torch.strided else ()
    return (part._version, tuple(part.shape), part.dtype, part.requires_grad, *place)  # noqa: SLF001
