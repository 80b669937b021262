"""Run a capture in two processes: each cleans up if the other is killed."""

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType

from profkit.capture.harness.launch import STOP_SIGNALS
from profkit.process import process_tree


def run_guarded(work: Callable[[], object]) -> int:
    """Do `work` in a child of this process, and return its exit status; negative is a signal.

    Signals to end are forwarded to the child. If this process is killed, the child gets a signal
    to end; if the child is killed, this process becomes the parent of all that it started.
    """
    process_tree.adopt_orphans()
    # Forked: starting Python anew and importing everything again takes half a second.
    context = multiprocessing.get_context("fork")
    child = context.Process(target=_run_child, args=(work, os.getpid()))
    child.start()

    def forward(signum: int, frame: FrameType | None) -> None:
        del frame
        if child.pid is not None and child.is_alive():
            os.kill(child.pid, signum)

    before = {signum: signal.signal(signum, forward) for signum in STOP_SIGNALS}
    child.join()
    for signum, handler in before.items():
        signal.signal(signum, handler)
    return child.exitcode or 0


def _run_child(work: Callable[[], object], parent: int) -> None:
    # A Ctrl-C in the terminal must come once, forwarded by the parent.
    os.setsid()
    process_tree.die_with_parent(signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit("the process that guards this capture has ended")
    for signum in STOP_SIGNALS:
        signal.signal(signum, signal.SIG_DFL)
    work()
