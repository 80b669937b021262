"""Loops over parameters: operators on one after the other, as in clipping or in an average."""

import pandas as pd

from profkit.core.verdict import Evidence
from profkit.patterns._rows import Chosen, equal, fitting, having, inside, parents
from profkit.patterns._shapes import shape

UPDATE = r"^Optimizer\."
"""Ranges of PyTorch around what its optimizers do."""

GRADIENT = "torch::autograd::AccumulateGrad"
"""What backward calls for the gradient of each parameter."""

ON_ONE = r"^aten::(?:add|mul|addcmul|addcdiv|sqrt|div|lerp|sub)_?$"
"""Operators by which optimizers that are not fused change one parameter."""

_IN_PLACE = {"add", "addcdiv", "addcmul", "copy", "div", "lerp", "mul", "sqrt", "sub", "zero"}
_NORMS = {"linalg_vector_norm", "norm"}

IS_UPDATE: Evidence = {"is_loop_over_parameters": 1}
"""Evidence of a match that is about such a loop: another one that has it says the same."""


def of_parameters(cpu_ops: pd.DataFrame) -> Chosen:
    """Choose operators outside of backward that change parameters, gradients, or copies of them.

    They are given a tensor as large as one that gets a gradient, and no gradient is computed of
    them, nor of what calls them or they call.
    """
    gradients = cpu_ops["input_shapes"][equal(cpu_ops, "name", GRADIENT)].astype(object).unique()
    sizes = {tuple(shape(str(text))) for text in gradients} - {()}
    apart = ~equal(cpu_ops, "phase", "backward") & ~differentiated(cpu_ops)
    return apart & fitting(cpu_ops, "input_shapes", lambda text: tuple(shape(text)) in sizes)


def differentiated(cpu_ops: pd.DataFrame) -> Chosen:
    """Choose operators that gradients are computed of, with those around and inside of them."""
    of_torch = having(cpu_ops, "^aten::")
    chosen = found = of_torch & cpu_ops["op"].isin(cpu_ops["forward"]).to_numpy(bool)
    while found.any():
        found = parents(cpu_ops, found) & of_torch & ~chosen
        chosen |= found
    return inside(cpu_ops, chosen)


def advice(cpu_ops: pd.DataFrame, chosen: Chosen) -> str:
    """Return what to do with the `chosen` operators: copies are often the average of weights."""
    used = {str(name).rstrip("_") for name in cpu_ops["name"][chosen].unique()}
    is_updated = having(cpu_ops, UPDATE).any()
    averages = is_updated and ("aten::lerp" in used or {"aten::mul", "aten::add"} <= used)
    averaged = (
        ", or if it averages weights, use `torch.optim.swa_utils.AveragedModel` with "
        "`get_ema_multi_avg_fn`"
        if averages
        else ""
    )
    calls = (
        cpu_ops["name"][chosen]
        .astype(object)
        .map(_at_once)
        .value_counts()
        .drop("", errors="ignore")
    )
    named = " and ".join(f"`torch.{name}`" for name in calls.index[:2]) or "`torch._foreach_mul_`"
    return (
        f"in a loop over parameters: call {named}, or the like, once with lists of all of them"
        f"{averaged}."
    )


def _at_once(operator: str) -> str:
    """Return what takes a list of tensors instead of an `operator` for each, "" for no such."""
    name = operator.removeprefix("aten::").rstrip("_")
    if name in _NORMS:
        return "_foreach_norm"
    return f"_foreach_{name}_" if name in _IN_PLACE else ""
