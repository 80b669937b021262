"""Unfused GELU: the activation written in single operators, by tanh or by erf."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from profkit.patterns._rows import (
    Chosen,
    called,
    cause,
    having,
    inside,
    per_step,
    place,
    time,
    trains,
)
from profkit.patterns.base import Match, Step, pattern

_ELEMENTWISE = r"^aten::(?:pow|mul|add|div|tanh|erf)$"
_BACKWARD = "^autograd::|Backward"
_BEFORE, _AFTER = {"aten::tanh": 5, "aten::erf": 2}, ["aten::add", "aten::mul"]
_CUBED = 3
_WRITTEN = {"aten::tanh": 'gelu(x, approximate="tanh")', "aten::erf": "gelu(x)"}
_GAIN = 1 / 2
"""One operator reads and writes once what five to eight do, and still has to compute it."""


@pattern(
    title="GELU in single operators",
    source="https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.gelu.html",
)
def match(cpu_ops: pd.DataFrame, kernels: pd.DataFrame, step: Step) -> Match | None:
    """Find ``1 + tanh`` of a cubic, or ``1 + erf``, that is multiplied, each of the same shape."""
    elementwise = called(cpu_ops) & having(cpu_ops, _ELEMENTWISE) & ~having(cpu_ops, _BACKWARD)
    chosen = np.zeros(len(cpu_ops), dtype=bool)
    roots: dict[str, list[int]] = {}
    positions = np.flatnonzero(elementwise)
    for _, rows in cpu_ops[elementwise].assign(at=positions).groupby(["repeat", "tid"]):
        ordered = rows.sort_values("start_ns", kind="stable")
        shapes = [str(shapes).partition("]")[0] for shapes in ordered["input_shapes"]]
        names = [str(name) for name in ordered["name"]]
        at = ordered["at"].to_numpy()
        for root, first in _written(names, shapes):
            roots.setdefault(names[root], []).append(int(at[root]))
            chosen[at[first : root + len(_AFTER) + 1]] = True
    if not roots:
        return None
    most = max(roots, key=lambda name: len(roots[name]))
    found = _at(cpu_ops, roots[most])
    differentiated = cpu_ops["forward"].isin(cpu_ops["op"][chosen]).to_numpy(bool)
    whole = inside(cpu_ops, chosen | differentiated)
    return Match(
        cause=cause(cpu_ops, whole, kernels),
        advice=f"Call `torch.nn.functional.{_WRITTEN[most]}` in its place: one operator instead of "
        f"five to eight{', and one tensor kept for backward' * trains(cpu_ops)}.",
        gain_ns=time(cpu_ops, whole, kernels) * _GAIN,
        place=place(cpu_ops, found),
        evidence={"activations_per_step": per_step(found, step.count)},
    )


def _at(cpu_ops: pd.DataFrame, positions: Sequence[int]) -> Chosen:
    chosen = np.zeros(len(cpu_ops), dtype=bool)
    chosen[list(positions)] = True
    return chosen


def _written(names: Sequence[str], shapes: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield where a tanh or erf of a GELU is, and its first operator, in those of one thread."""
    for root, name in enumerate(names):
        end = root + len(_AFTER) + 1
        if (most := _BEFORE.get(name)) is None or [*names[root + 1 : end]] != _AFTER:
            continue
        first = root
        while first > max(root - most, 0) and shapes[first - 1] == shapes[root]:
            first -= 1
        before = names[first:root]
        is_cubic = "aten::pow" in before or before.count("aten::mul") >= _CUBED
        is_same = set(shapes[first:end]) == {shapes[root]}
        if is_same and before and (name != "aten::tanh" or (is_cubic and "aten::add" in before)):
            yield root, first
