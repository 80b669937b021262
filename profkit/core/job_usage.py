"""What a job took of the machine, for those who look for the slow or large ones."""

import argparse
import resource
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from profkit.core.atomic_write import write_atomically
from profkit.core.errors import ProfkitError

# Linux tells KiB, macOS bytes.
_RSS_BYTES = 1 if sys.platform == "darwin" else 1 << 10


def add_argument(parser: argparse.ArgumentParser) -> None:
    """Let the job of `parser` take the file that `recorded` writes."""
    about = "file for the seconds and the peak memory that this job took, as TSV"
    parser.add_argument("--usage", type=Path, help=about)


@contextmanager
def recorded(path: Path | None) -> Iterator[None]:
    """Write what is used until the end to `path`, if there is one.

    Seconds of the clock and of the CPU (processes that were started included), and the largest
    resident memory of one process in MiB. Raises `ProfkitError` for a job that ends itself with
    status 0, as code of a plugin may: its outputs are not there.
    """
    before_s, before_cpu_s = time.perf_counter(), _cpu_s(_used())
    try:
        yield
    except SystemExit as stop:
        if stop.code:
            raise
        raise ProfkitError(f"the job ended itself by sys.exit({stop.code})") from None
    if path is None:
        return
    used = _used()
    elapsed_s = time.perf_counter() - before_s
    cpu_s = _cpu_s(used) - before_cpu_s
    peak_mib = max(usage.ru_maxrss for usage in used) * _RSS_BYTES / (1 << 20)
    row = f"{elapsed_s:.3f}\t{cpu_s:.3f}\t{peak_mib:.1f}"
    write_atomically(path, f"elapsed_s\tcpu_s\tpeak_mib\n{row}\n".encode())


def _used() -> list[resource.struct_rusage]:
    """Return what this process took, and all those that it started and that have ended."""
    return [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]


def _cpu_s(used: Iterable[resource.struct_rusage]) -> float:
    return sum(usage.ru_utime + usage.ru_stime for usage in used)
