"""Recompilation: the compiler at work in steps that should be steady."""

import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._causes import largest
from profkit.patterns.base import Match, Step, pattern


@pattern(
    title="Recompilation in steps",
    source="https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html",
)
def match(causes: pd.DataFrame, step: Step) -> Match | None:
    """Find the cause by its name."""
    found = largest(causes, r"^(?:gpu_idle\.)?compiler$", "id", step)
    if found is None:
        return None
    return Match(
        cause=found.id,
        advice="Mark sizes that vary: `torch.compile(dynamic=True)`, or "
        "`torch._dynamo.mark_dynamic(tensor, dimension)`; "
        '`TORCH_LOGS="recompiles"` shows what changed.',
        gain_ns=found.gain_ns,
        place=found.place,
        confidence=Confidence.HIGH,
    )
