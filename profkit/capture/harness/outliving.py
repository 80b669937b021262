"""Wait for a program that goes on when its tool has ended, as nsys does after a set duration."""

import signal
import subprocess
import sys
from collections.abc import Sequence
from types import FrameType

import psutil

from profkit import lifetime
from profkit.capture.harness.launch import STOPS


def waiting(command: Sequence[str], program: Sequence[str]) -> list[str]:
    """Return what runs `command`, and ends when `program`, which it ends in, has ended as well."""
    return [sys.executable, "-m", __name__, str(len(program)), *command]


def main(argv: Sequence[str]) -> int:
    """Run the tool; return its exit status when its program has ended, too (Linux only)."""
    count, *command = argv
    lifetime.die_with_parent()
    lifetime.adopt_orphans()
    running: list[subprocess.Popen[bytes] | psutil.Process] = [subprocess.Popen(command)]

    def forward(signum: int, frame: FrameType | None) -> None:
        del frame
        for process in running:
            process.send_signal(signum)

    for signum in STOPS:
        signal.signal(signum, forward)
    status = running[0].wait() or 0
    running[:] = left(command[-int(count) :])
    for process in running:
        process.wait()
    return 128 - status if status < 0 else status


def left(program: Sequence[str]) -> list[psutil.Process]:
    """Return the descendants of this process that run `program`, and none of the tool's own."""
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
