"""Files forced to the disk: `os.fsync` in steps, which wait until the disk has written."""

import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._python_calls import spent_in
from profkit.patterns.base import Match, Step, pattern

_FUNCTIONS = r"<built-in (?:function|method) (?:fsync|fdatasync|sync)\b"


@pattern(
    title="Files forced to the disk in steps",
    source="https://docs.python.org/3/library/os.html#os.fsync",
    calls=_FUNCTIONS,
)
def match(
    python_calls: pd.DataFrame, cpu_ops: pd.DataFrame, causes: pd.DataFrame, step: Step
) -> Match | None:
    """Find calls that wait for the disk."""
    spent = spent_in(_FUNCTIONS, python_calls, cpu_ops, causes, step)
    if spent is None:
        return None
    return Match(
        cause=spent.cause,
        advice="Call `os.fsync` every few hundred steps, or once at the end: without it a file is "
        "written beside training, and only a crash of the machine loses it.",
        gain_ns=spent.gain_ns,
        place=spent.place,
        confidence=Confidence.HIGH,
        also=spent.also,
        evidence={"calls_per_step": round(spent.calls / step.count, 1)},
    )
