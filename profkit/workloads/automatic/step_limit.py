"""End a script after a number of steps, on every rank alike."""

from collections.abc import Callable


class StepLimit:
    """Ends the script after its step number `steps`.

    It calls `at_end` before, which says whether it has seen to the end of the script itself.
    """

    def __init__(self, steps: int, at_end: Callable[[], bool] = bool) -> None:
        self.left = steps
        self.at_end = at_end

    def begin(self) -> None:
        """See `profkit.marks.Listener`."""

    def step(self, samples: int) -> None:
        """See `profkit.marks.Listener`."""
        del samples
        self.left -= 1
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
