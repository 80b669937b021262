"""Start the ranks, wait for them, and leave nothing of them running."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from profkit.capture.harness import lifetime

_LOOK_S = 1.0
_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """How a command came to its end."""

    exit_code: int
    """Its exit status; negative is the signal that killed it."""

    timed_out: bool = False
    """Whether it was killed because it took too long."""

    survivors: tuple[int, ...] = ()
    """Processes that could not be killed."""


def launch(  # noqa: PLR0913, PLR0917 - what a process is
    command: Sequence[str],
    environment: Mapping[str, str],
    log: Path,
    timeout_s: float,
    mark: str,
    cwd: str = "",
) -> Ended:
    """Run `command` in folder `cwd` (here, if "") with its output in `log`, at most `timeout_s`.

    When this returns or raises, every process that was started is gone; `mark` is a text in the
    environment of all of them. Raises SystemExit when this process is told to stop.
    """
    lifetime.adopt_orphans()
    spared = lifetime.children()
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
                preexec_fn=lifetime.die_with_parent,  # noqa: PLW1509 - one thread only
            )
            code, timed_out = _waited(process, timeout_s)
        finally:
            # A second signal must not stop the killing half-way.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
            survivors = lifetime.end_all(mark, spared)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return Ended(exit_code=code, timed_out=timed_out, survivors=tuple(survivors))


def _waited(process: "subprocess.Popen[bytes]", timeout_s: float) -> tuple[int, bool]:
    """Return the exit status, and whether it had to be forced."""
    deadline = time.monotonic() + timeout_s
    while (left := deadline - time.monotonic()) > 0:
        try:
            return process.wait(min(left, _LOOK_S)), False
        except subprocess.TimeoutExpired:
            # Between us and Snakemake is a shell, which hears nothing of its being killed.
            if lifetime.is_owner_gone():
                sys.exit("the process that asked for this capture has ended")
    process.kill()
    return process.wait(), True


@contextmanager
def _stoppable() -> Iterator[None]:
    """Turn the signals that ask a process to end into SystemExit, so that clean-up runs."""

    def stop(signum: int, frame: FrameType | None) -> None:
        del frame
        sys.exit(128 + signum)

    before = {signum: signal.signal(signum, stop) for signum in _STOPS}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
