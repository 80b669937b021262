"""Run a tool, start it again if it fails to start its program, and wait for that program's end.

nsys needs it: if several start at once, one sometimes ends before it has started its program, and
after a set duration it ends while the program goes on.
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
from profkit.capture.harness.launch import STOP_SIGNALS
from profkit.capture.harness.started_file import (
    FAILED_STARTS,
    STARTED_FILE,
    failed_starts_note,
)
from profkit.process import process_tree

_ATTEMPTS = 3


def supervised_command(tool: Wrapper, command: Sequence[str], program: Sequence[str]) -> list[str]:
    """Return `command` of `tool`, which ends in `program`, under a supervisor if it needs one."""
    if not tool.may_fail_to_start and not tool.may_exit_before_program:
        return list(command)
    awaited_words = len(program) if tool.may_exit_before_program else 0
    return [sys.executable, "-m", __name__, str(awaited_words), *command]


def report_program_started() -> str:
    """Report to the supervisor, if there is one, that the program has started.

    Return a note for readers on failed starts before; "" if there were none.
    """
    if started_file := os.environ.get(STARTED_FILE):
        Path(started_file).touch()
    statuses = os.environ.get(FAILED_STARTS)
    return failed_starts_note(statuses) if statuses else ""


def main(argv: Sequence[str]) -> int:
    """Run the tool; return its exit status, after the end of its program if that is awaited."""
    length, *command = argv
    process_tree.die_with_parent()
    process_tree.adopt_orphans()
    supervisor = Supervisor(command, command[-int(length) :] if int(length) else ())
    for signum in STOP_SIGNALS:
        signal.signal(signum, supervisor.forward)
    with tempfile.TemporaryDirectory(prefix="profkit-") as folder:
        status = supervisor.run(Path(folder) / "started")
    return 128 - status if status < 0 else status


class Supervisor:
    """Runs `command` and waits for `program` unless it is (); forwards signals to both."""

    def __init__(self, command: Sequence[str], program: Sequence[str]) -> None:
        self.command = command
        self.program = program
        self.running: list[subprocess.Popen[bytes] | psutil.Process] = []
        self.is_stopping = False

    def run(self, started_file: Path) -> int:
        """Run the tool until its program makes the file `started_file`, at most `_ATTEMPTS` times.

        Return the exit status of the last run; negative is the signal that killed it. It says
        nothing about the program: an nsys that loses its agent exits with 0.
        """
        status, statuses = 0, list[str]()
        while not self.is_stopping and len(statuses) < _ATTEMPTS:
            failed_starts = {FAILED_STARTS: ", ".join(statuses)} if statuses else {}
            environment = {**os.environ, STARTED_FILE: str(started_file), **failed_starts}
            process = subprocess.Popen(self.command, env=environment)
            self.running = [process]
            status = process.wait()
            if self.program:
                self._wait_for_program()
            if started_file.exists():
                break
            statuses.append(str(status))
            # Its remains would block the next start: nsys identifies sessions by their names.
            process_tree.kill_all()
        return status

    def _wait_for_program(self) -> None:
        """Wait for the program, but not for other processes that the tool has left."""
        self.running = list(_running(self.program))
        for process in self.running:
            process.wait()

    def forward(self, signum: int, frame: FrameType | None) -> None:
        """Forward a signal to all running processes."""
        del frame
        self.is_stopping = True
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
