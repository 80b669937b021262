"""One process of a followed command, from its import of torch to its end.

It is a rank from the moment when it makes a model or an optimizer, or marks a step, and then has
files named after its process; which rank it was is settled when the command has ended.
"""

import atexit
import ctypes
import functools
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict
from typing import Any

from profkit import marks
from profkit.capture.base import NullRecorder, Recorder
from profkit.capture.harness.followed import other_processes, process_record
from profkit.capture.harness.followed.early_end import (
    call_after,
    end_by_main_thread,
    is_answering,
    let_asyncio_be_silent,
)
from profkit.capture.harness.followed.process_record import ProcessRank, ProcessRecord
from profkit.capture.harness.followed.request import FollowRequest, from_environment
from profkit.capture.harness.foreground import ENDED_EARLY
from profkit.capture.harness.ranks import rank_files, software
from profkit.capture.harness.ranks.clock import StepClock
from profkit.capture.harness.ranks.collective_timeouts import extend_timeouts
from profkit.capture.harness.ranks.coordinates import CoordinatesListener
from profkit.capture.harness.ranks.opened_files import OpenedFiles
from profkit.capture.harness.ranks.recording import recording, step_markers
from profkit.capture.harness.ranks.sources import SourcesListener
from profkit.capture.harness.record import last_words, rank_errors, rank_warnings
from profkit.capture.harness.spec import Spec
from profkit.capture.harness.spec import from_environment as spec_from_environment
from profkit.capture.harness.started_file import FAILED_STARTS, failed_starts_note
from profkit.core.errors import ProfkitError
from profkit.workloads.automatic.step_limit import StepLimit, end_script, ends_script

# A program that goes on after its last step is ended after this time: threads may hold it.
_END_S = 60.0
# Less if a thread of its own made it: the main one may wait for what never comes.
_END_BY_THREAD_S = 10.0
# In which a server sends the answer that made the last step.
_ANSWER_S = 0.5
# Packages that tools import in the program.
_OF_TOOLS = ("nvtx", "psutil", "pyinstrument", "pytorch_memlab", "msgspec")


def follow(environment: Mapping[str, str]) -> None:
    """Watch this process, which has just imported torch and began with this `environment`."""
    spec = spec_from_environment(environment)
    if not spec.folder.is_dir():
        return
    record = ProcessRecord.of_this_process()
    if started_again := environment.get(FAILED_STARTS):
        rank_warnings.add(spec.folder, record.as_rank(), failed_starts_note(started_again))
    try:
        FollowedProcess(spec, from_environment(environment)).watch()
    except Exception as error:  # noqa: BLE001 - the program is not to fail of it
        _write_failure(spec, record, error)


def _apart(act: Callable[..., None]) -> Callable[..., None]:
    """Keep what fails in following a program out of the program, whose code did not fail."""

    @functools.wraps(act)
    def guarded(process: "FollowedProcess", *args: Any) -> None:
        try:
            act(process, *args)
        except Exception as error:
            if ends_script(error):
                raise
            process.give_up(error)
            if process.request.stop_after:
                # It would be ended anyway, after steps that are of no use any more.
                end_script(1)

    return guarded


class FollowedProcess:
    """Listens for the first step of this process; with a model or an optimizer it is a rank."""

    def __init__(self, spec: Spec, request: FollowRequest) -> None:
        self.spec = spec
        self.request = request
        self.exit_now = os._exit
        self.opened = OpenedFiles()
        self.hooks = ExitStack()
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget what was before, in a process that was just begun or forked."""
        self.rank: ProcessRank | None = None
        self.record = ProcessRecord.of_this_process()
        self.open = ExitStack()
        self.listeners: tuple[marks.Listener, ...] = ()
        self.sources: SourcesListener | None = None
        self.coordinates: CoordinatesListener | None = None
        self.recorder: Recorder = NullRecorder()
        self.thread = threading.current_thread()
        self.is_cut_short = False
        self.limit: StepLimit | None = None
        self.becoming = threading.RLock()

    def watch(self) -> None:
        """Install the hooks, for this process and those that it forks."""
        self._observe()
        self.record.write(self.spec.folder)
        atexit.register(self._leave)
        os.register_at_fork(after_in_child=self._go_on_in_child)

        def exit_after_end(code: int) -> None:
            self.end()
            self.exit_now(code)

        os._exit = exit_after_end  # type: ignore[assignment]

    def _observe(self) -> None:
        from torch import nn, optim

        from profkit.workloads.automatic.step_hooks import StepHooks

        has_markers = self.request.tool.opens_step_ranges
        are_on_threads = self.request.has_several_threads
        markers = step_markers(are_on_threads=are_on_threads) if has_markers else ()
        marks.begin_anew(self, markers=markers)
        if are_on_threads:
            marks.observed_threads()
        self.step_hooks = self.hooks.enter_context(
            StepHooks(self.request.step, self.request.samples, self.request.round)
        )
        for made in (nn.Module, optim.Optimizer):
            self.hooks.callback(_before_first_instance(made, self.become_rank))

    def _go_on_in_child(self) -> None:
        # What the parent records is not this process's to end, not even as garbage.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.open))
        self.hooks.close()
        self.begin_anew()
        self._observe()

    @_apart
    def become_rank(self) -> None:
        """Let the tool record this process, unless it loads data for another one."""
        from torch.utils.data import get_worker_info

        # Another thread may make its model meanwhile, and call it.
        with self.becoming:
            if self.rank is None and get_worker_info() is None:
                self._become_rank()

    def _become_rank(self) -> None:
        self.record.locate()
        self.rank = self.record.as_rank()
        last_words.hand_over(self.spec.folder, self.spec.token, self.rank)
        self._write_record()
        if self.request.stop_after and self.rank.world_size > 1:
            other_processes.end_after_others(self.spec.folder, self.record, self._end_now)
        software.write(self.spec.folder, self.rank)
        # Whatever imported torch, this thread makes the model.
        self.step_hooks.thread = threading.get_ident()
        spec, tool = self.spec, self.request.tool
        self.sources = SourcesListener(spec, self.rank, self.opened, process_record.main_folder())
        self.listeners = (self.sources,)
        self.open.push(self._record_failure)
        parallel = self.request.parallel
        is_profiled = tool.records_rank(self.rank.rank, self.rank.world_size, parallel)
        self.recorder = self.open.enter_context(
            recording(spec.raw_folder, self.rank, tool, is_profiled=is_profiled)
        )

    @_apart
    def begin(self) -> None:
        """See `profkit.marks.Listener`."""
        self.become_rank()
        if self.rank is None:
            return
        self.thread = threading.current_thread()
        self.record.locate()
        self.rank = rank = self.record.as_rank()
        spec, request = self.spec, self.request
        progress = {"run": spec.run, "tool": spec.tool, "repeat": spec.repeat}
        progress["total"] = request.stop_after or -1
        clock = StepClock(spec.folder, rank, self.recorder, progress, spec.node)
        self.open.enter_context(clock)
        at_first_step = functools.partial(extend_timeouts, spec, request.tool)
        self.coordinates = CoordinatesListener(rank, request.parallel, at_first_step)
        self.listeners = (*self.listeners, self.coordinates, clock)
        if request.stop_after:
            # Several ranks have to end at the same step.
            least_s = request.stop_after_s if rank.world_size == 1 else 0.0
            _, traced = request.tool.traced_steps
            self.limit = StepLimit(request.stop_after, self._end_early, least_s, traced)
            self.listeners = (*self.listeners, self.limit)
        for listener in self.listeners:
            listener.begin()
        if request.note:
            self.note(request.note)

    @_apart
    def step(self, samples: int) -> None:
        """See `profkit.marks.Listener`."""
        if self.request.tool.is_of_one_thread and threading.current_thread() is not self.thread:
            raise ProfkitError(
                f"{self.spec.tool} records one thread, and a step ended on another one than it"
                " began on",
                hint="py_spy and torch_profiler record all threads",
            )
        if self.limit is not None:
            self.limit.end_step()
        self.record.steps += 1
        if self.record.steps == 1:
            self._write_record()
        for listener in self.listeners:
            listener.step(samples)

    @_apart
    def resume(self) -> None:
        """See `profkit.marks.Listener`."""
        for listener in self.listeners:
            listener.resume()

    @_apart
    def join(self, first: int, count: int) -> None:
        """See `profkit.marks.Listener`."""
        self.record.steps -= count - 1
        for listener in self.listeners:
            listener.join(first, count)

    @_apart
    def note(self, text: str) -> None:
        """See `profkit.marks.Listener`."""
        if self.rank is not None:
            rank_warnings.add(self.spec.folder, self.rank, text)

    def _end_early(self) -> bool:
        """End what records, and after a while the program, should it go on regardless.

        Return whether the main thread will end the program, so that the thread of this step can go
        on: what it answers is waited for, and an executor would print what it raises.
        """
        is_training = self.step_hooks.is_training
        is_on_main = threading.current_thread() is threading.main_thread()
        goes_on = not is_training and (not is_on_main or is_answering())
        self.end()
        self.is_cut_short = True
        # The folder may be gone.
        with suppress(OSError):
            (self.spec.folder / ENDED_EARLY).touch()
            other_processes.wait_for_ranks(self.spec.folder)
        has_main = is_on_main and not goes_on
        call_after(_END_S if has_main else _END_BY_THREAD_S, self.exit_now, 0)
        if has_main:
            let_asyncio_be_silent()
        else:
            call_after(_ANSWER_S, end_by_main_thread)
        # Before what is registered already: `multiprocessing` joins them.
        atexit.register(other_processes.end_children, self.spec.folder)
        return goes_on

    def _leave(self) -> None:
        """End, after all else that the program does at its exit."""
        self.end()
        others = [one for one in threading.enumerate() if not one.name.startswith("profkit ")]
        if self.is_cut_short and len(others) > 1:
            # A thread of its own that is in PyTorch's code, as no whole run has it here, aborts.
            self._end_now()

    def _end_now(self) -> None:
        self.end()
        sys.stdout.flush()
        sys.stderr.flush()
        self.exit_now(0)

    def end(self) -> None:
        """Write what was recorded; later calls do nothing."""
        if self.rank is None:
            return
        try:
            self._end_recording(self.rank)
        except Exception as error:  # noqa: BLE001 - Python prints what is raised at its exit
            self.give_up(error)

    def _end_recording(self, rank: ProcessRank) -> None:
        self.hooks.close()
        if self.sources is not None:
            self.sources.write()
        self._close(getattr(sys, "last_value", None))
        if self.coordinates is not None:
            located = self.coordinates.located()
            if located.doubt:
                rank_warnings.add(self.spec.folder, rank, located.doubt)
            rank_files.write_coordinates(self.spec.folder, rank, located)
        marks.listen()
        self.record.ended_ns = time.time_ns()
        self._write_record()
        self.rank = None

    def give_up(self, error: Exception) -> None:
        """Record this process no longer, and write why."""
        marks.listen()
        self.hooks.close()
        _write_failure(self.spec, self.record, error)
        self.rank = None
        # What cannot go on may not be able to end either, and the program has to go on.
        with suppress(Exception):
            self._close(error)

    def _close(self, error: BaseException | None) -> None:
        """End what records, after `error` if there is one."""
        parts, self.open = self.open, ExitStack()
        if error is None:
            parts.close()
        else:
            parts.__exit__(type(error), error, error.__traceback__)

    def _write_record(self) -> None:
        self.record.is_training = self.step_hooks.is_training
        self.record.step_is = self.step_hooks.step_is
        self.record.first_passes = self.step_hooks.first_passes
        self.record.unstepped_passes = self.step_hooks.unstepped_passes
        self.record.has_several_threads = self.step_hooks.has_several_threads
        if (step := self.step_hooks.step_ends.confirmed) is not None:
            self.record.round = asdict(step)
        self.record.write(self.spec.folder)

    def _record_failure(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        """Write the error that ended the program or the tool; no code of the program handles it."""
        del kind, trace
        # A process that made a model and no step is no rank: what the tool says of it is no error.
        is_programs = error is getattr(sys, "last_value", None)
        if error is not None and self.rank is not None and (self.record.steps or is_programs):
            _write_failure(self.spec, self.record, error)
        return True


def _write_failure(spec: Spec, record: ProcessRecord, error: BaseException) -> None:
    """Write what failed in this process, for the record of the capture."""
    summary = "".join(traceback.format_exception_only(error))
    details = "".join(traceback.format_exception(error))
    if isinstance(error, ProfkitError):
        summary, details = str(error), ""
    if isinstance(error, ModuleNotFoundError) and error.name in _OF_TOOLS:
        needs = f"{spec.tool} needs {error.name} in the Python of the program"
        summary = f"{needs}; {sys.executable} -m pip install {error.name}"
    # If the folder is gone or the disk full, the capture finds that itself.
    with suppress(OSError):
        record.write(spec.folder)
        rank_errors.write_error(spec.folder, record.as_rank(), summary, details)


def _before_first_instance(made: Any, act: Callable[[], None]) -> Callable[[], None]:
    """Call `act` before the first instance of class `made` is; return what undoes this."""
    original = made.__init__

    @functools.wraps(original)
    def first(*args: Any, **kwargs: Any) -> None:
        made.__init__ = original
        act()
        original(*args, **kwargs)

    def undo() -> None:
        if made.__init__ is first:
            made.__init__ = original

    made.__init__ = first
    return undo
