"""Where the workers of a DataLoader are in Python, looked at as the program's thread is."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from profkit.capture._python_samples import PythonSamples

_SUFFIX = ".worker.json"
_PERIOD_S = 0.5
_INDEX_QUEUE = 2
"""Position of the queue from which a worker hears which batch is next."""


@contextmanager
def workers_sampled(out: Path, label: str) -> Iterator[None]:
    """Have workers that are forked meanwhile write where they were until then, now and again."""
    from torch.utils.data._utils import worker

    original: Any = worker._worker_loop  # noqa: SLF001 - what each of them runs, and no more

    def loop(*args: Any) -> None:
        samples = PythonSamples()
        samples.begin()
        path = out / f"{label}.{os.getpid()}{_SUFFIX}"
        queue = _Watched(args[_INDEX_QUEUE], lambda: samples.write_all(path))
        original(*args[:_INDEX_QUEUE], queue, *args[_INDEX_QUEUE + 1 :])

    # Workers that are spawned look it up by its name, and find their own.
    loop.__module__, loop.__qualname__ = original.__module__, original.__qualname__
    worker._worker_loop = loop  # type: ignore[assignment]  # noqa: SLF001
    try:
        yield
    finally:
        worker._worker_loop = original  # noqa: SLF001


class _Watched:
    """A queue that has something written between two batches: workers are killed at the end."""

    def __init__(self, queue: Any, write: Callable[[], None]) -> None:
        self.queue = queue
        self.write = write
        self.written_s = time.monotonic()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.queue, name)

    def get(self, *args: Any, **options: Any) -> Any:
        """See `multiprocessing.Queue.get`."""
        if time.monotonic() >= self.written_s + _PERIOD_S:
            # The capture may be over, and its folder gone.
            with suppress(OSError):
                self.write()
            self.written_s = time.monotonic()
        return self.queue.get(*args, **options)
