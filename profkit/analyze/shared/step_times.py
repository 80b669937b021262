"""Durations of the steps that count, from the baseline where there is one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pandas as pd

from profkit.analyze.base import ByTool, OfTool
from profkit.analyze.shared.uncertainty import Statistic
from profkit.core.result import Abstention, Result

_MS = 1e6

BASELINE = "baseline"
"""The tool that records only the steps."""

UnprofiledSteps = Annotated[pd.DataFrame | None, OfTool(tool=BASELINE, table="steps")]
"""Annotate a parameter with this to get the steps of the unprofiled run, None without one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StepTime:
    """The step time of a run: the one number that everything prints and divides by."""

    time_ns: float
    """Time on the slowest rank in ns, over all steps and repeats that count."""

    is_unprofiled: bool
    statistic: Statistic
    """What was taken of the steps: their median, or the mean that causes sum to."""

    by_repeat: Mapping[int, float]
    """The same of each repeat, in ns."""

    @property
    def of_run(self) -> str:
        """Which run it was measured in, in words."""
        return "the unprofiled run" if self.is_unprofiled else "the profiled run"


def step_time(
    unprofiled: pd.DataFrame | None, causes: Result | None, traced: pd.DataFrame, skip_first: int
) -> StepTime:
    """Return the step time: of the unprofiled run, or else of the steps that `causes` divides.

    Profiling slows the steps, so the traced ones count only where there are no others. Where
    nothing divided these either, they are those of `traced`, with `step_time_ns`.
    """
    if unprofiled is not None and len(unprofiled):
        counted = with_step_times(unprofiled, skip_first)
        kept = counted if len(counted) else with_step_times(unprofiled, 0)
        return _over_steps(slowest_rank(kept), np.median, is_unprofiled=True)
    if causes is not None and (divided := causes.metrics.get("step_ms")) is not None:
        return StepTime(
            time_ns=divided.value * _MS,
            is_unprofiled=False,
            statistic=np.mean,
            by_repeat={repeat: time * _MS for repeat, time in divided.by_repeat.items()},
        )
    return _over_steps(slowest_rank(traced), np.mean, is_unprofiled=False)


def slowest_rank(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the slowest rank at each repeat and step, in their order."""
    slowest = rows.sort_values("step_time_ns").drop_duplicates(["repeat", "step"], keep="last")
    return slowest.sort_values(["repeat", "step"], ignore_index=True)


def _over_steps(clock: pd.DataFrame, statistic: Statistic, *, is_unprofiled: bool) -> StepTime:
    times = {repeat: rows.to_numpy() for repeat, rows in clock.groupby("repeat")["step_time_ns"]}
    return StepTime(
        time_ns=float(statistic(clock["step_time_ns"].to_numpy())),
        is_unprofiled=is_unprofiled,
        statistic=statistic,
        by_repeat={int(str(repeat)): float(statistic(own)) for repeat, own in times.items()},
    )


def step_time_title(tool: str) -> str:
    """Return the title of the step time that was measured with `tool`."""
    return "Unprofiled step time, median" if tool == BASELINE else f"Step time, mean, with {tool}"


def timed_alike(
    steps: Mapping[str, Result], reference: str = ""
) -> tuple[dict[str, Result], tuple[Abstention, ...]]:
    """Return the runs that can be compared, and which are left out as they were timed otherwise.

    They are timed as `reference` is, or without a profiler, which slows the steps, if some are.
    """
    metrics = {run: result.metrics.get("step_time_ns") for run, result in steps.items()}
    titles = {run: metric.title for run, metric in metrics.items() if metric is not None}
    usual = step_time_title(BASELINE)
    wanted = titles.get(reference, usual if usual in titles.values() else "")
    wanted = wanted or next(iter(titles.values()), "")
    apart = [run for run, title in titles.items() if title != wanted]
    left_out = tuple(
        Abstention(what=f"what {run} is against others", reason=f"{titles[run]}; others: {wanted}")
        for run in apart
    )
    return {run: result for run, result in steps.items() if run not in apart}, left_out


def baseline_or_first(steps: ByTool) -> tuple[str, pd.DataFrame]:
    """Return the baseline and its steps, or else the first tool that has any."""
    filled = [name for name, rows in steps.items() if len(rows)]
    tool = BASELINE if BASELINE in filled else next(iter(filled or steps), "")
    return tool, steps.get(tool, pd.DataFrame())


def with_step_times(rows: pd.DataFrame, skip_first: int) -> pd.DataFrame:
    """Return the steps that count, with their `step_time_ns`."""
    kept = rows[rows["step"] >= skip_first]
    return kept.assign(step_time_ns=kept["end_ns"] - kept["start_ns"])
