"""Processes that help this one: forks of it, which share what it has loaded."""

import multiprocessing
import pickle
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from profkit.process import malloc, process_tree

if TYPE_CHECKING:
    from multiprocessing.context import BaseContext

_Found = TypeVar("_Found")
_TASKS = Path("/proc/self/task")
_OF_ARROW = "jemalloc_bg_thd"
"""Thread of Arrow's allocator, which stops it before a fork and has one of its own after it."""


def started(count: int, module: str) -> ProcessPoolExecutor:
    """Return `count` processes that have loaded `module`, and what this one has where they can.

    A library's threads may hold locks that a fork waits for without end: where there are any, a
    server that loads `module` anew is forked instead. Threads of Python that load or log nothing do
    no harm.
    """
    context: BaseContext
    if _may_fork():
        context = multiprocessing.get_context("fork")
    else:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([module])
    pool = ProcessPoolExecutor(count, context, _begin)
    pool.submit(int)  # what follows may start threads
    return pool


def asked(pool: Executor, call: Callable[..., _Found], *words: object) -> "Future[_Found]":
    """Have `pool` call something with these `words`, all as they are now.

    What it is asked is pickled later, on a thread of its own, and may be changing then.
    """
    return pool.submit(_called, pickle.dumps((call, words)))


def _called(pickled: bytes) -> Any:
    call, words = pickle.loads(pickled)  # noqa: S301 - made by `asked` of this program
    return call(*words)


def _begin() -> None:
    # They wait on a queue whose other end they hold themselves: nothing else would end them.
    process_tree.die_with_parent()
    malloc.keep_freed()


def _may_fork() -> bool:
    """Return whether no library has threads here but those that forks take care of."""
    if sys.platform != "linux":
        return False
    names = []
    for task in _TASKS.iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            names.append((task / "comm").read_text().strip())
    return len(names) - names.count(_OF_ARROW) == threading.active_count()
