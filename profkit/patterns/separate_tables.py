"""Separate tables: many embeddings of one width that are looked up one after the other."""

from collections import Counter

import numpy as np
import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._parameter_loops import GRADIENT, UPDATE
from profkit.patterns._python_calls import OWN_ALONE, innermost_line
from profkit.patterns._rows import Chosen, equal, fitting, having, inside, per_step, place, time
from profkit.patterns._shapes import MATRIX, shape
from profkit.patterns.base import CHARGED, Match, Step, pattern

_FEWEST = 8
"""Tables of one width."""

_MOST_NS = 20_000
"""Operators that compute no longer, without a profiler, mostly cost their call."""

_LOOKUPS = r"^aten::embedding(?:_bag)?$"
_BACKWARD = r"^autograd::engine::evaluate_function: Embedding(?:Bag)?Backward"
_OF_SPARSE = r"^Optimizer\.step#Sparse"


@pattern(
    title="Embedding tables one by one",
    source="https://docs.pytorch.org/docs/stable/generated/torch.nn.EmbeddingBag.html",
    calls=OWN_ALONE,
    without_gpu=True,
)
def match(cpu_ops: pd.DataFrame, python_calls: pd.DataFrame, step: Step) -> Match | None:
    """Find short operators of tables that could be one, their updates among them."""
    lookups = having(cpu_ops, _LOOKUPS)
    tables = _tables(cpu_ops, lookups, step)
    if not tables:
        return None
    count, width = tables.total(), next(iter(tables))[1]
    own = fitting(cpu_ops, "input_shapes", lambda text: tuple(shape(text)) in tables)
    chosen = inside(cpu_ops, having(cpu_ops, f"{_BACKWARD}|{_OF_SPARSE}") | (lookups & own))
    chosen |= own & (equal(cpu_ops, "name", GRADIENT) | inside(cpu_ops, having(cpu_ops, UPDATE)))
    short = chosen & (cpu_ops[CHARGED].to_numpy() < _MOST_NS * step.slowdown)
    lines = innermost_line(python_calls, cpu_ops["start_ns"][lookups & own])
    module = "EmbeddingBag" if having(cpu_ops[lookups & own], "_bag$").any() else "Embedding"
    return Match(
        cause="cpu_operators",
        advice=f"{count} tables of width {width} are looked up one by one in each step: put them "
        f"into one `torch.nn.{module}`, and add to the indices of each the number of rows before "
        "its own.",
        gain_ns=time(cpu_ops, short) * (1 - 1 / count),
        place=str(python_calls["name"][lines].iloc[0]) if lines.any() else place(cpu_ops, lookups),
        confidence=Confidence.MEDIUM,
        evidence={"tables": count, "operators_per_step": per_step(chosen, step.count)},
    )


def _tables(cpu_ops: pd.DataFrame, lookups: Chosen, step: Step) -> Counter[tuple[int, ...]]:
    """Return how many tables there are of each shape, of the width that most have; none of few.

    Of equal tables each gets a gradient; without training they count as one, as it may be one that
    is looked up several times.
    """
    looked_up, gradients = (
        Counter(tuple(shape(text)) for text in cpu_ops["input_shapes"][rows].astype(str))
        for rows in (lookups, equal(cpu_ops, "name", GRADIENT))
    )
    counts = {
        of: max(round(min(times, gradients[of]) / step.count), 1)
        for of, times in looked_up.items()
        if len(of) == MATRIX and np.prod(of)
    }
    widths = Counter[int]()
    for (_, width), number in counts.items():
        widths[width] += number
    most = max(widths, key=widths.__getitem__, default=0)
    tables = Counter({of: number for of, number in counts.items() if of[1] == most})
    return tables if tables.total() >= _FEWEST else Counter()
