"""Explicit inverses: large matrices that are inverted, where solving takes a part of the time."""

import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._parameter_loops import UPDATE
from profkit.patterns._rows import cause, fitting, having, inside, per_step, place, time
from profkit.patterns._shapes import shape
from profkit.patterns.base import Match, Step, pattern

_LEAST_ROWS = 64
"""Those of rotations and the like are of a few."""

_GAINED = 0.5
"""Of an inverse and its gradient, three and two products of a matrix: a factor takes a third of
one, and its gradient about one."""

_INVERSES = r"^aten::linalg_inv_ex$"
_DETERMINANTS = r"^aten::_linalg_slogdet$"
_BACKWARD = r"^autograd::engine::evaluate_function: Linalg(?:InvEx|Slogdet)Backward"


_ALONE = (
    "Multiply by no inverse: solve by `torch.linalg.solve(A, b)`, or `torch.cholesky_solve` where "
    "the matrix is positive definite."
)
_AND_DETERMINANT = (
    "If the matrix is positive definite, as a covariance, take `torch.linalg.cholesky` of it once: "
    "`torch.cholesky_solve` multiplies by its inverse, and its diagonal gives the determinant."
)


@pattern(
    title="Inverse of a matrix",
    source="https://docs.pytorch.org/docs/stable/generated/torch.linalg.inv.html",
)
def match(cpu_ops: pd.DataFrame, kernels: pd.DataFrame, step: Step) -> Match | None:
    """Find inverses of large matrices outside of optimizers, with determinants of the same."""
    large = fitting(cpu_ops, "input_shapes", lambda text: (shape(text) or [0])[-1] >= _LEAST_ROWS)
    own = large & ~inside(cpu_ops, having(cpu_ops, UPDATE))
    inverses = having(cpu_ops, _INVERSES) & own
    if not inverses.any():
        return None
    determinants = having(cpu_ops, _DETERMINANTS) & own
    chosen = inside(cpu_ops, inverses | determinants | having(cpu_ops, _BACKWARD))
    return Match(
        cause=cause(cpu_ops, chosen, kernels),
        advice=_AND_DETERMINANT if determinants.any() else _ALONE,
        gain_ns=time(cpu_ops, chosen, kernels) * _GAINED,
        place=place(cpu_ops, inverses),
        confidence=Confidence.MEDIUM,
        evidence={"inverses_per_step": per_step(inverses, step.count)},
    )
