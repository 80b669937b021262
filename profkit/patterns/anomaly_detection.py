"""Anomaly detection: a stack kept of every operator, and every gradient searched for NaN."""

import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._python_calls import spent_in
from profkit.patterns._rows import cause, having, inside, parents, per_step, time
from profkit.patterns.base import Match, Step, pattern

_STACKS = r"(?:^|/)traceback\.py\(\d+\): format_stack$"


@pattern(
    title="Anomaly detection left on",
    source="https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html"
    "#disable-debugging-apis",
    calls=_STACKS,
)
def match(
    cpu_ops: pd.DataFrame,
    kernels: pd.DataFrame,
    python_calls: pd.DataFrame,
    causes: pd.DataFrame,
    step: Step,
) -> Match | None:
    """Find searches for NaN in at least half of the functions of the backward pass.

    Where Python was recorded, the stacks that are formatted in the forward pass count as well.
    """
    nodes = having(cpu_ops, r"^autograd::engine::evaluate_function")
    searches = having(cpu_ops, r"^aten::isnan$")
    searched = parents(cpu_ops, searches) & nodes
    if searched.sum() * 2 < max(nodes.sum(), 1):
        return None
    checks = having(cpu_ops, r"^aten::(?:isnan|any|_is_any_true|item|is_nonzero)$")
    chosen = inside(cpu_ops, checks & inside(cpu_ops, nodes))
    stacks = spent_in(_STACKS, python_calls, cpu_ops, causes, step)
    searched_for = time(cpu_ops, chosen, kernels)
    return Match(
        cause=cause(cpu_ops, chosen, kernels),
        advice="Remove `torch.autograd.set_detect_anomaly(True)` (or `detect_anomaly()`): it is "
        "for finding a NaN, not for training.",
        gain_ns=searched_for + (stacks.gain_ns if stacks else 0.0),
        also={stacks.cause: stacks.gain_ns} if stacks else {},
        confidence=Confidence.HIGH,
        evidence={"searches_per_step": per_step(searches, step.count)},
    )
