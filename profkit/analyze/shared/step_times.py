"""Durations of the steps that count, from the baseline where there is one."""

import pandas as pd

from profkit.analyze.base import ByTool

BASELINE = "baseline"
"""The tool that records only the steps."""


def baseline_or_first(steps: ByTool) -> tuple[str, pd.DataFrame]:
    """Return the baseline and its steps, or else the first tool that has any."""
    filled = [name for name, rows in steps.items() if len(rows)]
    tool = BASELINE if BASELINE in filled else next(iter(filled or steps), "")
    return tool, steps.get(tool, pd.DataFrame())


def with_step_times(rows: pd.DataFrame, skip_first: int) -> pd.DataFrame:
    """Return the steps that count, with their `step_time_ns`."""
    kept = rows[rows["step"] >= skip_first]
    return kept.assign(step_time_ns=kept["end_ns"] - kept["start_ns"])
