"""Whether the time is that of steps, and one costs what the step time says."""

from collections.abc import Iterator
from statistics import fmean

from profkit.analyze.shared.step_times import (
    BETWEEN_STEPS,
    GROWTH,
    UNEVEN,
    is_mean_of_uneven,
)
from profkit.core.formatting import duration
from profkit.core.result import Result
from profkit.core.verdict import Action, Trust

_MOST = 0.5
_NS_PER_MS = 1e6


def between_steps(steps: Result | None) -> Iterator[Trust]:
    """Yield the check that fails if much of the time passes between steps."""
    if steps and (found := steps.metrics.get(BETWEEN_STEPS)):
        message = (
            f"{found.value:.0%} of the time passes between steps, as in evaluation: the step time, "
            "and all causes, leave that out."
        )
        yield Trust(check="between steps", passed=False, message=message)


def outside_steps(steps: Result | None) -> list[Action]:
    """Return what to do where most of the time passes between steps, as one action or none."""
    found = steps.metrics.get(BETWEEN_STEPS) if steps else None
    step = steps.metrics.get("step_time_ns") if steps else None
    if found is None or step is None or found.value < _MOST:
        return []
    return [
        Action(
            cause="",
            title="Most of the time passes between steps",
            advice=(
                f"It is {found.value:.0%}, as of evaluation, checkpoints or logs: do that less "
                "often, or with fewer batches. `+tool=py_spy` shows its lines."
            ),
            gain_ms=step.value * found.value / (1 - found.value) / _NS_PER_MS,
            source="https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
        )
    ]


def growing_steps(steps: Result | None) -> Iterator[Trust]:
    """Yield the check that fails if later steps take longer than those that were recorded."""
    for finding in steps.findings if steps else ():
        if finding.metric == f"steps.{GROWTH}":
            message = f"{finding.message} {finding.advice}"
            yield Trust(check="growing steps", passed=False, message=message)


def uneven_steps(steps: Result | None) -> Iterator[Trust]:
    """Yield the check that fails if unprofiled steps take far more, or less, than the median one.

    The batches of several DataLoader workers arrive together: of two workers, each second step
    waits for twice the time that a step takes, and the others do not wait.
    """
    if steps is None or "per_repeat" not in steps.tables:
        return
    rows = steps.tables["per_repeat"].records()
    mean, median = (fmean(float(row[name]) for row in rows) for name in ("mean_ns", "median_ns"))
    if max(mean, median) <= UNEVEN * min(mean, median):
        return
    message = (
        f"Unprofiled steps are uneven, so their mean counts, {duration(mean)}, and not the median, "
        f"{duration(median)}: many are far slower than others, as where other programs have the "
        "cores, or the batches of several DataLoader workers come together."
        if is_mean_of_uneven(steps.metrics.get("step_time_ns"))
        else f"A few unprofiled steps are so slow that the mean is {duration(mean)}, and the step "
        f"time, the median, {duration(median)}."
    )
    yield Trust(check="uneven steps", passed=False, message=message)
