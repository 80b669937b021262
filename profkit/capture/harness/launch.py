"""Start the ranks, wait for them, and end all of their processes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from profkit.capture.harness import loaded_launcher
from profkit.capture.harness.foreground import Foreground
from profkit.capture.harness.record.bounded_log import BoundedLog
from profkit.process import caller_environment, parent_watch, process_tree

if TYPE_CHECKING:
    from profkit.capture.harness.loaded_launcher import LaunchedInFork

# Memory can fill by gigabytes a second.
_PERIOD_S = 0.2
_LEFT = (
    b"profkit: the rest of the command waits for a process that was ended after its steps, and is"
    b" interrupted; --all lets all of it run to its end\n"
)
# What was recorded is written meanwhile.
_END_S = 60.0
_NO_TERMINAL = Foreground()
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that ask a process to end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessEnd:
    """How a command ended."""

    exit_code: int
    """Its exit status; negative is the signal that killed it."""

    timed_out: bool = False
    """Whether it was killed because it took too long."""

    interrupted: bool = False
    """Whether the person who waits for it interrupted it."""

    stopped: str = ""
    """Why it was killed, if `stop_reason` returned one."""

    shortage: str = ""
    """What says that memory ran out; "" if nothing does."""

    survivors: tuple[int, ...] = ()
    """Processes that could not be killed."""

    cpu_s: float = 0.0
    """CPU time of processes that were not children of this one."""


def launch(  # noqa: PLR0913, PLR0917 - what a process is, and how long it may live
    command: Sequence[str],
    environment: Mapping[str, str],
    log: Path,
    timeout_s: float,
    token: str,
    cwd: str = "",
    stop_reason: Callable[[], str] = str,
    foreground: Foreground = _NO_TERMINAL,
) -> ProcessEnd:
    """Run `command` in folder `cwd` (here, if "") with its output in `log`, at most `timeout_s`.

    `stop_reason` is called every `_PERIOD_S`; once it returns a reason, the command is killed. When
    this returns or raises, every process that was started has ended; `token` is a text in
    `environment`, which is all that the command gets. Raises SystemExit on a signal to stop.
    """
    process_tree.adopt_orphans()
    spared = process_tree.children()
    with (
        BoundedLog(log, foreground.output) as output,
        stoppable(),
        foreground.opened_input() as stdin,
    ):
        try:
            process = _start(command, environment, cwd, (stdin, output.descriptor))
            ended = _wait(process, timeout_s, stop_reason, output, foreground)
        finally:
            # A second signal must not stop the killing half-way.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
            survivors = process_tree.kill_all(token, spared)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    cpu_s = 0.0 if isinstance(process, subprocess.Popen) else process.cpu_s
    return replace(ended, survivors=tuple(survivors), cpu_s=cpu_s)


def _start(
    command: Sequence[str], environment: Mapping[str, str], cwd: str, streams: tuple[int, int]
) -> "subprocess.Popen[bytes] | LaunchedInFork":
    stdin, output = streams
    if launched := loaded_launcher.start(command, environment, cwd, (stdin, output, output)):
        return launched
    return subprocess.Popen(
        command,
        stdin=stdin,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=environment,
        cwd=cwd or None,
        # Ctrl-C in a terminal reaches a whole process group; ranks are to be ended here.
        start_new_session=True,
        preexec_fn=_as_started_by_caller,  # noqa: PLW1509 - one thread only
    )


def _as_started_by_caller() -> None:
    process_tree.die_with_parent()
    caller_environment.ignore_as_caller()


def _wait(
    process: "subprocess.Popen[bytes] | LaunchedInFork",
    timeout_s: float,
    stop_reason: Callable[[], str],
    output: BoundedLog,
    foreground: Foreground,
) -> ProcessEnd:
    """Wait for the end of `process`; kill it after `timeout_s` or for a reason to stop."""
    deadline, stopped = time.monotonic() + timeout_s, ""
    is_ending = is_left = False
    worked_s = time.time()
    while (left_s := deadline - time.monotonic()) > 0 and not (stopped := stop_reason()):
        if isinstance(process, subprocess.Popen) and not is_ending:
            if foreground.has_ended_early and process_tree.works(process.pid):
                worked_s = time.time()
            is_left = foreground.is_left_waiting(worked_s)
            if is_left or foreground.is_to_end:
                is_ending, deadline = True, time.monotonic() + _END_S
                if is_left:
                    os.write(output.descriptor, _LEFT)
                os.killpg(process.pid, signal.SIGINT)
        try:
            exit_code = process.wait(min(left_s, _PERIOD_S))
            # What the program has to say of being interrupted is no failure of its own.
            is_interrupted = is_ending and not is_left
            return ProcessEnd(exit_code=0 if is_left else exit_code, interrupted=is_interrupted)
        except subprocess.TimeoutExpired:
            output.shorten()
            # Between this process and Snakemake is a shell, which survives when that is killed.
            if parent_watch.has_workflow_ended():
                sys.exit("the process that asked for this capture has ended")
    process.kill()
    is_late = not stopped and not is_ending
    exit_code = process.wait()
    is_asked_for = is_left and not stopped
    return ProcessEnd(
        exit_code=0 if is_asked_for else exit_code,
        timed_out=is_late,
        interrupted=is_ending and not is_left,
        stopped=stopped,
    )


@contextmanager
def stoppable() -> Iterator[None]:
    """Turn the signals that ask a process to end into SystemExit, so that clean-up runs."""

    def stop(signum: int, frame: FrameType | None) -> None:
        del frame
        sys.exit(128 + signum)

    before = {signum: signal.signal(signum, stop) for signum in STOP_SIGNALS}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
