"""What the step time of a run is called, and how those that were taken otherwise are compared."""

from collections.abc import Mapping
from dataclasses import replace
from statistics import fmean

from profkit.core.result import Abstention, Metric, Result

BASELINE = "baseline"
"""The tool that records only the steps."""

_UNPROFILED = "Unprofiled step time"


def step_time_title(tool: str, *, is_mean: bool = False) -> str:
    """Return the title of the step time that was measured with `tool`."""
    if tool != BASELINE:
        return f"Step time, mean, with {tool}"
    return f"{_UNPROFILED}, {'mean of uneven steps' if is_mean else 'median'}"


def is_mean_of_uneven(metric: Metric | None) -> bool:
    """Say whether a step time is the mean of unprofiled steps because these are uneven."""
    return metric is not None and metric.title == step_time_title(BASELINE, is_mean=True)


def unprofiled_mean(steps: Result) -> Metric | None:
    """Return the mean of the unprofiled steps, with that of each repeat; None if there are none.

    Where steps are uneven in one of two runs, the means of both are what can be compared.
    """
    metric = steps.metrics.get("step_time_ns")
    rows = steps.tables["per_repeat"].records() if "per_repeat" in steps.tables else []
    if metric is None or not rows or not metric.title.startswith(_UNPROFILED):
        return None
    means = {int(row["repeat"]): float(row["mean_ns"]) for row in rows}
    title = f"{_UNPROFILED}, mean"
    return replace(metric, value=fmean(means.values()), title=title, by_repeat=means, interval=None)


def timed_alike(
    steps: Mapping[str, Result], reference: str = ""
) -> tuple[dict[str, Result], tuple[Abstention, ...]]:
    """Return the runs that can be compared, and which are left out as they were timed otherwise.

    They are timed as `reference` is, or without a profiler, which slows the steps, if some are.
    Where steps of one are uneven, the step times of all are means.
    """
    metrics = {run: result.metrics.get("step_time_ns") for run, result in steps.items()}
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
    if any(map(is_mean_of_uneven, metrics.values())):
        kept = {run: with_mean(result) for run, result in kept.items()}
    return kept, left_out


def _way(title: str) -> str:
    """Return the title of a step time without what was taken of the steps, if that may differ."""
    return _UNPROFILED if title.startswith(_UNPROFILED) else title


def with_mean(steps: Result) -> Result:
    """Return the result of `steps` with the mean of the unprofiled ones as step time."""
    mean = unprofiled_mean(steps)
    return (
        steps if mean is None else replace(steps, metrics={**steps.metrics, "step_time_ns": mean})
    )
