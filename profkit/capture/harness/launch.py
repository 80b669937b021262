"""Start the ranks, wait for them, and leave nothing of them running."""

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

from profkit.process import parent_watch, process_tree

# Memory can fill by gigabytes a second.
_LOOK_S = 0.2
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that ask a process to end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """How a command came to its end."""

    exit_code: int
    """Its exit status; negative is the signal that killed it."""

    timed_out: bool = False
    """Whether it was killed because it took too long."""

    stopped: str = ""
    """Why it was killed, if the watch said so."""

    survivors: tuple[int, ...] = ()
    """Processes that could not be killed."""


def launch(  # noqa: PLR0913, PLR0917 - what a process is, and how long it may live
    command: Sequence[str],
    environment: Mapping[str, str],
    log: Path,
    timeout_s: float,
    mark: str,
    cwd: str = "",
    watch: Callable[[], str] = str,
) -> Ended:
    """Run `command` in folder `cwd` (here, if "") with its output in `log`, at most `timeout_s`.

    `watch` is called all the while; once it returns a reason, the command is killed for it. When
    this returns or raises, every process that was started is gone; `mark` is a text in the
    environment of all of them. Raises SystemExit when this process is told to stop.
    """
    process_tree.adopt_orphans()
    spared = process_tree.children()
    with log.open("wb") as output, _stoppable():
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
                cwd=cwd or None,
                # Ctrl-C in a terminal reaches a whole process group; ranks are to be ended here.
                start_new_session=True,
                preexec_fn=process_tree.die_with_parent,  # noqa: PLW1509 - one thread only
            )
            ended = _waited(process, timeout_s, watch)
        finally:
            # A second signal must not stop the killing half-way.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
            survivors = process_tree.kill_all(mark, spared)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return replace(ended, survivors=tuple(survivors))


def _waited(
    process: "subprocess.Popen[bytes]", timeout_s: float, watch: Callable[[], str]
) -> Ended:
    """Return the exit status, and why it had to be forced if it had to."""
    deadline, stopped = time.monotonic() + timeout_s, ""
    while (left := deadline - time.monotonic()) > 0 and not (stopped := watch()):
        try:
            return Ended(exit_code=process.wait(min(left, _LOOK_S)))
        except subprocess.TimeoutExpired:
            # Between us and Snakemake is a shell, which hears nothing of its being killed.
            if parent_watch.has_workflow_ended():
                sys.exit("the process that asked for this capture has ended")
    process.kill()
    return Ended(exit_code=process.wait(), timed_out=not stopped, stopped=stopped)


@contextmanager
def _stoppable() -> Iterator[None]:
    """Turn the signals that ask a process to end into SystemExit, so that clean-up runs."""

    def stop(signum: int, frame: FrameType | None) -> None:
        del frame
        sys.exit(128 + signum)

    before = {signum: signal.signal(signum, stop) for signum in STOPS}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
