"""Other processes of a program of which one is ended after its steps: they end before it does.

They would wait for what it sends, or fail as its connections close, and a launcher with them.
"""

import multiprocessing
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from profkit.capture.harness.followed import process_record
from profkit.capture.harness.followed.process_record import ProcessRecord
from profkit.capture.harness.foreground import ENDED_EARLY

_LOOKS_S = 0.1
_FIRST_STEP_S = 1.0
"""Time that a rank has to make its first step after another one has made all of its steps."""

_MOST_S = 3.0
_CHILDREN_S = 1.0
"""Time in which processes end that wait for nothing from the one that started them."""


def end_after_others(folder: Path, record: ProcessRecord, end: Callable[[], None]) -> None:
    """Call `end` on a thread of its own if the process of `record` makes no step until then.

    That is a rank such as an actor, which has a model, and another one learns. One that does not
    communicate may still make its own steps.
    """

    def watch() -> None:
        path = folder / ENDED_EARLY
        while not (record.steps or path.exists()):
            time.sleep(_LOOKS_S)
        time.sleep(_FIRST_STEP_S)
        if not record.steps and _communicates():
            end()

    threading.Thread(target=watch, name="profkit end of the program", daemon=True).start()


def wait_for_ranks(folder: Path) -> None:
    """Wait for the end of the ranks in `folder` that make no step."""
    until_s = time.monotonic() + _MOST_S
    while _communicates() and _are_left(folder) and time.monotonic() < until_s:
        time.sleep(_LOOKS_S)


def _communicates() -> bool:
    """Say whether this process has joined the others of its job."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available():
        return False
    return bool(distributed.is_initialized())


def _are_left(folder: Path) -> bool:
    records = process_record.read(folder)
    # Processes that load data have the number of the rank that they load for.
    stepping = {one.rank for one in records if one.steps}
    return any(
        one.world_size > 1 and one.rank not in stepping and not one.ended_ns for one in records
    )


def end_children(folder: Path) -> None:
    """End processes that this one would wait for: they may wait for what it would have sent.

    Ranks among them end after their own steps, and write what they recorded. Daemons, such as
    workers of a DataLoader, are not waited for.
    """
    ranks = {one.process for one in process_record.read(folder) if one.steps}
    children = multiprocessing.active_children()
    others = [child for child in children if not child.daemon and child.pid not in ranks]
    end_s = time.monotonic() + _CHILDREN_S
    for child in others:
        child.join(max(end_s - time.monotonic(), 0))
        child.terminate()
