"""Loops over parameters: operators on one after the other, as in clipping or in an average."""

import pandas as pd

from profkit.core.verdict import Evidence
from profkit.patterns._rows import Chosen, equal, fitting, having
from profkit.patterns._shapes import shape

UPDATE = r"^Optimizer\."
"""Ranges of PyTorch around what its optimizers do."""

GRADIENT = "torch::autograd::AccumulateGrad"
"""What backward calls for the gradient of each parameter."""

ON_ONE = r"^aten::(?:add|mul|addcmul|addcdiv|sqrt|div|lerp|sub)_?$"
"""Operators by which optimizers that are not fused change one parameter."""

IS_UPDATE: Evidence = {"is_loop_over_parameters": 1}
"""Evidence of a match that is about such a loop: another one that has it says the same."""


def of_parameters(cpu_ops: pd.DataFrame) -> Chosen:
    """Choose operators outside of backward that change parameters, gradients, or copies of them.

    They are given a tensor as large as one that gets a gradient, and no gradient is computed of
    them.
    """
    gradients = cpu_ops["input_shapes"][equal(cpu_ops, "name", GRADIENT)].astype(object).unique()
    sizes = {tuple(shape(str(text))) for text in gradients} - {()}
    differentiated = cpu_ops["op"].isin(cpu_ops["forward"]).to_numpy(bool)
    apart = ~equal(cpu_ops, "phase", "backward") & ~differentiated
    return apart & fitting(cpu_ops, "input_shapes", lambda text: tuple(shape(text)) in sizes)


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
    return (
        "in a loop over parameters: call `torch._foreach_mul_`, `torch._foreach_add_` and the "
        f"like once, with lists of all of them{averaged}."
    )
