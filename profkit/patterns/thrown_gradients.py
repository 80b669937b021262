"""Thrown gradients: of what another optimizer trains, by another loss.

As those of a generator where its critic learns from what it made, or of the critic where the
generator learns by its judgement. Backward adds to the gradient that is there. Where there is none,
an optimizer has used all before, or they are lost.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.patterns._communication import of_kind
from profkit.patterns._gradients import (
    STEPS,
    Shape,
    backward_of,
    gradients_of,
    passes_of,
    shapes,
    with_shapes,
)
from profkit.patterns._parameter_loops import differentiated
from profkit.patterns._python_calls import OWN_ALONE, innermost_line
from profkit.patterns._rows import Chosen, cause, having, inside, parents, time
from profkit.patterns._shapes import elements, shape
from profkit.patterns.base import Match, Step, pattern

_ADDS = r"^aten::add_?$"
_USES = (
    r"^aten::(?:_fused_|_foreach_|add|sub|mul|div|sqrt|lerp|pow|sign|copy_|clone|norm"
    r"|linalg_(?:vector_)?norm|dot|view|reshape|flatten|cat)"
)
"""Operators of optimizers, and of programs that do something of their own with gradients."""
_OF_INPUTS = 0.5
"""Of the time of a layer's gradients: those of its inputs are needed for the layers before it."""
_FEWEST = 4

_At = tuple[Shape, int]
"""A shape, and the number of a backward pass in the order of time."""


class _Useless(NamedTuple):
    """What backward does for gradients that are lost."""

    alone: Chosen
    """Operators behind the last gradient of a pass that is used."""

    shared: Chosen
    """Operators before that, of passes in which these compute both kinds."""

    share: float
    """That of the lost ones among the gradients that these compute, by their elements."""


@pattern(
    title="Gradients thrown away",
    source="https://docs.pytorch.org/docs/stable/notes/autograd.html"
    "#locally-disabling-gradient-computation",
    calls=OWN_ALONE,
)
def match(
    cpu_ops: pd.DataFrame,
    kernels: pd.DataFrame,
    collectives: pd.DataFrame,
    python_calls: pd.DataFrame,
    step: Step,
) -> Match | None:
    """Find gradients that are set to none before the optimizer that they are for uses them."""
    backward, marks = backward_of(cpu_ops), passes_of(cpu_ops)
    # Closures of optimizers look at gradients themselves.
    if (
        not backward.any()
        or not marks.any()
        or (marks & inside(cpu_ops, having(cpu_ops, STEPS))).any()
    ):
        return None
    # Where ranks share out the parameters, another one updates the others and hands them over.
    uses = with_shapes(cpu_ops, having(cpu_ops, _USES) & ~backward & ~differentiated(cpu_ops))
    if not uses.any() or not of_kind(collectives, "allreduce").all():
        return None
    start_ns = cpu_ops["start_ns"].to_numpy(np.int64)
    begun_ns = np.sort(start_ns[marks])
    passes = np.searchsorted(begun_ns, start_ns, "right") - 1
    known = {*zip(cpu_ops["input_shapes"][uses].astype(object), passes[uses].tolist(), strict=True)}
    found = _Gradients.of(cpu_ops, passes)
    used = [(one, at) for text, at in known for one in shapes(str(text))]
    lost = found.lost(used, round(len(begun_ns) / step.count))
    number = round(int(lost.sum()) / step.count)
    if number < _FEWEST:
        return None
    useless = found.useless(lost, cpu_ops, passes)
    alone, shared = backward & useless.alone, backward & useless.shared
    lines = innermost_line(python_calls, cpu_ops["start_ns"][alone if alone.any() else shared])
    return Match(
        cause=cause(cpu_ops, backward, kernels),
        advice=f"Backward computes gradients of {number} tensors that are set to none before their "
        "optimizer steps: `detach()` the output of a model that this loss is not to train, or "
        "`requires_grad_(False)` on it while it only passes gradients on.",
        gain_ns=time(cpu_ops, alone, kernels)
        + _OF_INPUTS * useless.share * time(cpu_ops, shared, kernels),
        place=str(python_calls["name"][lines].iloc[0]) if lines.any() else "",
        evidence={"thrown_gradients": number},
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Gradients:
    """The gradients of parameters in a trace, one row each."""

    rows: Chosen
    """Which rows of the table of operators they are."""

    at: list[_At]
    are_fresh: Chosen
    """Whether there was no gradient to add to."""

    @classmethod
    def of(cls, cpu_ops: pd.DataFrame, passes: NDArray[np.int64]) -> "_Gradients":
        """Return those in `passes`, the number of the pass that each operator is in or behind."""
        chosen = gradients_of(cpu_ops) & (passes >= 0)
        texts = cpu_ops["input_shapes"][chosen].astype(object)
        given = [tuple(shape(str(text))) for text in texts]
        return cls(
            rows=chosen,
            at=[*zip(given, passes[chosen].tolist(), strict=True)],
            are_fresh=~parents(cpu_ops, having(cpu_ops, _ADDS))[chosen],
        )

    def lost(self, updated: Collection[_At], passes_per_step: int) -> Chosen:
        """Choose those that no optimizer uses before there is none to add to.

        Where the trace ends before that, they are as those of the step before. Nothing is said of
        parameters that no optimizer updates.
        """
        fresh = _by_shape(
            at for at, is_fresh in zip(self.at, self.are_fresh, strict=True) if is_fresh
        )
        used = _by_shape(updated)
        fates = {
            at: _is_lost(at[1], fresh.get(at[0], []), used.get(at[0], [])) for at in {*self.at}
        }
        made = []
        for one, at in self.at:
            fate = fates[one, at]
            made.append(fates.get((one, at - passes_per_step)) if fate is None else fate)
        return np.array(made, dtype=np.bool_)

    def useless(self, lost: Chosen, cpu_ops: pd.DataFrame, passes: NDArray[np.int64]) -> _Useless:
        """Return what is done for gradients that are `lost`, and for the others as well."""
        start, end = (cpu_ops[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
        of_rows = passes[self.rows]
        used_until = np.zeros(int(passes.max()) + 1, dtype=np.int64)
        np.maximum.at(used_until, of_rows[~lost], end[self.rows][~lost])
        behind = np.isin(passes, of_rows[lost]) & (start >= used_until[passes])
        shared = ~behind & np.isin(passes, of_rows[lost & ~behind[self.rows]])
        sizes = np.array([elements(list(one)) for one, _ in self.at], dtype=np.float64)
        before = shared[self.rows]
        return _Useless(
            alone=behind,
            shared=shared,
            share=float(sizes[before & lost].sum() / max(sizes[before].sum(), 1.0)),
        )


def _by_shape(found: Iterable[_At]) -> dict[Shape, list[int]]:
    """Return the passes of each shape, in their order."""
    made: dict[Shape, list[int]] = {}
    for one, at in sorted({*found}):
        made.setdefault(one, []).append(at)
    return made


def _is_lost(at: int, fresh: Sequence[int], used: Sequence[int]) -> bool | None:
    """Say whether gradients of the pass `at` are lost; None where the trace does not tell.

    `fresh` are passes that found no gradient to add to, and `used` those before an update.
    """
    if not used:
        return False
    next_fresh = bisect_right(fresh, at)
    next_used = bisect_left(used, at)
    if next_fresh == len(fresh):
        return False if next_used < len(used) else None
    return next_used == len(used) or used[next_used] >= fresh[next_fresh]
