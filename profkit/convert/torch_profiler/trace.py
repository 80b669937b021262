"""Traces of Kineto, the recorder behind torch.profiler, of every version, as tables."""

import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from profkit.convert.columns.spill import Scratch
from profkit.convert.columns.values import UNKNOWN_NS, nanoseconds
from profkit.convert.linking.collectives import groups_of
from profkit.convert.linking.doubtful import doubtful
from profkit.convert.linking.impossible import of_devices
from profkit.convert.linking.linker import Linker
from profkit.convert.linking.messages import RANKS_BELOW, Message, plausible
from profkit.convert.linking.origin import Origin
from profkit.convert.torch_profiler.columns import Events
from profkit.convert.torch_profiler.devices import devices, faults
from profkit.convert.torch_profiler.header import Header
from profkit.convert.torch_profiler.parts import is_shared, parts_of, read_parts, workers
from profkit.convert.torch_profiler.reader import BLOCK_BYTES, Reader
from profkit.convert.torch_profiler.source import Source
from profkit.convert.torch_profiler.turns import Turns
from profkit.core.errors import InputError
from profkit.core.formatting import agreeing

_HEAD_BYTES = 1 << 20
_NAMED = 3
_MOST_BACK = 0.05
"""Of the time in a file: threads and devices that follow one another go back by nearly all."""
_OF_ANY_TIME = "The file is not in the order of time: events of every step may be missing."
_OF_AMD = re.compile(r"$|.*(?:AMD|Instinct|Radeon|gfx)")
_OF_XLA = re.compile(r"/(?:device|host):")
_RANK = re.compile(rb'"distributedInfo"\s*:\s*\{[^{}]*?"rank"\s*:\s*"?(\d+)')


@dataclass(frozen=True, kw_only=True)
class Trace:
    """One trace file, read."""

    header: Header
    """Top-level keys: base of the clock, rank, devices."""

    chunks: Mapping[str, Callable[[], Iterator[pa.Table]]]
    """What makes each table, chunk by chunk; operators are numbered from 0 in each file."""

    notes: tuple[str, ...]
    """What was repaired or lost."""

    writers: Mapping[str, Callable[[Path], int]]
    """What leaves a table as a Parquet file, in place of its `chunks`, and returns its rows."""

    @cached_property
    def tables(self) -> dict[str, pa.Table]:
        """Tables by name, whole."""
        return {name: pa.concat_tables(made()) for name, made in self.chunks.items()}


def read(  # noqa: PLR0913 - the arguments of a job
    path: Path,
    *,
    rank: int = -1,
    repeat: int = 0,
    ended_steps: int = -1,
    block_bytes: int = BLOCK_BYTES,
    cores: int = 1,
    helpers: Executor | None = None,
    scratch: Path | None = None,
    in_turns: Turns | None = None,
) -> Trace:
    """Read the trace at `path`, plain or gzip; raises `InputError` if it is something else.

    `rank` -1 takes the rank that the trace states. Where it is known how many steps ended, the
    range of the next one is none: it holds what the program did after its last step.

    Columns are kept in files in `scratch`, or in a temporary folder, until the trace is let go:
    memory is a few blocks of `block_bytes` of text, and as many rows, however large the file is. Of
    a large plain one, up to `cores` processes read a part each: `helpers`, or those that are
    started here. Threads that end steps `in_turns` are read as one, by this process alone.
    """
    with ExitStack() as stack:
        pool = (helpers or workers(cores - 1)) if cores > 1 and is_shared(path) else None
        if pool:
            stack.callback(pool.shutdown, wait=False)
        gathered = Events(Scratch(scratch), in_turns=in_turns)
        header, gathered, notes = _gathered(path, block_bytes, pool, cores, gathered)
        origin = Origin(
            rank=header.rank if rank < 0 else rank, repeat=repeat, base_ns=header.base_ns
        )
        linker = Linker(
            gathered=gathered,
            origin=origin,
            groups=groups_of(header.distributedInfo),
            ended_steps=ended_steps,
            pool=pool,
        )
        linker.begin()
        stack.pop_all()  # what was asked goes on
    described = devices(header, origin)
    # Programs of ROCm number devices by node.
    alike = not any(map(_OF_AMD.match, described.column("name").to_pylist()))
    repairs = [*of_devices(described, linker.work, alike=alike), *_repairs(gathered, linker)]
    return Trace(
        header=header,
        chunks={**linker.chunks(), "devices": lambda: iter([described])},
        notes=(*notes, *_of_header(header, gathered, linker.groups), *repairs),
        writers=linker.writers(),
    )


def _of_header(header: Header, gathered: Events, groups: Mapping[str, Message]) -> Iterator[str]:
    """Yield what the header says that makes numbers less certain."""
    info = header.distributedInfo
    ranks = plausible(info.get("world_size"), RANKS_BELOW) if isinstance(info, dict) else -1
    # Kernels of a graph that is replayed say nothing of themselves.
    said = gathered.messages.all()
    is_known = "" in groups or any(one.size > 1 or one.group in groups for one in said)
    if ranks > 1 and header.rank >= 0 and "pg_config" not in info:
        yield f"Rank {header.rank} of {ranks}; the trace says nothing of their groups."
    elif ranks > 1 and header.rank >= 0 and groups and not is_known:
        yield f"Rank {header.rank} of {ranks}; no call says its group."
    yield from header.faults()
    yield from faults(header)


def _gathered(
    path: Path, block_bytes: int, pool: Executor | None, cores: int, gathered: Events
) -> tuple[Header, Events, list[str]]:
    """Return what a trace holds, read in parts with `pool` if it is there and that can be done.

    Else it is added to what was `gathered`.
    """
    cut = parts_of(path, block_bytes) if pool else []
    if pool and cut and (whole := read_parts(cut, pool, gathered.scratch, others=cores - 1)):
        _refuse(path, *whole, ended=True)
        return *whole, []
    reader = Reader(path, block_bytes=block_bytes)
    for events in reader:
        gathered.add(events)
    _refuse(path, reader.header, gathered, ended=reader.ended)
    if not reader.ended and not _is_in_order(Reader(path, block_bytes=block_bytes)):
        reader.notes.append(_OF_ANY_TIME)
    return reader.header, gathered, reader.notes


def _is_in_order(reader: Reader) -> bool:
    """Say whether events stand in a file in the order of their beginnings, but for a few."""
    latest = earliest = UNKNOWN_NS
    back = 0
    for events in reader:
        rows: Iterator[Any] = (one for one in events if getattr(one, "dur", None) is not None)
        times = nanoseconds([one.ts for one in rows])
        if len(times := times[times != UNKNOWN_NS]):
            reach = np.maximum.accumulate(np.maximum(times, latest))
            earliest = int(times.min()) if earliest == UNKNOWN_NS else min(earliest, times.min())
            back, latest = max(back, int((reach - times).max())), int(reach[-1])
    return back <= _MOST_BACK * (latest - earliest)


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
    return plausible(int(match[1]), RANKS_BELOW) if match else -1


def _repairs(gathered: Events, linker: Linker) -> list[str]:
    """Return what was repaired, one sentence each."""
    unknown = gathered.unknown
    categories = ", ".join(repr(category) for category, _ in unknown.most_common(_NAMED))
    unmarked, mark = linker.steps.unmarked
    unpaired = gathered.pairs.unmatched + gathered.pairs.open
    counts = (
        (not gathered.found, "The trace holds no operator, call, kernel or allocation."),
        (gathered.without_time, "{} event[s] without a usable time [was|were] left out."),
        (
            gathered.without_duration,
            "{} event[s] without a usable duration count[s|] as 0 ns long.",
        ),
        (
            gathered.negative,
            "{} event[s] end[s|] before [it begins|they begin] and count[s|] as 0 ns long.",
        ),
        (
            gathered.implausible,
            "{} number[s] of devices, sizes or registers [is|are] absurd: unknown.",
        ),
        (
            gathered.unreadable.count,
            "{} value[s] [is no number|are no numbers] where numbers belong: unknown.",
        ),
        (unknown.total(), "{} event[s] of unknown categories or kinds ({of}) [was|were] left out."),
        (
            unmarked,
            "No step was marked: {} step[s], from one {mark} to the next, [was|were] taken.",
        ),
        (
            linker.steps.repeated,
            "{} step[s] [has|have] the number of an earlier one: all were numbered on by time.",
        ),
        (
            linker.launches.shared_correlations(),
            "{} id[s] of launches [is|are] of several processes: split the trace, as work mixes.",
        ),
        (
            linker.launches.thinned(),
            "{} runtime call[s] [is|are] in the file, under 2 % of their ids: most are missing.",
        ),
        (unpaired, "{} begin or end event[s] [has|have] no partner and [was|were] left out."),
        (
            linker.operators.tree.cut,
            "{} row[s] ended up to 2 us after the row around [it|them], and [was|were] cut.",
        ),
        (
            linker.operators.tree.crossing,
            "{} row[s] end[s|] after the row around [it|them]: asynchronous, without self time.",
        ),
    )
    repairs = [
        agreeing(count, sentence, of=categories, mark=mark) for count, sentence in counts if count
    ]
    return [*repairs, *doubtful(linker.work)]


def _refuse(path: Path, header: Header, gathered: Events, *, ended: bool) -> None:
    """Raise if another program wrote a trace."""
    hint = "give the *.pt.trace.json[.gz] file that torch.profiler wrote"
    if other := _other(header, gathered):
        raise InputError(f"{path}: {other}, not of torch.profiler", hint=hint)
    # Tracers within kernels write a version as well, with categories of their own.
    known = header.schemaVersion is not None and not gathered.unknown
    if gathered.found or known or header.deviceProperties is not None:
        return
    if not ended:
        raise InputError(
            f"{path}: cut off before the first operator or kernel",
            hint="the process may have died while it wrote; run the capture again",
        )
    categories = ", ".join(sorted(filter(None, gathered.categories))[:5])
    raise InputError(
        f"{path}: a trace without any event of torch.profiler"
        + (f" (its categories: {categories})" if categories else ""),
        hint=hint,
    )


def _other(header: Header, gathered: Events) -> str:
    """Return what a trace is that another program wrote, "" for one of torch.profiler."""
    # Its operators look like ours, but no device work would be found.
    if "Ascend Hardware" in gathered.processes:
        return "a trace of torch_npu for Ascend"
    if gathered.found:
        return ""
    metadata = header.metadata if isinstance(header.metadata, dict) else {}
    if metadata.get("source") == "DevTools" or any("devtools" in c for c in gathered.categories):
        return "a trace of Chrome DevTools"
    if "highres-ticks" in metadata or any(map(_OF_XLA.match, gathered.processes)):
        return "a profile of TensorFlow or JAX"
    return ""
