"""Which steps count, and how long they took: shared by the analyses of step times."""

import pandas as pd

from profkit.analyze.base import ByTool

BASELINE = "baseline"
"""The tool that records nothing but the steps themselves."""


def chosen(steps: ByTool) -> tuple[str, pd.DataFrame]:
    """Return the baseline and its steps, or else the first tool that has any."""
    filled = [name for name, rows in steps.items() if len(rows)]
    tool = BASELINE if BASELINE in filled else next(iter(filled or steps), "")
    return tool, steps.get(tool, pd.DataFrame())


def timed(rows: pd.DataFrame, skip_first: int) -> pd.DataFrame:
    """Return the steps that count, with their `step_time_ns`."""
    kept = rows[rows["step"] >= skip_first]
    return kept.assign(step_time_ns=kept["end_ns"] - kept["start_ns"])
