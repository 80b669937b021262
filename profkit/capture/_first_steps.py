"""A recording of a program's first steps, for one that ends before the schedule begins.

How many steps a script makes shows only at its end. The recording is dropped when the schedule
begins, or when the script itself starts a recording of PyTorch's.
"""

from typing import TYPE_CHECKING

from profkit import marks

if TYPE_CHECKING:
    from torch.profiler import profile


class FirstSteps:
    """Holds what `profiler` recorded, until `drop` or the end."""

    def __init__(self, profiler: "profile", steps: int, *, is_needed: bool = False) -> None:
        self.profiler: profile | None = profiler
        self.left = steps
        self.is_needed = is_needed
        self.is_begun = False

    def begin(self) -> None:
        """Start, unless something else records."""
        from torch._C._autograd import _profiler_enabled

        is_known = bool(marks.expected_steps()) and not self.is_needed
        if not self.left or _profiler_enabled() or is_known:
            self.profiler = None
        if self.profiler is not None:
            self.profiler.start()
            self.is_begun = True

    @property
    def is_recording(self) -> bool:
        """Whether the last of the steps is still to end."""
        return self.profiler is not None and self.is_begun and self.left > 0

    def stop(self) -> None:
        """Record no more of them, and keep what there is."""
        if self.profiler is not None and self.is_recording:
            self.profiler.stop()
        self.left = 0

    def step(self) -> None:
        """End a step; the recording ends with its last one."""
        if self.profiler is not None and self.left:
            self.left -= 1
            self.profiler.step()

    def yield_to(self, recording: object) -> None:
        """Drop this if `recording`, which is about to start, is another one."""
        if self.profiler is not None and recording is not self.profiler.profiler:
            self.drop()

    def drop(self) -> None:
        """Forget what was recorded."""
        self.taken()

    def taken(self) -> "profile | None":
        """Return the profiler, stopped, with what it recorded; None if that was dropped."""
        self.stop()
        profiler, self.profiler = self.profiler, None
        return profiler
