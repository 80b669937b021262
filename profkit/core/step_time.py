"""What the step time of a run is called, and how those that were taken otherwise are compared."""

from collections.abc import Mapping
from dataclasses import replace
from statistics import fmean

from profkit.core.result import Abstention, Metric, Result

BASELINE = "baseline"
"""The tool that records only the steps."""

UNEVEN = 1.4
"""How many times as long as another a time is at least that is far from it."""

_UNPROFILED = "Unprofiled step time"
_MEAN = f"{_UNPROFILED}, mean"
_KEY = "step_time_ns"


def step_time_title(tool: str, *, is_mean: bool = False) -> str:
    """Return the title of the step time that was measured with `tool`."""
    if tool != BASELINE:
        return f"Step time, mean, with {tool}"
    return f"{_UNPROFILED}, {'mean of uneven steps' if is_mean else 'median'}"


def is_mean_of_uneven(metric: Metric | None) -> bool:
    """Say whether a step time is the mean of unprofiled steps because that is what they cost."""
    return metric is not None and metric.title == step_time_title(BASELINE, is_mean=True)


def unprofiled_mean(steps: Result) -> Metric | None:
    """Return the mean of the unprofiled steps, with that of each repeat; None if there are none.

    It is the mean of uneven steps also where a few slow ones, such as those with an evaluation,
    take much of the time. The longest of each repeat does not count, as it may be chance. Where
    steps of one run are uneven, the means of both runs are compared.
    """
    metric = steps.metrics.get(_KEY)
    rows = steps.tables["per_repeat"].records() if "per_repeat" in steps.tables else []
    # Earlier versions left other columns.
    means = {int(row["repeat"]): float(row["mean_ns"]) for row in rows if "mean_ns" in row}
    if metric is None or not means or not metric.title.startswith(_UNPROFILED):
        return None
    but_longest = fmean(float(row.get("mean_but_longest_ns", 0.0)) for row in rows)
    is_uneven = is_mean_of_uneven(metric) or but_longest > UNEVEN * metric.value
    title = step_time_title(BASELINE, is_mean=True) if is_uneven else _MEAN
    return replace(metric, value=fmean(means.values()), title=title, by_repeat=means, interval=None)


def timed_alike(
    steps: Mapping[str, Result], reference: str = ""
) -> tuple[dict[str, Result], tuple[Abstention, ...]]:
    """Return the runs that can be compared, and which are left out as they were timed otherwise.

    They are timed as `reference` is, or without a profiler, which slows the steps, if some are.
    Where steps of one are uneven, the step times of all are means.
    """
    metrics = {run: result.metrics.get(_KEY) for run, result in steps.items()}
    titles = {run: metric.title for run, metric in metrics.items() if metric is not None}
    wanted = titles.get(reference) or max(
        titles.values(), key=lambda title: title.startswith(_UNPROFILED), default=""
    )
    apart = [run for run, title in titles.items() if _way(title) != _way(wanted)]
    left_out = tuple(
        Abstention(what=f"what {run} is against others", reason=f"{titles[run]}; others: {wanted}")
        for run in apart
    )
    kept = {run: result for run, result in steps.items() if run not in apart}
    return of_one_statistic(kept), left_out


def _way(title: str) -> str:
    """Return the title of a step time without what was taken of the steps, if that may differ."""
    return _UNPROFILED if title.startswith(_UNPROFILED) else title


def of_one_statistic(steps: Mapping[str, Result]) -> dict[str, Result]:
    """Return runs, with the means of unprofiled steps as step times where those of one are uneven.

    A run without unprofiled steps stays as it is.
    """
    means = {run: unprofiled_mean(result) for run, result in steps.items()}
    if not any(map(is_mean_of_uneven, means.values())):
        return {**steps}
    return {
        run: replace(result, metrics={**result.metrics, _KEY: replace(mean, title=_MEAN)})
        if (mean := means[run])
        else result
        for run, result in steps.items()
    }
