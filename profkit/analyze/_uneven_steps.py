"""Whether the step time, which is a median, says what a step costs."""

from collections.abc import Iterator
from statistics import fmean

from profkit.core.formatting import duration
from profkit.core.result import Result
from profkit.core.verdict import Trust

_UNEVEN = 1.4
"""Mean over median, or median over mean, from which on steps are uneven."""


def uneven_steps(steps: Result | None) -> Iterator[Trust]:
    """Yield the check that fails if a step costs far more, or less, than its median says.

    The batches of several DataLoader workers arrive together: of two workers, each second step
    waits for twice the time that a step takes, and the others do not wait.
    """
    if steps is None or "per_repeat" not in steps.tables:
        return
    rows = steps.tables["per_repeat"].records()
    mean = fmean(float(row["mean_ns"]) for row in rows)
    median = steps.metrics["step_time_ns"].value
    if max(mean, median) > _UNEVEN * min(mean, median):
        yield Trust(
            check="uneven steps",
            passed=False,
            message=f"Unprofiled steps are uneven: {duration(median)} in the median, "
            f"{duration(mean)} in the mean, as where batches of several DataLoader workers come "
            "together.",
        )
