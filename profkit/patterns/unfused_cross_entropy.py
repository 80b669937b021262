"""Own cross entropy: the loss over a vocabulary written in single operators."""

import pandas as pd

from profkit.patterns._rows import cause, fitting, having, inside, per_step, place, time
from profkit.patterns._shapes import shape
from profkit.patterns.base import Match, Step, pattern

_PARTS = r"^aten::(?:exp|log|logsumexp|sum|max|amax|sub|gather|log_softmax|_log_softmax)$"
_LOGARITHM = r"^aten::(?:log|logsumexp|log_softmax|_log_softmax)_?$"
"""Without one there is no loss: that is a softmax, as of attention."""

_VOCABULARY = 4096


@pattern(
    title="Unfused cross entropy",
    source="https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.cross_entropy.html",
)
def match(cpu_ops: pd.DataFrame, kernels: pd.DataFrame, step: Step) -> Match | None:
    """Find `exp` or `logsumexp` over a last size as large as a vocabulary."""
    wide = fitting(cpu_ops, "input_shapes", _is_wide)
    loss = having(cpu_ops, r"^aten::(?:exp|logsumexp)$") & wide
    fused = having(cpu_ops, r"^aten::_log_softmax$") & wide
    has_loss = loss.any() and having(cpu_ops, _LOGARITHM).any()
    if not has_loss or fused.sum() >= loss.sum():
        return None
    chosen = inside(cpu_ops, having(cpu_ops, _PARTS) & wide)
    return Match(
        cause=cause(cpu_ops, chosen, kernels),
        advice="Use `torch.nn.functional.cross_entropy(logits, targets)`: fewer passes over the "
        "logits, and fewer copies of them kept for backward.",
        gain_ns=time(cpu_ops, chosen, kernels) * 2 / 3,
        place=place(cpu_ops, loss),
        evidence={"passes_per_step": per_step(having(cpu_ops, _PARTS) & wide, step.count)},
    )


def _is_wide(text: str) -> bool:
    return len(found := shape(text)) > 1 and found[-1] >= _VOCABULARY
