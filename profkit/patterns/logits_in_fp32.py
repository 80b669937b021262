"""Logits in FP32: a copy of all logits in twice the bytes before the loss."""

import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._rows import cause, fitting_both, having, per_step, place, time
from profkit.patterns._shapes import HALF, listed, shape
from profkit.patterns.base import Match, Step, pattern

_VOCABULARY = 16_384


@pattern(
    title="Logits copied to FP32",
    source="https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.cross_entropy.html",
)
def match(cpu_ops: pd.DataFrame, kernels: pd.DataFrame, step: Step) -> Match | None:
    """Find copies from half to single precision whose last size is that of a vocabulary."""
    copies = having(cpu_ops, r"^aten::copy_$")
    copies = fitting_both(cpu_ops, copies, ("input_shapes", "input_types"), _is_of_logits)
    if not copies.any():
        return None
    return Match(
        cause=cause(cpu_ops, copies, kernels),
        advice="Drop `.float()` on the logits: `cross_entropy` sums in FP32 by itself; a loss "
        "fused with the last layer (Liger Kernel) keeps no logits at all.",
        gain_ns=time(cpu_ops, copies, kernels),
        place=place(cpu_ops, copies),
        confidence=Confidence.HIGH,
        evidence={"copies_per_step": per_step(copies, step.count)},
    )


def _is_of_logits(shapes: str, types: str) -> bool:
    given = listed(types)
    widens = len(given) > 1 and given[0] == "float" and bool(HALF.search(str(given[1])))
    return widens and len(found := shape(shapes)) > 1 and found[-1] >= _VOCABULARY
