"""callchains: what threads were running when nsys looked at them, summed over equal stacks.

These are the samples of ``nsys profile --sample``: native frames, Python's own interpreter among
them. The stacks that ``--python-sampling`` records are not exported.
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

import numpy as np

from profkit.convert.nsys.gathered import Rows
from profkit.convert.nsys.report import Report, tid_of
from profkit.convert.nsys.store import Ints

EVENTS, FRAMES = "COMPOSITE_EVENTS", "SAMPLING_CALLCHAINS"

_SEPARATOR = ";"
_UNKNOWN = "[no stack]"
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")

Key = tuple[int, tuple[int, ...]]
"""Number of the thread, and of its frames from the root."""


def sampled_stacks(rows: Rows) -> dict[str, list[Any]]:
    """Return the columns of `sampled_stacks` but rank and repeat; empty without CPU samples.

    A sample stands for the median time between two of one thread: nsys looks at threads that
    run, and not at those that wait.
    """
    report = rows.report
    seen = report.columns(EVENTS, "id", "start", "globalTid")
    report.faults.repeated(EVENTS, seen)
    own = rows.mine(seen["globalTid"])
    seen = {name: column[own] for name, column in seen.items()}
    period_ns = _period_ns(seen["start"], seen["globalTid"])
    if not period_ns:
        if len(own):
            report.notes.append(f"Too few CPU samples to tell how far apart they are: {len(own)}.")
        return {name: [] for name in ("thread", "stack", "samples", "duration_ns")}
    frames = _Frames(report)
    counts = Counter(_keys(frames, seen["id"], seen["globalTid"]))
    threads = _thread_names(report)
    return {
        "thread": [
            threads.get(thread) or str(tid_of(np.array([thread]))[0]) for thread, _ in counts
        ],
        "stack": [frames.text(stack) for _, stack in counts],
        "samples": list(counts.values()),
        "duration_ns": [round(count * period_ns) for count in counts.values()],
    }


def _period_ns(start: Ints, thread: Ints) -> float:
    """Return the median time between samples of one thread; 0 if no thread has two."""
    order = np.lexsort((start, thread))
    apart = np.diff(start[order])[np.diff(thread[order]) == 0]
    apart = apart[apart > 0]
    return float(np.median(apart)) if len(apart) else 0.0


class _Frames:
    """The frames of all samples, each a number for its symbol and module."""

    def __init__(self, report: Report) -> None:
        table = report.columns(FRAMES, "id", "symbol", "module", "stackDepth")
        report.faults.repeated(FRAMES, table)
        # The innermost frame has depth 0.
        order = np.lexsort((-table["stackDepth"], table["id"]))
        self.id = table["id"][order]
        pairs = np.stack([table["symbol"][order], table["module"][order]], axis=1)
        known, number = np.unique(pairs, axis=0, return_inverse=True)
        names = zip(*(report.named(known[:, part]) for part in (0, 1)), strict=True)
        numbers: dict[str, int] = {}
        # All frames without a symbol have one name in each library.
        same = [numbers.setdefault(_name(*frame), len(numbers)) for frame in names]
        self.number: Ints = np.array(same, dtype=np.int64)[number.reshape(-1)]
        self.names = list(numbers)

    def of(self, samples: Ints) -> Iterator[tuple[int, ...]]:
        """Yield the numbers of each sample's frames, from the root."""
        first = np.searchsorted(self.id, samples, side="left").tolist()
        last = np.searchsorted(self.id, samples, side="right").tolist()
        for start, end in zip(first, last, strict=True):
            yield tuple(self.number[start:end].tolist())

    def text(self, stack: tuple[int, ...]) -> str:
        """Return frames as one text."""
        return _SEPARATOR.join(self.names[frame] for frame in stack) or _UNKNOWN


def _keys(frames: _Frames, samples: Ints, threads: Ints) -> Iterator[Key]:
    yield from zip(threads.tolist(), frames.of(samples), strict=True)


def _name(symbol: str, module: str) -> str:
    """Return the name of a frame; where nsys has no symbol it gives the address instead."""
    known = "[unknown]" if not symbol or _ADDRESS.fullmatch(symbol) else symbol
    text = f"{known} ({PurePath(module).name})" if module else known
    return text.replace(_SEPARATOR, ",")


def _thread_names(report: Report) -> dict[int, str]:
    table = report.columns("ThreadNames", "globalTid", "nameId")
    return dict(zip(table["globalTid"].tolist(), report.named(table["nameId"]), strict=True))
