"""Traces of Kineto, the recorder behind torch.profiler, of every version, as tables."""

import re
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from profkit.convert.kineto.collectives import only_group
from profkit.convert.kineto.columns import Gathered
from profkit.convert.kineto.devices import devices
from profkit.convert.kineto.reader import BLOCK_BYTES, Header, Reader
from profkit.convert.kineto.source import Source
from profkit.convert.kineto.tables import Linker
from profkit.errors import InputError

_HEAD_BYTES = 1 << 20
_RANK = re.compile(rb'"distributedInfo"\s*:\s*\{[^{}]*?"rank"\s*:\s*"?(\d+)')


@dataclass(frozen=True, kw_only=True, slots=True)
class Trace:
    """One trace file, read."""

    header: Header
    """Top-level keys: base of the clock, rank, devices."""

    tables: dict[str, pa.Table]
    """Tables by name; operators are numbered from 0 in each file."""

    notes: tuple[str, ...]
    """What was repaired or lost."""


def read(path: Path, *, rank: int = -1, repeat: int = 0, block_bytes: int = BLOCK_BYTES) -> Trace:
    """Read the trace at `path`, plain or gzip; raises `InputError` if it is something else.

    `rank` -1 takes the rank that the trace states. Memory is a few blocks plus the columns.
    """
    reader = Reader(path, block_bytes=block_bytes)
    gathered = Gathered()
    for events in reader:
        gathered.add(events)
    linker = Linker(
        gathered=gathered,
        rank=reader.header.rank if rank < 0 else rank,
        repeat=repeat,
        base_ns=reader.header.base_ns,
        group=only_group(reader.header.distributedInfo),
    )
    if not gathered.found:
        _refuse(path, reader, gathered)
    tables = linker.tables() | {"devices": devices(reader.header, linker.rank, repeat)}
    return Trace(
        header=reader.header,
        tables=tables,
        notes=(*reader.notes, *_repairs(gathered, linker)),
    )


def stated_rank(path: Path) -> int:
    """Return the rank that the trace states before its events, -1 if it states none.

    Reads the beginning of the file only; raises `InputError` if it is no JSON.
    """
    head = b""
    for chunk in Source(path):
        head += chunk
        if len(head) > _HEAD_BYTES or b'"traceEvents"' in head:
            break
    if not head:
        raise InputError(f"{path}: an empty file", hint="run the capture again")
    match = _RANK.search(head)
    return int(match[1]) if match else -1


def _repairs(gathered: Gathered, linker: Linker) -> list[str]:
    """Return what was repaired, one sentence each."""
    unpaired = gathered.pairs.unmatched + gathered.pairs.open
    counts = (
        (not gathered.found, "The trace holds no operator, call, kernel or allocation."),
        (gathered.without_time, "{} events without a usable time were left out."),
        (gathered.without_duration, "{} events without a usable duration count as 0 ns long."),
        (unpaired, "{} begin or end events have no partner and were left out."),
        (linker.tree.cut, "{} rows outlived the row around them by at most 2 us and were cut."),
        (
            linker.tree.crossing,
            "{} rows outlive the row around them: they count as asynchronous, without self time.",
        ),
    )
    return [sentence.format(count) for count, sentence in counts if count]


def _refuse(path: Path, reader: Reader, gathered: Gathered) -> None:
    """Raise if a trace without a row that we know is somebody else's."""
    header = reader.header
    metadata = header.metadata if isinstance(header.metadata, dict) else {}
    hint = "give the *.pt.trace.json[.gz] file that torch.profiler wrote"
    if metadata.get("source") == "DevTools" or any("devtools" in c for c in gathered.categories):
        raise InputError(f"{path}: a trace of Chrome DevTools, not of torch.profiler", hint=hint)
    if "highres-ticks" in metadata:
        raise InputError(
            f"{path}: a profile of TensorFlow or JAX, not of torch.profiler", hint=hint
        )
    if header.schemaVersion is not None or header.deviceProperties is not None:
        return
    if not reader.ended:
        raise InputError(
            f"{path}: cut off before the first operator or kernel",
            hint="the process may have died while it wrote; run the capture again",
        )
    known = ", ".join(sorted(filter(None, gathered.categories))[:5])
    raise InputError(
        f"{path}: a trace without any event of torch.profiler"
        + (f" (its categories: {known})" if known else ""),
        hint=hint,
    )
