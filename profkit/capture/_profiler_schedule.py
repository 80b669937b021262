"""Schedules of torch.profiler, and one that records as long as it should and as much as it may."""

import time
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch.profiler import ProfilerAction


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """Steps that are recorded, by the arguments of ``torch.profiler.schedule``."""

    skip_first: int
    wait: int
    warmup: int
    active: int
    repeat: int

    @property
    def first(self) -> int:
        """Number of the first step that is recorded, from 0."""
        return self.skip_first + self.wait + self.warmup

    @property
    def first_steps(self) -> int:
        """Number of the first steps that can be recorded apart, before the schedule records."""
        return min(self.first - self.warmup, _FIRST_STEPS)

    @property
    def steps(self) -> int:
        """Steps that the workload must run for every cycle to come to its end."""
        cycle = self.wait + self.warmup + self.active
        return self.skip_first + cycle * max(self.repeat, 1)

    def function(self, *, skip_first_wait: bool) -> "Callable[[int], ProfilerAction]":
        """Return it as PyTorch takes it, older versions without `skip_first_wait`."""
        from torch import profiler

        return profiler.schedule(
            skip_first=self.skip_first,
            wait=self.wait,
            warmup=self.warmup,
            active=self.active,
            repeat=self.repeat,
            **({"skip_first_wait": 1} if skip_first_wait else {}),
        )


_FIRST_STEPS = 3
PRESETS = MappingProxyType(
    {
        "early": Schedule(skip_first=0, wait=0, warmup=0, active=3, repeat=1),
        "stable": Schedule(skip_first=3, wait=1, warmup=1, active=3, repeat=1),
        "periodic": Schedule(skip_first=3, wait=1, warmup=1, active=1, repeat=3),
    }
)


_USUAL_STEPS = 20
_LEAST_OF_THESE = 1 / 3
"""Of the time that is wanted: in less than 100 ms, Python is looked at too seldom."""


class BoundedSchedule:
    """Does what `schedule` says, until `most` steps are recorded; None is no bound.

    Without one it goes on after its last step until it has recorded steps of `least_s` seconds, or
    of a third of that if these are 20. A few short ones say little: a queue that was filled while
    the profiler was made ready lasts longer.
    """

    def __init__(self, schedule: "Callable[[int], ProfilerAction]", least_s: float = 0.0) -> None:
        self.schedule = schedule
        self.least_s = least_s
        self.most: int | None = None
        self.before = [0]
        """Number of recorded steps before each step."""
        self.first = -1
        """Number of the first step that is recorded, and when it began."""
        self.begun_s = 0.0
        self.goes_on = False

    def __call__(self, step: int) -> "ProfilerAction":
        """Return what is done in `step`."""
        from torch.profiler import ProfilerAction

        action = self.schedule(step)
        if self.most is None:
            return self._going_on(step, action) if self.least_s else action
        before, after = self.recorded_before(step), self.recorded_before(step + 1)
        if before >= self.most:
            return ProfilerAction.NONE
        # The last one is written.
        return ProfilerAction.RECORD_AND_SAVE if before < after == self.most else action

    def _going_on(self, step: int, action: "ProfilerAction") -> "ProfilerAction":
        """Return what is done instead of `action`, in a `step` that is asked for as it begins."""
        from torch.profiler import ProfilerAction

        if self.first < 0 and action == ProfilerAction.RECORD:
            self.first, self.begun_s = step, time.monotonic()
        is_last = action == ProfilerAction.RECORD_AND_SAVE and step > self.first >= 0
        if not (is_last or self.goes_on):
            return action
        recorded, lasted_s = step - self.first, time.monotonic() - self.begun_s
        least_s = self.least_s * (_LEAST_OF_THESE if recorded + 1 >= _USUAL_STEPS else 1.0)
        has_enough = lasted_s * (recorded + 1) >= least_s * recorded
        self.goes_on = not has_enough
        return ProfilerAction.RECORD_AND_SAVE if has_enough else ProfilerAction.RECORD

    def recorded_before(self, step: int) -> int:
        """Return how many steps before `step` the schedule records, without a bound."""
        from torch.profiler import ProfilerAction

        recorded = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        while len(self.before) <= step:
            action = self.schedule(len(self.before) - 1)
            self.before.append(self.before[-1] + (action in recorded))
        return self.before[step]
