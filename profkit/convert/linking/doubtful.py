"""What no program does, and so is damage, or was recorded wrongly: counted, and said."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

import numpy as np

from profkit.convert.columns.numbering import Column
from profkit.convert.columns.on_disk import Columns, DiskColumn
from profkit.convert.linking.contradictions import contradictions
from profkit.convert.linking.device_work import DeviceWork
from profkit.convert.linking.impossible import impossible
from profkit.core.formatting import agreeing

_ROWS = {
    "kernels": "[kernel, copy or set|kernels, copies or sets]",
    "cpu_ops": "[operator or annotation|operators or annotations]",
    "runtime_calls": "call[s] of the runtime",
    "python_calls": "call[s] of Python",
    "memory_events": "[allocation or free|allocations or frees]",
}
"""What rows are, one of them or several."""
_ON_THREAD = {"pid": "process", "tid": "thread"}
_NEEDED = {
    "kernels": {"device": "device", "stream": "stream"},
    "cpu_ops": _ON_THREAD,
    "runtime_calls": {"tid": "thread"},  # waits for XPUs are those of process -1
    "python_calls": _ON_THREAD,
}
"""Columns that every recorder knows of each row, and what they are."""
_ALIKE = {
    "kernels": ("end", "device", "stream", "correlation", "name"),
    "cpu_ops": ("end", "pid", "tid", "external", "name"),
    "runtime_calls": ("end", "pid", "tid", "correlation", "name"),
    "python_calls": ("end", "pid", "tid", "name"),
    "memory_events": ("pid", "device_id", "address", "size_bytes", "allocated_bytes"),
}
"""In what two rows that begin at once differ, unless one is the other again."""
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_MIXING = np.uint64(0x9E3779B97F4A7C15)
_NUMBERS_AT_ONCE = 1 << 20
_OUTLASTING = 10
_FEWEST = 10
_LONG_NS = 10_000_000_000
"""A kernel may wait for seconds, for another rank."""


def doubtful(work: DeviceWork) -> Iterator[str]:
    """Yield a sentence for each thing that is wrong with one recording, with its number."""
    gathered = work.gathered
    texts = (gathered.names.numbers, gathered.texts.numbers)
    every = {name: gathered.columns(name) for name in _ROWS}
    tables = {name: columns for name, columns in every.items() if columns.count}
    for name, columns in tables.items():
        if count := _repeated(columns, _ALIKE[name]):
            yield agreeing(
                count,
                f"{{}} {_ROWS[name]} stand[s|] in the file twice, with the same times: both count.",
            )
    for name in filter(tables.__contains__, _NEEDED):
        for column, meaning in _NEEDED[name].items():
            if count := _equal(tables[name].each(column), -1):
                yield agreeing(count, f"{{}} {_ROWS[name]} state[s|] no {meaning}: unknown.")
        if "name" in tables[name] and (count := _equal(tables[name].each("name"), 0)):
            yield agreeing(
                count, f"{{}} {_ROWS[name]} [has|have] no name, or none that is text: blank."
            )
    if count := sum(_REPLACEMENT in text for text in chain(*texts)):
        yield agreeing(
            count, f"{{}} text[s] hold[s|] bytes that are not UTF-8, shown as {_REPLACEMENT}."
        )
    if count := _outlasting(every["kernels"]):
        yield agreeing(
            count, f"{{}} kernel[s] last[s|] {_OUTLASTING} times as long as all began within."
        )
    yield from impossible(work)
    yield from contradictions(work)


def _equal(parts: Iterable[Column], number: int) -> int:
    return sum(int((part == number).sum()) for part in parts)


def _repeated(columns: Columns, names: Sequence[str]) -> int:
    """Return how many rows say what another one says, some millions at a time.

    Those without a duration are not looked at: several may well begin at once.
    """
    shares = 1 + columns.count // _NUMBERS_AT_ONCE
    parts = (_mixed(part, ("start", *names)) for part in columns.parts())
    if shares == 1:
        return _alike([*parts])
    mixed = DiskColumn.of(columns.spill, columns.count, parts, np.uint64)
    return sum(
        _alike([part[part % shares == share] for part in mixed.parts()]) for share in range(shares)
    )


def alike(parts: Iterable[Mapping[str, Column]], names: Sequence[str]) -> int:
    """Return how many rows have the numbers of another one in all columns `names`."""
    return _alike([_mixed(part, names) for part in parts])


def _alike(parts: Sequence[Column]) -> int:
    mixed = np.sort(np.concatenate(parts))
    return int(((mixed[1:] == mixed[:-1]) & (mixed[1:] > 0)).sum())


def _mixed(part: Mapping[str, Column], names: Sequence[str]) -> Column:
    """Return a number for what each row says in `names`, 0 for one without a duration."""
    mixed = np.zeros(len(part[names[0]]), dtype=np.uint64)
    for name in names:
        mixed = (mixed ^ part[name].astype(np.int64).view(np.uint64)) * _MIXING
        mixed ^= mixed >> np.uint64(29)
    return mixed if "end" not in names else np.where(part["end"] > part["start"], mixed, 0)


def _outlasting(kernels: Columns) -> int:
    """Return how many kernels last much longer than the time in which all of them begin."""
    if kernels.count < _FEWEST:
        return 0
    begun = np.array([(p.min(), p.max()) for p in kernels.each("start") if len(p)])
    longest = max(_OUTLASTING * int(begun[:, 1].max() - begun[:, 0].min()), _LONG_NS)
    return sum(int((part["end"] - part["start"] > longest).sum()) for part in kernels.parts())
