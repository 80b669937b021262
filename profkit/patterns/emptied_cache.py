"""Emptied caches: `torch.cuda.empty_cache()` in the loop."""

import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._python_calls import spent_in
from profkit.patterns._rows import having
from profkit.patterns.base import Match, Step, charged, pattern

_FUNCTIONS = r"empty_?[cC]ache"


@pattern(
    title="Memory cache emptied in the loop",
    source="https://docs.pytorch.org/docs/stable/generated/torch.cuda.memory.empty_cache.html",
    calls=_FUNCTIONS,
)
def match(
    python_calls: pd.DataFrame,
    cpu_ops: pd.DataFrame,
    runtime_calls: pd.DataFrame,
    causes: pd.DataFrame,
    step: Step,
) -> Match | None:
    """Find `empty_cache`, and what allocating anew costs."""
    spent = spent_in(_FUNCTIONS, python_calls, cpu_ops, causes, step)
    if spent is None:
        return None
    freeing = having(runtime_calls, r"^(?:cuda|hip)(?:Malloc|Free)$")
    return Match(
        cause="gpu_idle.blocked" if freeing.any() else spent.cause,
        advice="Remove `torch.cuda.empty_cache()` from the loop: the memory is allocated again in "
        "the next step.",
        gain_ns=max(spent.gain_ns, charged(runtime_calls, freeing)),
        place=spent.place,
        also=spent.also,
        confidence=Confidence.HIGH,
        evidence={"calls": spent.calls},
    )
