"""End a script after a number of steps, on every rank alike."""

import time
from collections.abc import Callable


class StepLimit:
    """Ends the script after its step number `steps`, and not before `least_s` seconds of steps.

    It calls `at_end` before, which says whether it has seen to the end of the script itself.
    """

    def __init__(self, steps: int, at_end: Callable[[], bool] = bool, least_s: float = 0.0) -> None:
        self.left = steps
        self.at_end = at_end
        self.least_s = least_s
        self.begun_s = 0.0

    def begin(self) -> None:
        """See `profkit.marks.Listener`."""
        self.begun_s = time.monotonic()

    def step(self, samples: int) -> None:
        """See `profkit.marks.Listener`."""
        del samples
        self.left -= 1
        if self.left == 0 and time.monotonic() < self.begun_s + self.least_s:
            self.left = 1
        # Scripts catch errors of their own, and hardly ever this.
        if self.left == 0 and not self.at_end():
            raise SystemExit(0)

    def resume(self) -> None:
        """See `profkit.marks.Listener`."""

    def join(self, first: int, count: int) -> None:
        """See `profkit.marks.Listener`."""
        del first
        self.left += count - 1

    def note(self, text: str) -> None:
        """See `profkit.marks.Listener`."""
