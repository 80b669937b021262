"""How often a model is called with the very tensors of a call before."""

import ctypes
import weakref
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeGuard

from profkit import marks
from profkit.capture._given_parts import parts

if TYPE_CHECKING:
    import torch

_MOST_CALLS = 64
_CALLS_BACK = 4
"""Calls of a model with which one is compared: it may be given several things in turn."""
_PARTS, _PART_BYTES = 64, 1024
"""What is looked at of a tensor without a version, where the CPU has it."""

Weights = tuple[tuple[int, int], ...]
Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Call:
    """What a model was given; the tensors that memory belongs to are followed, and not kept."""

    key: Key
    owners: tuple["weakref.ref[torch.Tensor]", ...]
    weights: Weights
    step: int

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
    counted: "Counter[tuple[int, str]]" = field(default_factory=Counter)
    """Calls by the place of the call among those of its step, and what kind of call it is."""

    place: tuple[int, int] = (-1, 0)
    """Step of the last call, and how many calls it has."""

    last: "weakref.WeakKeyDictionary[torch.nn.Module, deque[_Call]]" = field(
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
        step, place = marks.steps_seen(), self.place
        self.place = step, place[1] + 1 if step == place[0] else 1
        if not (weights and tensors and all(map(_is_known, tensors))):
            return
        owners = [one if one._base is None else one._base for one in tensors]  # noqa: SLF001
        call = _Call(
            key=(torch.is_grad_enabled(), called.training, *map(_value, values)),
            owners=tuple(map(weakref.ref, owners)),
            weights=weights,
            step=step,
        )
        self.calls += 1
        before = self.last.setdefault(called, deque(maxlen=_CALLS_BACK))
        kinds = ["calls"]
        if before and call.is_as(before[-1]):
            kinds.append("again" if before[-1].weights == weights else "after")
        if any(one.step != step and one.weights == weights and call.is_as(one) for one in before):
            kinds.append("across")
        self.counted.update((self.place[1] - 1, kind) for kind in kinds)
        before.append(call)

    def counts(self) -> list[tuple[int, ...]]:
        """Return a row for each place in a step that a call had, as `repeated_inputs` has them."""
        places = sorted({place for place, _ in self.counted})
        kinds = ("calls", "again", "across", "after")
        return [(place, *(self.counted[place, kind] for kind in kinds)) for place in places]


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
    version = _elements(part) if part.is_inference() else part._version  # noqa: SLF001
    return (version, tuple(part.shape), part.dtype, part.requires_grad, *place)


def _is_known(tensor: "torch.Tensor") -> bool:
    """Tell whether it can be seen that a tensor has changed: those of inference have no version."""
    import torch

    if not tensor.is_inference():
        return True
    is_here = tensor.device.type == "cpu" and torch._C._has_storage(tensor)  # noqa: SLF001
    return is_here and tensor.is_contiguous() and tensor.numel() > 0


def _elements(tensor: "torch.Tensor") -> bytes:
    """Return the memory of a tensor, evenly some of a large one, without calling an operator."""
    begin, size = tensor.data_ptr(), tensor.numel() * tensor.element_size()
    if size <= _PARTS * _PART_BYTES:
        return ctypes.string_at(begin, size)
    last = size - _PART_BYTES
    starts = (begin + last * at // (_PARTS - 1) for at in range(_PARTS))
    return b"".join(ctypes.string_at(start, _PART_BYTES) for start in starts)
