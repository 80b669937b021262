"""Trace events: rows of tables as JSON in the trace event format, a column at a time.

Format: "Trace Event Format", the document of the Chromium project; times are in µs, with their
nanoseconds as fractions. Every function returns one text per event. Texts are encoded once for
each distinct value, because a timeline repeats a few names a hundred thousand times.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Ends = tuple[Ints, Ints, Ints]
"""Process, thread and time in ns of one end of each arrow."""

_NS_PER_US = 1000
_FIRST_DEVICE = 1_000_000
_DEVICES = 1000
_ROWS_AT_ONCE = 1 << 13


@dataclass(kw_only=True, slots=True)
class Tracks:
    """Processes and threads of the timeline, numbered as they come up.

    Perfetto joins threads of equal number even in different processes, so each has its own.
    """

    labels: Mapping[int, str]
    numbers: dict[tuple[int, str], int] = field(default_factory=dict)
    named: dict[int, str] = field(default_factory=dict)

    def processes(self, rank: pd.Series, device: pd.Series | None = None) -> Ints:
        """Return the process number of each row's rank, or of the rank's device."""
        cpu = np.full(len(rank), -1)
        return _by_pair(self._process, rank, cpu if device is None else device)

    def threads(self, pid: Ints, kind: str, number: pd.Series) -> Ints:
        """Return the numbers of the threads or streams `number` of processes."""
        return _by_pair(lambda pid, number: self._thread(pid, f"{kind} {number}"), pid, number)

    def _process(self, rank: int, device: int) -> int:
        label = self.labels.get(rank, f"rank {rank}")
        pid = rank + 1 if device < 0 else _FIRST_DEVICE + rank * _DEVICES + device
        self.named[pid] = label if device < 0 else f"{label}, device {device}"
        return pid

    def _thread(self, pid: int, name: str) -> int:
        return self.numbers.setdefault((pid, name), len(self.numbers) + 1)

    def metadata(self) -> Iterator[str]:
        """Yield names and order of processes and threads: devices below their rank's CPU."""
        order = sorted(self.named, key=lambda pid: (_rank_of(pid), pid))
        for index, pid in enumerate(order):
            yield _named("process_name", pid, 0, name=self.named[pid])
            yield _named("process_sort_index", pid, 0, sort_index=index)
        for (pid, name), tid in self.numbers.items():
            yield _named("thread_name", pid, tid, name=name)


def _by_pair(
    function: Callable[[int, int], int], first: Ints | pd.Series, second: Ints | pd.Series
) -> Ints:
    """Return `function` of each pair of numbers; it is called once for each distinct pair."""
    one, ones = pd.factorize(np.asarray(first))
    other, others = pd.factorize(np.asarray(second))
    pairs, which = np.unique(one * max(len(others), 1) + other, return_inverse=True)
    found = [
        function(int(ones[pair // len(others)]), int(others[pair % len(others)]))
        for pair in pairs.tolist()
    ]
    return np.array(found, dtype=np.int64)[which]


def _rank_of(pid: int) -> int:
    return pid - 1 if pid < _FIRST_DEVICE else (pid - _FIRST_DEVICE) // _DEVICES


def _named(what: str, pid: int, tid: int, **args: Any) -> str:
    return _json({"ph": "M", "name": what, "pid": pid, "tid": tid, "ts": 0, "args": args})


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def microseconds(nanoseconds: Ints) -> list[str]:
    """Return times in µs with three decimals, exactly."""
    whole, rest = np.divmod(nanoseconds, _NS_PER_US)
    return [f"{us}.{ns:03}" for us, ns in zip(whole.tolist(), rest.tolist(), strict=True)]


def members(name: str, values: Any) -> list[str]:
    """Return ``"name":value,`` for each of `values`; "" for those without, which are "" or -1."""
    key = _json(name)
    if not pd.api.types.is_numeric_dtype(values.dtype):
        texts = pd.Categorical(values)
        used, which = np.unique(texts.codes, return_inverse=True)
        # The code of no value is -1.
        known = [texts.categories[code] if code >= 0 else "" for code in used.tolist()]
        encoded = [f"{key}:{_json(text)}," if text != "" else "" for text in known]
        found: list[str] = np.array(encoded, dtype=object)[which].tolist()
        return found
    return [f"{key}:{value}," if value != -1 else "" for value in values.tolist()]


def _pieces(rows: int) -> Iterator[slice]:
    """Yield parts of a table: the texts of a whole one are many times as large as its numbers."""
    for first in range(0, rows, _ROWS_AT_ONCE):
        yield slice(first, first + _ROWS_AT_ONCE)


def spans(
    rows: pd.DataFrame, base_ns: int, pid: Ints, tid: Ints, **args: pd.Series
) -> Iterator[str]:
    """Yield complete events of `rows`, which have a `name`, a `cat`, `start_ns` and `end_ns`.

    `args` are columns; underscores in their names stand for spaces.
    """
    for piece in _pieces(len(rows)):
        about = {name: values.iloc[piece] for name, values in args.items()}
        yield from _spans(rows.iloc[piece], base_ns, pid[piece], tid[piece], about)


def _spans(
    rows: pd.DataFrame, base_ns: int, pid: Ints, tid: Ints, args: Mapping[str, pd.Series]
) -> list[str]:
    start, end = (rows[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
    about = [""] * len(rows)
    for name, values in args.items():
        more = members(name.replace("_", " "), values)
        about = [one + other for one, other in zip(about, more, strict=True)]
    columns = (
        members("cat", rows["cat"]),
        _name(rows["name"]),
        pid.tolist(),
        tid.tolist(),
        microseconds(start - base_ns),
        microseconds(end - start),
        about,
    )
    return [
        f'{{"ph":"X",{cat}{name}"pid":{p},"tid":{t},"ts":{ts},"dur":{dur},"args":{{{of[:-1]}}}}}'
        for cat, name, p, t, ts, dur, of in zip(*columns, strict=True)
    ]


def _name(names: pd.Series) -> list[str]:
    """Return the member `name` of each event, which must be there even if it is empty."""
    return [found or '"name":"",' for found in members("name", names)]


def ranges(rows: pd.DataFrame, base_ns: int, pid: Ints, tid: Ints) -> Iterator[str]:
    """Yield begin and end of `rows` as asynchronous events: slices of one thread must nest."""
    start, end = (rows[name].to_numpy(np.int64) - base_ns for name in ("start_ns", "end_ns"))
    numbers = iter(range(len(rows)))
    for piece in _pieces(len(rows)):
        columns = (members("cat", rows["cat"].iloc[piece]), _name(rows["name"].iloc[piece]))
        where = (pid[piece].tolist(), tid[piece].tolist())
        times = (microseconds(start[piece]), microseconds(end[piece]))
        for cat, name, p, t, ts, until in zip(*columns, *where, *times, strict=True):
            about = f'{cat}{name}"id":{next(numbers)},"pid":{p},"tid":{t},'
            yield f'{{"ph":"b",{about}"ts":{ts},"args":{{}}}}'
            yield f'{{"ph":"e",{about}"ts":{until},"args":{{}}}}'


def arrows(cat: str, begin: Ends, end: Ends, base_ns: int) -> Iterator[str]:
    """Yield both ends of an arrow from each slice at `begin` to the one at `end`."""
    for ph, (pid, tid, time), more in (("s", begin, ""), ("f", end, ',"bp":"e"')):
        kind = f'"ph":"{ph}","cat":"{cat}","name":"{cat}"'
        numbers = iter(range(len(time)))
        for piece in _pieces(len(time)):
            times = microseconds(time[piece] - base_ns)
            for p, t, ts in zip(pid[piece].tolist(), tid[piece].tolist(), times, strict=True):
                yield f'{{{kind},"id":{next(numbers)},"pid":{p},"tid":{t},"ts":{ts}{more}}}'


def counters(names: pd.Series, pid: Ints, time: Ints, values: Ints) -> Iterator[str]:
    """Yield a point of the curve `names` for each value, in bytes."""
    about = '"ph":"C","cat":"memory"'
    for piece in _pieces(len(time)):
        columns = (_name(names.iloc[piece]), pid[piece].tolist(), microseconds(time[piece]))
        for name, p, ts, size in zip(*columns, values[piece].tolist(), strict=True):
            yield f'{{{about},{name}"pid":{p},"tid":0,"ts":{ts},"args":{{"bytes":{size}}}}}'
