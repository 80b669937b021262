"""Rows by index: rows of a tensor that `x[index]` picks, and the slow way back of gradients."""

import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._rows import cause, fitting, having, inside, per_step, place, time
from profkit.patterns._shapes import shape
from profkit.patterns.base import Match, Step, pattern

_PUTS = r"^aten::_index_put_impl_$"
_NODES = r"^autograd::engine::evaluate_function: IndexBackward0$"
_GAIN = 0.6
"""On CPUs `index_select` and its backward take 20 to 75 % of the time."""


@pattern(
    title="Rows picked by an index",
    source="https://docs.pytorch.org/docs/stable/generated/torch.index_select.html",
)
def match(cpu_ops: pd.DataFrame, kernels: pd.DataFrame, step: Step) -> Match | None:
    """Find gradients of `x[index]` that are put back row by row, more of them than `x` has.

    A mask cannot pick more rows than there are, and `index_select` takes none.
    """
    puts = having(cpu_ops, _PUTS) & fitting(cpu_ops, "input_shapes", _has_more_rows)
    if not puts.any():
        return None
    forward = cpu_ops["op"].isin(cpu_ops["forward"][puts]).to_numpy(bool)
    of_nodes = having(cpu_ops, _NODES) & cpu_ops["forward"].isin(cpu_ops["op"][forward]).to_numpy()
    chosen = inside(cpu_ops, of_nodes | forward)
    return Match(
        cause=cause(cpu_ops, chosen, kernels),
        advice="For `x[index]` write `x.index_select(0, index)`: its gradients are added up several"
        " times as fast.",
        gain_ns=_GAIN * time(cpu_ops, chosen, kernels),
        place=place(cpu_ops, forward),
        confidence=Confidence.MEDIUM,
        evidence={"calls_per_step": per_step(puts, step.count)},
    )


def _has_more_rows(text: str) -> bool:
    """Tell whether whole rows are put into a tensor with fewer of them."""
    into, rows = shape(text), shape(text, 2)
    return len(into) > 1 and into[1:] == rows[1:] and into[0] < rows[0]
