"""Conversions of data types: tensors that are copied to another type in every step."""

import pandas as pd

from profkit.patterns._rows import (
    Chosen,
    calling_again,
    cause,
    fitting,
    having,
    inside,
    per_step,
    place,
    time,
)
from profkit.patterns._shapes import listed, shape
from profkit.patterns.base import Match, Step, pattern

_FLOATS = frozenset({"float", "double", "c10::BFloat16", "c10::Half"})
_NARROW = frozenset({"bfloat16", "float16"})
_PRODUCTS = r"^aten::(?:linear|matmul|(?:add|badd)?b?mm|conv\w+|scaled_dot_product_attention)$"
_BACKWARD = r"^autograd::engine::evaluate_function"
_OPTIMIZER = r"^Optimizer\.step#"


@pattern(
    title="Conversions of data types",
    source="https://docs.pytorch.org/docs/stable/amp.html",
)
def match(
    cpu_ops: pd.DataFrame, kernels: pd.DataFrame, collectives: pd.DataFrame, step: Step
) -> Match | None:
    """Find copies from one floating-point type to another.

    Not of the buckets in which gradients are sent: a hook converts them, so that less is sent.
    """
    copies = having(cpu_ops, r"^aten::copy_$")
    copies &= fitting(cpu_ops, "input_types", _converts)
    # Numbers of Python become tensors of the other operand's type, as in an optimizer's step.
    copies &= fitting(cpu_ops, "input_shapes", lambda text: not text or bool(shape(text)))
    if fitting(collectives, "dtype", _NARROW.__contains__).any():
        copies &= ~fitting(cpu_ops, "input_shapes", lambda text: len(shape(text)) == 1)
    if not copies.any():
        return None
    types = cpu_ops["input_types"][copies].astype(object)
    pair = " from ".join(listed(str(types.value_counts().index[0]))[:2])
    return Match(
        cause=cause(cpu_ops, copies, kernels),
        advice=_advice(cpu_ops, copies, kernels).format(pair=pair),
        gain_ns=time(cpu_ops, copies, kernels),
        place=place(cpu_ops, copies),
        evidence={"copies_per_step": per_step(copies, step.count)},
    )


def _advice(cpu_ops: pd.DataFrame, copies: Chosen, kernels: pd.DataFrame) -> str:
    """Return what to do about `copies`; under autocast, parameters stay in FP32 to be trained."""
    # Autocast converts what an operator is given, and calls it again.
    by_autocast = inside(cpu_ops, calling_again(cpu_ops, having(cpu_ops, _PRODUCTS)))
    if not (copies & by_autocast).any():
        return (
            "Convert once instead of in every step ({pair}): keep parameters and inputs in one "
            "type, `model.to(torch.bfloat16)`, and no `.float()` or `.to(dtype)` in forward."
        )
    backward = inside(cpu_ops, having(cpu_ops, _BACKWARD))
    if not backward.any():
        return (
            "Convert the model once, `model.to(torch.bfloat16)`, and call it without autocast, "
            "which converts all weights in every call ({pair})."
        )
    own = copies & ~by_autocast & ~backward & ~inside(cpu_ops, having(cpu_ops, _OPTIMIZER))
    if time(cpu_ops, own, kernels) > time(cpu_ops, copies & by_autocast, kernels):
        return (
            "Leave types to autocast ({pair}): no `.float()` or `.to(dtype)` in forward, whose "
            "results it converts back. Parameters stay in FP32, for the optimizer."
        )
    return (
        "Autocast converts each weight once for as long as it is entered ({pair}): enter it once "
        "around the forward pass, with a larger batch, and let `torch.compile` fuse conversions "
        "of activations. Parameters stay in FP32, for the optimizer."
    )


def _converts(text: str) -> bool:
    pair = set(map(str, listed(text)[:2]))
    return len(pair) > 1 and pair <= _FLOATS
