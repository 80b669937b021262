"""What a process has of the cores: how many there are, and how long its threads had none."""

import os
import resource
import sys
import time
from pathlib import Path

from profkit.core.usable_cores import usable_cores

_TASKS = Path("/proc/self/task")
_LONGEST = 80
"""Bytes of a file with three numbers."""

_MOST_FILES = 32


class CoreUsage:
    """Counts from `begin` to `end`, and from one `end` to the next."""

    def __init__(self, ranks_on_host: int) -> None:
        self._ranks_on_host = ranks_on_host

    def begin(self) -> None:
        """Start to count."""
        self._start_ns = time.time_ns()
        self._before = _counts()

    def end(self) -> dict[str, int]:
        """Return the counts as a row of the table ``processes``, and start again."""
        start_ns, before = self._start_ns, self._before
        self.begin()
        torch = sys.modules.get("torch")
        return {
            "start_ns": start_ns,
            "end_ns": self._start_ns,
            "cores": usable_cores(),
            "ranks_on_host": self._ranks_on_host,
            "operator_threads": torch.get_num_threads() if torch else 1,
            **{name: count - before[name] for name, count in self._before.items()},
        }


def _counts() -> dict[str, int]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "cpu_ns": round((used.ru_utime + used.ru_stime) * 1e9),
        "queued_ns": sum(map(_queued_ns, _TASKS.iterdir())) if _TASKS.is_dir() else 0,
        "involuntary_switches": used.ru_nivcsw,
    }


def _queued_ns(task: Path) -> int:
    """Return how long a thread was ready to run and had no core, 0 if the kernel does not say."""
    try:
        return int((task / "schedstat").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError):
        return 0


class Queues:
    """How long threads of this process were ready to run and had no core, looked up often."""

    def __init__(self) -> None:
        self._files: dict[int, int] = {}

    def waited_ns(self, tid: int) -> int:
        """Return that of a thread so far, -1 if it is unknown."""
        try:
            return int(os.pread(self._file(tid), _LONGEST, 0).split()[1])
        except (OSError, IndexError):
            return -1

    def _file(self, tid: int) -> int:
        """Return the open file of a thread: to open it takes ten times as long as to read it."""
        if tid not in self._files:
            if len(self._files) >= _MOST_FILES:
                self.close()
            self._files[tid] = os.open(_TASKS / str(tid) / "schedstat", os.O_RDONLY)
        return self._files[tid]

    def close(self) -> None:
        """Close the files."""
        while self._files:
            os.close(self._files.popitem()[1])
