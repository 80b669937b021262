"""Durations of the steps that count, from the baseline where there is one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.base import ByTool, OfTool
from profkit.analyze.shared.uncertainty import Statistic
from profkit.core.result import Result
from profkit.core.step_time import BASELINE, UNEVEN

_MS = 1e6
_FEWEST, _LEAST_SHARE, _MOSTLY = 10, 0.1, 0.5
_FEWEST_WARM = 5
_A_GAP_NS = 1_000_000

TRACER = "torch_profiler"
"""The tool whose recordings causes come from."""

UNPROFILED = "unprofiled_step_time_ns"
"""The metric of the unprofiled step time beside how much tools slow steps down."""

BETWEEN_STEPS = "between_steps_share"
"""The metric of `between_steps_share`, where that is much..."""

BETWEEN_STEPS_BY_CALL = "between_steps_by_call"
"""...and the table of what is called there."""

GROWTH = "growth_share"
"""The metric of how much slower late steps are than early ones, where that is much."""

UnprofiledSteps = Annotated[pd.DataFrame | None, OfTool(tool=BASELINE, table="steps")]
"""Annotate a parameter with this to get the steps of the unprofiled run, None without one."""

ClockedSteps = Annotated[pd.DataFrame | None, OfTool(tool=TRACER, table="sampled_steps")]
"""The same for all steps of the run that was traced, by the clock that times the unprofiled one. A
trace has when the CPU ended a step, with which the GPU may not have begun."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StepTime:
    """The step time of a run: the one number that everything prints and divides by."""

    time_ns: float
    """Time on the slowest rank in ns, over all steps and repeats that count."""

    is_unprofiled: bool
    statistic: Statistic
    """What was taken of the steps: see `typical`, or the mean that causes sum to."""

    by_repeat: Mapping[int, float]
    """The same of each repeat, in ns."""

    @property
    def is_mean(self) -> bool:
        """Whether it is the mean of the steps and not their median."""
        return self.statistic is np.mean

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
        clock = slowest_rank(kept)
        statistic = typical(clock["step_time_ns"].to_numpy(np.float64))
        return _over_steps(clock, statistic, is_unprofiled=True)
    if causes is not None and (divided := causes.metrics.get("step_ms")) is not None:
        return StepTime(
            time_ns=divided.value * _MS,
            is_unprofiled=False,
            statistic=np.mean,
            by_repeat={repeat: time * _MS for repeat, time in divided.by_repeat.items()},
        )
    return _over_steps(slowest_rank(traced), np.mean, is_unprofiled=False)


def typical(times: NDArray[np.float64]) -> Statistic:
    """Return what says what one of some steps costs: their median, or else their mean.

    A few slow steps are left out, as by the median. Where a tenth of ten or more is so far from it
    that the mean is another time, they are what steps cost: the batches of several DataLoader
    workers come together, so that of two workers each second step waits for both.
    """
    median, mean = float(np.median(times)), float(np.mean(times))
    is_apart = np.maximum(times, median) > UNEVEN * np.minimum(times, median)
    is_usual = len(times) >= _FEWEST and is_apart.mean() >= _LEAST_SHARE
    # Where most are apart, the median lies between them, or on either side by chance.
    is_uneven = max(median, mean) > UNEVEN * min(median, mean) or is_apart.mean() > _MOSTLY
    return np.mean if is_uneven and is_usual else np.median


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


def baseline_or_first(steps: ByTool) -> tuple[str, pd.DataFrame]:
    """Return the baseline and its steps, or else the first tool that has any."""
    filled = [name for name, rows in steps.items() if len(rows)]
    tool = BASELINE if BASELINE in filled else next(iter(filled or steps), "")
    return tool, steps.get(tool, pd.DataFrame())


def with_step_times(rows: pd.DataFrame, skip_first: int) -> pd.DataFrame:
    """Return the steps that count, with their `step_time_ns`.

    Steps after the first `skip_first` are left out as well as long as each is far slower than the
    others, and few of these are: a program may warm up for longer.
    """
    kept = without_first(rows, skip_first)
    begun = kept["repeat"].map(_first_steady(kept))
    return kept[(kept["step"] >= begun).to_numpy()]


def as_divided(rows: pd.DataFrame, kept: pd.DataFrame, causes: Result | None) -> pd.DataFrame:
    """Return those `rows` of traced steps that causes divide, with the times that these sum to.

    Else those that are `kept`: where not all of their ranks were divided.
    """
    divided = causes.tables.get("by_step") if causes else None
    if divided is None:
        return kept
    key = ["rank", "repeat", "step"]
    times = pd.DataFrame(divided.rows, columns=list(divided.columns))[[*key, "step_time_ns"]]
    steps = rows.merge(times, on=key)
    return steps if {*steps["rank"]} == {*kept["rank"]} else kept


def without_first(rows: pd.DataFrame, skip_first: int) -> pd.DataFrame:
    """Return the steps after the first `skip_first`, however slow, with their `step_time_ns`."""
    kept = rows[rows["step"] >= skip_first]
    return kept.assign(step_time_ns=kept["end_ns"] - kept["start_ns"])


def _first_steady(rows: pd.DataFrame) -> dict[int, int]:
    """Return for each repeat the number of the first step that is not one of slow first ones."""
    clock = rows.groupby(["repeat", "step"], observed=True)["step_time_ns"].max().reset_index()
    found = {}
    for repeat, of_repeat in clock.groupby("repeat"):
        steps, times = (of_repeat[name].to_numpy() for name in ("step", "step_time_ns"))
        is_slow = times > UNEVEN * np.median(times)
        first = int(np.argmin(is_slow))
        is_warm = len(times) >= first + _FEWEST_WARM and is_slow[first:].mean() < _LEAST_SHARE
        found[int(str(repeat))] = int(steps[first if is_warm else 0])
    return found


def between_steps_share(rows: pd.DataFrame) -> float:
    """Return the share of the time that passes between steps, as in evaluation.

    Gaps under `_A_GAP_NS`, in which the clocks of steps themselves are read, count as none.
    """
    begun = rows.sort_values("start_ns").groupby(["rank", "repeat"], observed=True)["start_ns"]
    gaps = (begun.shift(-1).reindex(rows.index) - rows["end_ns"]).fillna(0)
    gaps = gaps.where(gaps >= _A_GAP_NS, 0)
    whole = float((gaps + rows["end_ns"] - rows["start_ns"]).sum())
    return float(gaps.sum()) / whole if whole > 0 else 0.0
