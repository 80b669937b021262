"""Scalars in a Python loop: single values taken from tensors, one at a time."""

import numpy as np
import pandas as pd

from profkit.patterns._python_calls import (
    OWN_ALONE,
    Spent,
    innermost_line,
    outermost,
    spent_on_cpu,
)
from profkit.patterns._rows import Chosen, called, having, inside, parents, per_step, place, time
from profkit.patterns.base import Match, Step, pattern

_PAUSE_NS = 1_000_000
_RARE = 0.01
_MOST_OF_READS = 2
_LEAST_READS = 100
_OPERATORS_OF_A_READ = 5
"""A loop over values has a few operators for each, such as a selection and a comparison. With more
of them between two reads the program computes something else, and one read would not save it."""

_LEAST_OF_A_RUN = 8
"""Checks of arguments, as `torch.distributions` makes some for each call, are no loop either."""

_NOT_OF_PROGRAM = r"^(?:Optimizer\.step#|autograd::engine::evaluate_function)"


@pattern(
    title="Values taken from tensors one at a time",
    source="https://docs.pytorch.org/docs/stable/generated/torch.Tensor.tolist.html",
    calls=OWN_ALONE,
)
def match(
    cpu_ops: pd.DataFrame,
    kernels: pd.DataFrame,
    python_calls: pd.DataFrame,
    causes: pd.DataFrame,
    step: Step,
) -> Match | None:
    """Find a hundred or more reads of single values in each step."""
    reads = having(cpu_ops, r"^aten::item$")
    # Those of an optimizer and of checks in the backward pass are not the program's.
    reads &= ~inside(cpu_ops, having(cpu_ops, _NOT_OF_PROGRAM))
    reads &= _in_runs(reads, cpu_ops)
    if reads.sum() < _LEAST_READS * step.count:
        return None
    spent = _spent(reads, cpu_ops, kernels, python_calls, causes, step)
    return Match(
        cause=spent.cause,
        advice="Compute with whole tensors (masks, sums, all pairs at once), or read all values at "
        f"once with `.tolist()`, instead of a Python loop in {spent.place or 'the step'}.",
        gain_ns=spent.gain_ns,
        place=spent.place,
        also=spent.also,
        evidence={"reads_per_step": per_step(reads, step.count)},
    )


def _in_runs(reads: Chosen, cpu_ops: pd.DataFrame) -> Chosen:
    """Choose the `reads` of long runs, in which a few operators lie from each to the next."""
    starts = cpu_ops["start_ns"].to_numpy(np.int64)
    begins = np.sort(starts[called(cpu_ops)])
    order = np.flatnonzero(reads)[np.argsort(starts[reads], kind="stable")]
    begun = np.searchsorted(begins, starts[order], "right")
    run = np.cumsum(np.diff(begun, prepend=begun[:1]) > _OPERATORS_OF_A_READ + 1)
    chosen = np.zeros(len(cpu_ops), dtype=bool)
    chosen[order[np.bincount(run)[run] >= _LEAST_OF_A_RUN]] = True
    return chosen


def _spent(  # noqa: PLR0913, PLR0917 (tables, as patterns have them)
    reads: Chosen,
    cpu_ops: pd.DataFrame,
    kernels: pd.DataFrame,
    python_calls: pd.DataFrame,
    causes: pd.DataFrame,
    step: Step,
) -> Spent:
    """Return the time of the line that reads, else of the reads with all Python around them."""
    line = innermost_line(python_calls, cpu_ops["start_ns"][reads])
    if kernels.empty and line.any():
        spent = spent_on_cpu(python_calls, outermost(python_calls, line), cpu_ops, causes)
        # Where most of the line's time is elsewhere, the loop lies between two samples.
        if spent.gain_ns <= _MOST_OF_READS * _runs_ns(cpu_ops[reads]):
            return spent
    chosen = inside(cpu_ops, reads | having(cpu_ops, r"^aten::(?:select|unbind|is_nonzero)$"))
    chosen |= parents(cpu_ops, reads) & having(cpu_ops, "^aten::")
    cause = "gpu_idle.python" if len(kernels) else "python"
    around = causes.loc[causes["id"].astype(str) == cause, "gain_ms"]
    python = float(around.iloc[0]) * 1e6 * step.count if len(around) else 0.0
    where = "" if line.any() else place(cpu_ops, reads)
    in_ops = time(cpu_ops, chosen)
    python = min(python, max(_runs_ns(cpu_ops[reads]) - in_ops, 0))
    if len(kernels):
        return Spent(cause=cause, gain_ns=in_ops, place=where)
    also = {"cpu_operators": in_ops}
    return Spent(cause=cause, gain_ns=in_ops + python, place=where, also=also)


def _runs_ns(reads: pd.DataFrame) -> int:
    """Return the time of `reads` and between those of a run, which a longer pause ends.

    A pause in a hundred reads or fewer is no end: others had the core, or so it may be.
    """
    rows = reads.sort_values("start_ns", kind="stable")
    start, end, step = (rows[name].to_numpy(np.int64) for name in ("start_ns", "end_ns", "step"))
    gaps = np.maximum(start[1:] - end[:-1], 0)[step[1:] == step[:-1]]
    pauses = gaps >= _PAUSE_NS
    if pauses.mean() >= _RARE:
        gaps = gaps[~pauses]
    return int((end - start).sum() + gaps.sum())
