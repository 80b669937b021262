"""Decompositions in updates: an optimizer that decomposes matrices in each of its steps."""

import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._parameter_loops import UPDATE
from profkit.patterns._rows import cause, having, inside, per_step, place, time
from profkit.patterns.base import Match, Step, pattern

_DECOMPOSE = (
    r"^aten::(?:_linalg_eigh|_linalg_svd|linalg_eig|linalg_qr|linalg_inv_ex|linalg_cholesky_ex"
    r"|linalg_lu_factor_ex)$"
)
_GAINED = 0.9


@pattern(
    title="Matrices decomposed in each update",
    source="https://docs.pytorch.org/docs/stable/generated/torch.linalg.eigh.html",
)
def match(cpu_ops: pd.DataFrame, kernels: pd.DataFrame, step: Step) -> Match | None:
    """Find decompositions inside of an optimizer's step, as of Shampoo, SOAP and K-FAC."""
    calls = having(cpu_ops, _DECOMPOSE) & inside(cpu_ops, having(cpu_ops, UPDATE))
    if per_step(calls, step.count) < 1:
        return None
    chosen = inside(cpu_ops, calls)
    count = round(per_step(calls, step.count))
    what = "a matrix" if count == 1 else f"{count:,} matrices"
    return Match(
        cause=cause(cpu_ops, chosen, kernels),
        advice=f"The optimizer decomposes {what} in each step: do so every 10 to 100 steps, as they"
        " change slowly (`precondition_frequency` of many optimizers).",
        gain_ns=time(cpu_ops, chosen, kernels) * _GAINED,
        place=place(cpu_ops, calls),
        confidence=Confidence.MEDIUM,
        evidence={"decompositions_per_step": per_step(calls, step.count)},
    )
