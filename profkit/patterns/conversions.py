"""Conversions of data types: tensors that are copied to another type in every step."""

import pandas as pd

from profkit.patterns._rows import cause, fitting, having, per_step, place, time
from profkit.patterns._shapes import listed
from profkit.patterns.base import Match, Step, pattern

_FLOATS = frozenset({"float", "double", "c10::BFloat16", "c10::Half"})


@pattern(
    title="Conversions of data types",
    source="https://docs.pytorch.org/docs/stable/amp.html",
)
def match(cpu_ops: pd.DataFrame, kernels: pd.DataFrame, step: Step) -> Match | None:
    """Find copies from one floating-point type to another."""
    copies = having(cpu_ops, r"^aten::copy_$")
    copies &= fitting(cpu_ops, "input_types", _converts)
    if not copies.any():
        return None
    where = place(cpu_ops, copies)
    types = cpu_ops["input_types"][copies].astype(object)
    pair = " from ".join(listed(str(types.value_counts().index[0]))[:2])
    return Match(
        cause=cause(cpu_ops, copies, kernels),
        advice=f"Convert once instead of in every step ({pair}): keep parameters and inputs in one "
        "type, `model.to(torch.bfloat16)`, and no `.float()` or `.to(dtype)` in forward.",
        gain_ns=time(cpu_ops, copies, kernels),
        place=where,
        evidence={"copies_per_step": per_step(copies, step.count)},
    )


def _converts(text: str) -> bool:
    pair = set(map(str, listed(text)[:2]))
    return len(pair) > 1 and pair <= _FLOATS
