"""End a script after a number of steps, on every rank alike."""

import atexit
import inspect
import os
import sys
import time
from collections.abc import Callable
from typing import NoReturn

_LONG = 10
"""How many times as long as they have to last at least half of the steps are enough."""

_SCRIPT = "profkit.workloads.script"
_RUNNERS = {
    "unittest.case": "unittest",
    "_pytest.python": "pytest",
    "_pytest.fixtures": "pytest",
}
"""Modules whose functions call tests, and what they are of."""


class StepLimit:
    """Ends the script after its step number `steps`, and not before `least_s` seconds of steps.

    Of these seconds the first `uncounted` steps are none, nor is what other listeners do between
    steps. Where steps are so long that half of them, with the uncounted ones, last ten times
    `least_s`, these are enough. It calls `at_end` before, which says whether it has seen to the end
    of the script itself.
    """

    def __init__(
        self,
        steps: int,
        at_end: Callable[[], bool] = bool,
        least_s: float = 0.0,
        uncounted: int = 0,
    ) -> None:
        self.left = steps
        self.half = steps // 2
        self.uncounted = uncounted
        self.at_end = at_end
        self.least_s = least_s
        self.begun_s = self.lasted_s = self.all_lasted_s = 0.0

    def begin(self) -> None:
        """See `profkit.marks.Listener`."""
        self.begun_s = time.monotonic()

    def end_step(self) -> None:
        """Note that a step has ended, before listeners are called that do more than that."""
        lasted_s = time.monotonic() - self.begun_s
        self.all_lasted_s += lasted_s
        if self.uncounted <= 0:
            self.lasted_s += lasted_s

    def step(self, samples: int) -> None:
        """See `profkit.marks.Listener`."""
        del samples
        self.left -= 1
        self.uncounted -= 1
        are_long = 0 < _LONG * self.least_s <= self.all_lasted_s and self.uncounted <= 0
        if are_long and self.left <= self.half:
            self.left = 0
        elif self.left == 0 and self.lasted_s < self.least_s:
            self.left = 1
        self.begun_s = time.monotonic()
        if self.left == 0 and not self.at_end():
            end_script()

    def resume(self) -> None:
        """See `profkit.marks.Listener`."""

    def join(self, first: int, count: int) -> None:
        """See `profkit.marks.Listener`."""
        del first
        self.left += count - 1

    def note(self, text: str) -> None:
        """See `profkit.marks.Listener`."""


def end_script(status: int = 0) -> NoReturn:
    """Raise what ends the script; what runs tests would take an exit for a test that failed."""
    runner = _test_runner()
    if runner == "pytest":
        sys.modules["pytest"].exit("profkit has recorded enough", returncode=status)
    if runner == "unittest":
        atexit._run_exitfuncs()  # noqa: SLF001 - there is no other way to have them run
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    # Scripts catch errors of their own, and hardly ever this.
    raise SystemExit(status)


def ends_script(error: Exception) -> bool:
    """Tell whether `end_script` raised an error."""
    pytest = sys.modules.get("pytest")
    return pytest is not None and isinstance(error, pytest.exit.Exception)


def _test_runner() -> str:
    """Return what runs tests in the script and has called this, "" for nothing."""
    frame = inspect.currentframe()
    while frame is not None:
        module = str(frame.f_globals.get("__name__"))
        if module in _RUNNERS or module == _SCRIPT:
            return _RUNNERS.get(module, "")
        frame = frame.f_back
    return ""
