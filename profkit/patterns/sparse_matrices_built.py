"""Sparse matrices built: entries of a matrix that are sorted again in each step."""

import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._parameter_loops import UPDATE
from profkit.patterns._rows import cause, having, inside, per_step, place, time
from profkit.patterns.base import Match, Step, pattern


@pattern(
    title="Sparse matrices built in each step",
    source="https://docs.pytorch.org/docs/stable/sparse.html#sparse-uncoalesced-coo-docs",
)
def match(cpu_ops: pd.DataFrame, kernels: pd.DataFrame, step: Step) -> Match | None:
    """Find the time in `coalesce`, which sorts entries and adds up those of one place.

    That of sparse gradients is left out: these are new in each step.
    """
    calls = having(cpu_ops, r"^aten::_?coalesce$") & ~inside(cpu_ops, having(cpu_ops, UPDATE))
    if not calls.any():
        return None
    chosen = inside(cpu_ops, calls)
    return Match(
        cause=cause(cpu_ops, chosen, kernels),
        advice="`coalesce` sorts the entries of a sparse matrix: build that of a graph which stays "
        "the same once, before the first step (`cached=True` of `GCNConv`).",
        gain_ns=time(cpu_ops, chosen, kernels),
        place=place(cpu_ops, calls),
        confidence=Confidence.MEDIUM,
        evidence={"calls_per_step": per_step(having(cpu_ops, "^aten::_coalesce$"), step.count)},
    )
