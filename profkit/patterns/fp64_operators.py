"""FP64 arithmetic: operators on double precision where training needs single."""

import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._rows import cause, fitting_both, having, per_step, place, time
from profkit.patterns._shapes import elements, listed
from profkit.patterns.base import Match, Step, pattern

_FEW = 1000
"""Numbers in a tensor below which an operator takes as long in any precision."""


@pattern(
    title="FP64 arithmetic",
    source="https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
)
def match(cpu_ops: pd.DataFrame, kernels: pd.DataFrame, step: Step) -> Match | None:
    """Find operators whose inputs are doubles, of more than the few that take no time."""
    doubles = having(cpu_ops, r'"double"', "input_types") & having(cpu_ops, "^aten::")
    doubles &= ~having(cpu_ops, r"^aten::(?:to|_to_copy|copy_|item|_local_scalar_dense)$")
    # A number of Python is a double as well, without a size.
    doubles = fitting_both(cpu_ops, doubles, ("input_types", "input_shapes"), _has_doubles)
    if not doubles.any():
        return None
    # Gradients are doubles where the forward pass has some.
    forward = (cpu_ops["forward"] < 0).to_numpy()
    where = place(cpu_ops, doubles & forward) or place(cpu_ops, doubles)
    return Match(
        cause=cause(cpu_ops, doubles, kernels),
        advice=f"Use float32{f' in {where}' if where else ''}: leave out `.double()` and "
        "`dtype=torch.double`, and call `torch.from_numpy(array).float()`, as NumPy arrays are "
        "float64.",
        gain_ns=time(cpu_ops, doubles, kernels) / 2,
        place=where,
        confidence=Confidence.HIGH,
        evidence={"operators_per_step": per_step(doubles, step.count)},
    )


def _has_doubles(types: str, shapes: str) -> bool:
    """Say whether a tensor that is not small is one of doubles, or sizes were not recorded."""
    sizes = listed(shapes) or [[_FEW]]
    doubles = (one for name, one in zip(listed(types), sizes, strict=False) if name == "double")
    return any(one and elements(one) >= _FEW for one in doubles)
