"""A recording of PyTorch's profiler that begins, goes on and ends with the steps of a program."""

import atexit
import threading
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from profkit import marks
from profkit.capture._first_steps import FirstSteps
from profkit.capture._profiler_schedule import BoundedSchedule
from profkit.capture._python_samples import PythonSamples
from profkit.capture._step_memory import StepMemory
from profkit.core.errors import ProfkitError

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch._C._profiler import _ExperimentalConfig
    from torch.profiler import profile

_CALLS = ("forward", "evaluation")
"""Phases that are calls of the model."""


def is_for_all_threads() -> bool:
    """Say whether a step may end on another thread than this one, on which recording begins."""
    return threading.current_thread() is not threading.main_thread() or marks.are_on_threads()


class ProfilerRecording:
    """Calls PyTorch's profiler at step boundaries."""

    def __init__(  # noqa: PLR0913, PLR0917 - what it is made of
        self,
        profiler: "profile",
        first_steps: FirstSteps,
        first: int,
        schedule: BoundedSchedule,
        samples: PythonSamples,
        options_of_all_threads: "Callable[[], _ExperimentalConfig]",
    ) -> None:
        self.schedule = schedule
        self.samples = samples
        self.options_of_all_threads = options_of_all_threads
        self.profiler = profiler
        self.first_steps = first_steps
        self.first = first
        self.thread = threading.main_thread()
        self.is_of_all_threads = False
        self.started = self.has_yielded = self.is_full = False
        self.steps = 0
        self.memory = StepMemory()
        self.note_on_first_steps = ""
        self.failure: Exception | None = None

    def begin(self) -> None:
        """See `Recorder.begin`."""
        self.thread = threading.current_thread()
        if is_for_all_threads():
            # The next step may be another thread's, as in a server. Of all threads there is one
            # recording only: an operator that is running must not end in the next one.
            self.first_steps.drop()
            self.profiler.experimental_config = self.options_of_all_threads()
            self.is_of_all_threads = True
        self.first_steps.begin()
        self.profiler.start()
        marks.mark_too(self.at_phase)
        if not self.profiler.with_stack:
            self.samples.begin()
        self.started = True

    def step(self) -> None:
        """See `Recorder.step`."""
        if not self._is_recorded_here():
            raise ProfkitError(
                "a step ended on another thread than the first one began on, and PyTorch's"
                " profiler records one thread unless it is asked for all at the beginning",
                hint="add the tool baseline, which finds out that several threads call the model",
            )
        if self.failure is not None:
            raise self.failure
        self.steps += 1
        self.samples.step()
        if self.steps > self.first:
            self.first_steps.drop()
        self.first_steps.step()
        if not self.has_yielded:
            self.profiler.step()

    def at_phase(self, name: str) -> AbstractContextManager[object]:
        """End the recording within a step that fills the memory; see `profkit.marks.Marker`."""
        if name.startswith(marks.STEP):
            self.memory.begin_step()
        elif name in _CALLS and self._is_recording() and self.memory.is_full():
            try:
                self._end_within_step()
            except Exception as error:  # noqa: BLE001 - it is the program that runs now
                self.failure = error
        return nullcontext()

    def _is_recording(self) -> bool:
        from torch.profiler import ProfilerAction

        if not self.started or self.is_of_all_threads or not self._is_recorded_here():
            return False
        records = ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE
        is_own = not self.has_yielded and self.profiler.current_action in records
        return is_own or self.first_steps.is_recording

    def _end_within_step(self) -> None:
        note = (
            f"Step {self.steps} has so many operators that what was recorded of it took half a GB"
            f" of memory: recording ended within it, before call {self.memory.calls} of the model,"
            " and the trace shows what the step began with."
        )
        if self.first_steps.is_recording:
            # Later steps may have fewer, as where this one evaluates.
            self.note_on_first_steps = note
            self.first_steps.stop()
            return
        self.is_full = self.has_yielded = True
        marks.note(note)
        self.profiler.stop()

    def yield_to(self, recording: object) -> None:
        """Drop the first steps, and end with those that were asked for, before another recording.

        The step that is running is then shorter in the trace.
        """
        self.first_steps.yield_to(recording)
        if self.schedule.goes_on and not self.has_yielded:
            self.has_yielded = True
            self.profiler.stop()

    def end(self) -> "profile | None":
        """Stop; a cycle that is cut short still gives its trace.

        Return the recording of the first steps if the first step of the schedule has not ended.
        """
        self.samples.end()
        if self._is_recorded_here():
            return self._stop()
        # From another thread PyTorch cannot stop it, and one that is not stopped crashes at exit.
        self.profiler.on_trace_ready = None
        atexit.register(self._stop)
        return None

    def _stop(self) -> "profile | None":
        is_short = self.started and self.steps <= self.first and not self.is_full
        kept = self.first_steps.taken() if is_short else None
        if kept is not None:
            self.profiler.on_trace_ready = None
        if self.started and not self.has_yielded:
            self.profiler.stop()
        if self.profiler.execution_trace_observer is not None:
            # Its file is not complete before.
            self.profiler.execution_trace_observer.cleanup()  # type: ignore[no-untyped-call]
        self.started = False
        return kept

    def _is_recorded_here(self) -> bool:
        """Say whether this thread is recorded, which alone can stop the recording."""
        return self.is_of_all_threads or threading.current_thread() is self.thread
