"""Ask a program of others, bounded in time and output; nothing of it is left running.

`subprocess.run` with a timeout ends the program alone, and then waits for as long as something that
it started holds the pipe that it prints into.
"""

import contextlib
import os
import selectors
import signal
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_BLOCK = 64 << 10
_LOOK_S = 0.05
_AFTER_KILL_S = 5.0
_SAID = 300
_MARK = "PROFKIT_ASKED"
"""Environment variable by which what a program leaves behind is found."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What a program printed, and how it ended."""

    output: bytes = b""
    """Standard output."""

    errors: bytes = b""
    """Standard error."""

    exit_code: int = 127
    """Its exit status; negative is the signal that ended it."""

    failure: str = ""
    """Why it was ended, or could not be started; "" if it ended by itself."""

    @property
    def text(self) -> str:
        """Standard output as text."""
        return self.output.decode(errors="replace")

    @property
    def said(self) -> str:
        """The end of what it printed, of standard error first, as one line without controls."""
        words = (self.errors or self.output).decode(errors="replace").split()
        line = " ".join(words)[-_SAID:]
        return "".join(char if char.isprintable() else "?" for char in line)

    @property
    def reason(self) -> str:
        """Why it failed, in one line; "" if it did not."""
        if not self.failure and self.exit_code == 0:
            return ""
        return self.failure or self.said or f"exit status {self.exit_code}"


def ask(
    command: Sequence[str],
    *,
    timeout_s: float,
    most_bytes: int = 1 << 20,
    environment: Mapping[str, str] | None = None,
    spares_children: bool = False,
) -> Answer:
    """Return what `command` prints, and end it after `timeout_s` or more than `most_bytes`.

    Whatever it started ends with it; with `spares_children` only if it had to be ended, for a
    program that leaves a daemon. A daemon of one that had to be ended is known by its environment.
    """
    token = uuid.uuid4().hex
    marked = {**(os.environ if environment is None else environment), _MARK: token}
    pipes = [os.pipe(), os.pipe()]
    printed = {reading: bytearray() for reading, _ in pipes}
    try:
        process = _started(command, [writing for _, writing in pipes], marked)
        failure = "it was interrupted"
        try:
            failure = _read(process, printed, timeout_s, most_bytes)
        finally:
            if failure or not spares_children:
                _end(process, token if failure else "")
    except OSError as error:
        return Answer(failure=f"it cannot be started: {error.strerror or error}")
    finally:
        for reading in printed:
            os.close(reading)
    output, errors = map(bytes, printed.values())
    status = process.returncode if process.returncode is not None else -signal.SIGKILL
    return Answer(output=output, errors=errors, exit_code=status, failure=failure)


def _started(
    command: Sequence[str], writing: Sequence[int], environment: Mapping[str, str]
) -> "subprocess.Popen[bytes]":
    """Start `command` with its output and errors into the descriptors `writing`, which it keeps."""
    try:
        return subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=writing[0],
            stderr=writing[1],
            env=environment,
            start_new_session=True,
        )
    finally:
        for descriptor in writing:
            os.close(descriptor)


def _read(
    process: "subprocess.Popen[bytes]",
    printed: dict[int, bytearray],
    timeout_s: float,
    most_bytes: int,
) -> str:
    """Read until the end of `process`, and return why it has to be ended before; "" if not."""
    deadline_s = time.monotonic() + timeout_s
    with selectors.DefaultSelector() as selector:
        for descriptor in printed:
            selector.register(descriptor, selectors.EVENT_READ)
        while True:
            # Asked first, so that its last words are read; what it started may hold the pipe.
            has_ended = process.poll() is not None
            ready = selector.select(0 if has_ended else _LOOK_S)
            for key, _ in ready:
                block = os.read(key.fd, _BLOCK)
                printed[key.fd] += block
                if not block:
                    selector.unregister(key.fd)
            if sum(map(len, printed.values())) > most_bytes:
                return f"it prints more than {most_bytes >> 10} KiB"
            if has_ended and not ready:
                return ""
            if time.monotonic() > deadline_s:
                return f"it does not end within {timeout_s:g} s"


def _end(process: "subprocess.Popen[bytes]", token: str) -> None:
    """End the process group of `process`, what has left the group, and what has the `token`."""
    # Late: tools are imported in programs of users, which may have no psutil.
    import psutil  # noqa: PLC0415

    from profkit.process import process_tree  # noqa: PLC0415 - as above

    with contextlib.suppress(psutil.NoSuchProcess):
        for child in psutil.Process(process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_AFTER_KILL_S)
    if token:
        process_tree.kill_marked(token)
