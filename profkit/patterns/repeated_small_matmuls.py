"""Repeated small products: equal matrix products in a Python loop."""

import numpy as np
import pandas as pd

from profkit.patterns._rows import (
    Chosen,
    cause,
    equal,
    fitting,
    having,
    inside,
    per_step,
    place,
    time,
)
from profkit.patterns._shapes import MATMULS, operands
from profkit.patterns.base import Match, Step, pattern

_BETWEEN = (
    r"^aten::(?:\w*mm|matmul|linear|einsum|select|slice|narrow|index|split\w*|chunk|unbind|t|transpose"
    r"|permute|view\w*|_unsafe_view|_?reshape\w*|as_strided|expand\w*|squeeze|unsqueeze|copy_|clone"
    r"|contiguous|empty\w*|resize\w*|resolve_\w+|detach|alias|to|_to_copy)$"
)
_LEAST_RUN = 16
_MOST_NS = 50_000
_LAYER = "aten::addmm"
"""With a bias, as layers have one: those of one width may follow one another."""
_MATRIX = 2


@pattern(
    title="Equal small products in a loop",
    source="https://docs.pytorch.org/docs/stable/generated/torch.bmm.html",
)
def match(cpu_ops: pd.DataFrame, kernels: pd.DataFrame, step: Step) -> Match | None:
    """Find sixteen or more equal short products that follow one another.

    Where anything is computed in between, as in layers, each may need the one before.
    """
    products = having(cpu_ops, MATMULS) & having(cpu_ops, "^.*[0-9]", "input_shapes")
    products &= ~(equal(cpu_ops, "name", _LAYER) & fitting(cpu_ops, "input_shapes", _keeps_shape))
    runs = _in_runs(cpu_ops, products)
    if not runs.any():
        return None
    chosen = inside(cpu_ops, runs)
    shapes = cpu_ops["input_shapes"][runs].astype(object).value_counts().index[0]
    return Match(
        cause=cause(cpu_ops, chosen, kernels),
        advice=f"Stack the operands of {shapes} and call `torch.bmm` (or `torch.einsum`) once "
        "instead of in a loop.",
        gain_ns=time(cpu_ops, chosen, kernels) * 3 / 4,
        place=place(cpu_ops, runs),
        evidence={"products_per_step": per_step(runs, step.count), "input_shapes": str(shapes)},
    )


def _keeps_shape(shapes: str) -> bool:
    """Tell whether a product has the shape of what it is of, so that the next may be of it."""
    left, right = operands(shapes)
    return len(left) == len(right) == _MATRIX and left[-1] == right[0] == right[1]


def _in_runs(cpu_ops: pd.DataFrame, products: Chosen) -> Chosen:
    """Choose the products of runs of equal short ones in one module and on one thread."""
    rows = cpu_ops.loc[products, ["repeat", "tid", "start_ns", "module", "name", "input_shapes"]]
    rows = rows.astype({"module": str, "name": str, "input_shapes": str})
    computes = equal(cpu_ops, "kind", "operator") & ~having(cpu_ops, _BETWEEN)
    others = np.sort(cpu_ops.loc[computes, "start_ns"].to_numpy(np.int64))
    rows["before"] = np.searchsorted(others, rows["start_ns"].to_numpy(np.int64))
    lasted_ns = (cpu_ops["end_ns"] - cpu_ops["start_ns"])[products]
    rows = rows.sort_values(["repeat", "tid", "start_ns"], kind="stable")
    key = ["repeat", "tid", "module", "name", "input_shapes", "before"]
    run = (rows[key] != rows[key].shift()).any(axis=1).cumsum()
    is_short = lasted_ns.reindex(rows.index).groupby(run).transform("median") < _MOST_NS
    long = rows.index[(run.map(run.value_counts()) >= _LEAST_RUN) & is_short]
    return products & cpu_ops.index.isin(long)
