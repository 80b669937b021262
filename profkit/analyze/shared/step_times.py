"""Durations of the steps that count, from the baseline where there is one."""

from dataclasses import dataclass
from typing import Annotated

import pandas as pd

from profkit.analyze.base import ByTool, OfTool

BASELINE = "baseline"
"""The tool that records only the steps."""

UnprofiledSteps = Annotated[pd.DataFrame | None, OfTool(tool=BASELINE, table="steps")]
"""Annotate a parameter with this to get the steps of the unprofiled run, None without one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StepTime:
    """The step time that rates divide by."""

    median_ns: float
    """Median over steps and repeats of the time on the slowest rank, in ns."""

    of_run: str
    """Which run it was measured in, in words."""


def step_time(unprofiled: pd.DataFrame | None, traced: pd.DataFrame, skip_first: int) -> StepTime:
    """Return the step time of the unprofiled run, or else of the `traced` windows with a clock.

    Profiling slows the steps, so a rate over the traced ones would be too low.
    """
    if unprofiled is None or unprofiled.empty:
        times = traced.drop_duplicates(["repeat", "step"])["step_time_ns"]
        run = "the profiled run, which profiling slows"
        return StepTime(median_ns=float(times.median()), of_run=run)
    counted = with_step_times(unprofiled, skip_first)
    kept = counted if len(counted) else with_step_times(unprofiled, 0)
    slowest = kept.groupby(["repeat", "step"], observed=True)["step_time_ns"].max()
    return StepTime(median_ns=float(slowest.median()), of_run="the unprofiled run")


def baseline_or_first(steps: ByTool) -> tuple[str, pd.DataFrame]:
    """Return the baseline and its steps, or else the first tool that has any."""
    filled = [name for name, rows in steps.items() if len(rows)]
    tool = BASELINE if BASELINE in filled else next(iter(filled or steps), "")
    return tool, steps.get(tool, pd.DataFrame())


def with_step_times(rows: pd.DataFrame, skip_first: int) -> pd.DataFrame:
    """Return the steps that count, with their `step_time_ns`."""
    kept = rows[rows["step"] >= skip_first]
    return kept.assign(step_time_ns=kept["end_ns"] - kept["start_ns"])
