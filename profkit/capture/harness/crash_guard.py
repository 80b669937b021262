"""Two processes for one capture: each cleans up if the other is killed."""

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType

from profkit.capture.harness.launch import STOPS
from profkit.process import process_tree


def guarded(work: Callable[[], object]) -> int:
    """Do `work` in a child of this process, and return its exit status; negative is a signal.

    Signals that ask this process to end go to the child. If this process is killed, the child is
    told to end; if the child is killed, this process becomes the parent of all that it started.
    """
    process_tree.adopt_orphans()
    # Forked: starting Python anew and importing everything again takes half a second.
    context = multiprocessing.get_context("fork")
    child = context.Process(target=_begun, args=(work, os.getpid()))
    child.start()

    def forward(signum: int, frame: FrameType | None) -> None:
        del frame
        if child.pid is not None and child.is_alive():
            os.kill(child.pid, signum)

    before = {signum: signal.signal(signum, forward) for signum in STOPS}
    child.join()
    for signum, handler in before.items():
        signal.signal(signum, handler)
    return child.exitcode or 0


def _begun(work: Callable[[], object], parent: int) -> None:
    # A Ctrl-C in the terminal must come once, by way of the parent.
    os.setsid()
    process_tree.die_with_parent(signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit("the process that guards this capture has ended")
    for signum in STOPS:
        signal.signal(signum, signal.SIG_DFL)
    work()
