"""Attend a tool: start it again where it stumbled, and wait for a program that outlives it.

nsys is the one that needs it: where several start at once it ends now and then before it has
started its program, and after a set duration it ends while the program goes on.
"""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import psutil

from profkit.capture.base import Wrapper
from profkit.capture.harness.launch import STOPS
from profkit.process import process_tree

_ATTEMPTS = 3
_BEGUN = "PROFKIT_BEGUN"
_STUMBLED = "PROFKIT_STUMBLED"


def attended(tool: Wrapper, command: Sequence[str], program: Sequence[str]) -> list[str]:
    """Return what runs `command` of `tool`, which ends in `program`, attended if it needs to be."""
    if not tool.may_fail_to_start and not tool.may_exit_before_program:
        return list(command)
    awaited = len(program) if tool.may_exit_before_program else 0
    return [sys.executable, "-m", __name__, str(awaited), *command]


def begun() -> str:
    """Tell the attendant, if there is one, that the program has begun.

    Return what a reader should know of how it came to that; "" if nothing.
    """
    if sign := os.environ.get(_BEGUN):
        Path(sign).touch()
    if not (statuses := os.environ.get(_STUMBLED)):
        return ""
    return (
        f"the tool ended before the program began (exit status {statuses}; the log says more) and"
        " was started again"
    )


def main(argv: Sequence[str]) -> int:
    """Run the tool; return its exit status, when its program has ended where that is awaited."""
    awaited, *command = argv
    process_tree.die_with_parent()
    process_tree.adopt_orphans()
    attendant = Attendant(command, command[-int(awaited) :] if int(awaited) else ())
    for signum in STOPS:
        signal.signal(signum, attendant.forward)
    with tempfile.TemporaryDirectory(prefix="profkit-") as folder:
        status = attendant.attend(Path(folder) / "begun")
    return 128 - status if status < 0 else status


class Attendant:
    """Runs `command` and waits for `program`, if that is not (); hands signals on to both."""

    def __init__(self, command: Sequence[str], program: Sequence[str]) -> None:
        self.command = command
        self.program = program
        self.running: list[subprocess.Popen[bytes] | psutil.Process] = []
        self.is_told_to_end = False

    def attend(self, sign: Path) -> int:
        """Run the tool until its program makes the file `sign`, at most `_ATTEMPTS` times.

        Return the exit status of the last; negative is the signal that killed it. It tells nothing
        of the program: an nsys that loses its agent leaves with 0.
        """
        status, statuses = 0, list[str]()
        while not self.is_told_to_end and len(statuses) < _ATTEMPTS:
            stumbled = {_STUMBLED: ", ".join(statuses)} if statuses else {}
            environment = {**os.environ, _BEGUN: str(sign), **stumbled}
            process = subprocess.Popen(self.command, env=environment)
            self.running = [process]
            status = process.wait()
            if self.program:
                self._wait_for_program()
            if sign.exists():
                break
            statuses.append(str(status))
            # What it left would be in the way of the next: nsys knows sessions by their names.
            process_tree.end_all()
        return status

    def _wait_for_program(self) -> None:
        """Wait for the program, but not for what else the tool has left."""
        self.running = list(_running(self.program))
        for process in self.running:
            process.wait()

    def forward(self, signum: int, frame: FrameType | None) -> None:
        """Hand a signal on to what runs."""
        del frame
        self.is_told_to_end = True
        for process in self.running:
            process.send_signal(signum)


def _running(program: Sequence[str]) -> list[psutil.Process]:
    """Return the descendants of this process that run `program` (Linux only)."""
    words = list(program[1:])
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            # The first word may be another name of the same Python.
            if process.cmdline()[-len(words) :] == words:
                found.append(process)
        except psutil.Error:
            continue
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
