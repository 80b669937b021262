"""How long a run will still take, by the jobs that have ended."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

_SHORT_S = 0.5
"""Seconds of a job that is no capture, until one has ended."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Jobs:
    """The jobs of one kind: captures, which run one after the other, or others."""

    total: int
    """How many there are."""

    ended_s: Sequence[float]
    """Seconds that those took which have ended."""

    running_s: Sequence[float]
    """Seconds since the others began that have begun."""


def time_left_s(captures: Jobs, others: Jobs, workers: int) -> float | None:
    """Return the seconds that are left, `others` being done by `workers`; None if none is known."""
    if captures.total and not captures.ended_s:
        return None
    waiting = max(captures.total - len(captures.ended_s) - len(captures.running_s), 0)
    mean_s = fmean(captures.ended_s) if captures.ended_s else 0.0
    left_s = mean_s * waiting + sum(max(mean_s - running, 0) for running in captures.running_s)
    short_s = fmean(others.ended_s) if others.ended_s else _SHORT_S
    return left_s + short_s * max(others.total - len(others.ended_s), 0) / max(workers, 1)
