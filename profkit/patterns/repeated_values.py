"""Repeated values: tensors written out several times that broadcasting would only read again."""

import pandas as pd

from profkit.patterns._rows import cause, having, inside, per_step, place, time
from profkit.patterns.base import Match, Step, pattern

_LEAST_SHARE = 0.05


@pattern(
    title="Copies that broadcasting avoids",
    source="https://docs.pytorch.org/docs/stable/generated/torch.Tensor.expand.html",
)
def match(cpu_ops: pd.DataFrame, kernels: pd.DataFrame, step: Step) -> Match | None:
    """Find the time in `repeat`, `tile` and `repeat_interleave`."""
    calls = having(cpu_ops, r"^aten::(?:repeat|tile|repeat_interleave)$")
    if not calls.any():
        return None
    chosen = inside(cpu_ops, calls)
    gain_ns = time(cpu_ops, chosen, kernels)
    if gain_ns < _LEAST_SHARE * step.ms * 1e6 * step.count:
        return None
    return Match(
        cause=cause(cpu_ops, chosen, kernels),
        advice="`repeat` copies: leave it to broadcasting (`x.unsqueeze(1) - y`) or use `expand`, "
        "which copies nothing; `torch.cdist` has distances, `enable_gqa=True` shared heads.",
        gain_ns=gain_ns,
        place=place(cpu_ops, calls),
        evidence={"copies_per_step": per_step(calls, step.count)},
    )
