"""One timeline of all ranks in the trace event format, which Perfetto and chrome://tracing read.

Clocks are put side by side by the ends of collectives; `trace_events` has the format.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from profkit.core.formatting import agreeing
from profkit.tables import schema
from profkit.tables.rank_clocks import MATCHED_COLUMNS, matched_collectives
from profkit.timeline.longest_rows import PYTHON, RowsOfRun
from profkit.timeline.trace_events import Ints, Tracks, arrows, counters, ranges, spans

Event = dict[str, Any]
Tables = Mapping[str, pd.DataFrame]

TABLES = schema.TIMELINE
"""Tables that a timeline is drawn from; `python_calls` too, where its rows are wanted."""

_DRAWN_COLUMNS = {
    name: columns.split()
    for name, columns in {
        "cpu_ops": "rank op parent tid name kind input_shapes forward module phase",
        "runtime_calls": "rank tid name correlation",
        "kernels": "rank device stream name kind correlation size_bytes grid block collective"
        " module phase",
        "memory_events": "rank device allocated_bytes",
        "collectives": "rank collective operation group size_bytes dtype",
        PYTHON: "rank tid name",
    }.items()
}
"""Columns of each table that are drawn, besides the times."""

_EVENTS_AT_ONCE = 1 << 12

_WORK = {"copy": "gpu_memcpy", "set": "gpu_memset"}
_NS_PER_US = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeline:
    """The events, and notes for their reader."""

    encoded: Sequence[bytes]
    """The events as JSON, some thousands of them in each text."""
    count: int
    """How many events there are."""
    slices: int
    """How many of them are rows of the tables."""
    base_ns: int
    """Time 0 of the events, on the clock of the lowest rank."""
    steps: tuple[int, ...]
    """Steps that are drawn; empty if none is marked."""
    notes: tuple[str, ...]
    """How well clocks agree, and how many events were left out."""

    @property
    def events(self) -> list[Event]:
        """The events as dictionaries."""
        found: list[Event] = msgspec.json.decode(b"[%b]" % b",".join(self.encoded))
        return found

    def document(self) -> Iterator[bytes]:
        """Yield the content of a trace file."""
        head = {
            "schemaVersion": 1,
            "displayTimeUnit": "ns",
            "baseTimeNanoseconds": self.base_ns,
            "otherData": {"steps": self.steps, "notes": self.notes},
        }
        yield msgspec.json.encode(head)[:-1] + b',"traceEvents":[\n'
        for number, events in enumerate(self.encoded):
            yield b",\n" if number else b""
            yield events
        yield b"\n]}"


def timeline(
    rows: RowsOfRun, *, steps: Sequence[int], labels: Mapping[int, str], max_events: int
) -> Timeline:
    """Draw `steps` of one repeat, or the whole recording if there are none.

    `labels` are the names of ranks. Beyond `max_events` the shortest events are left out.
    """
    offsets, notes = clocks_of(rows)
    shown, left_out = _shown(rows, steps, max_events)
    shown = {name: _aligned(table, offsets) for name, table in shown.items()}
    return _drawn(shown, _first(shown), steps, labels, (*notes, *left_out))


def timelines_by_rank(
    rows: RowsOfRun, *, steps: Sequence[int], labels: Mapping[int, str], max_events: int
) -> dict[int, Timeline]:
    """Draw the same with each rank by itself, on its own clock; times of all begin together."""
    offsets, notes = clocks_of(rows)
    shown, left_out = _shown(rows, steps, max_events)
    # Moved by its offset, no event may lie before the beginning: Perfetto drops those.
    aligned = {name: _aligned(table, offsets) for name, table in shown.items()}
    base = min(_first(shown), _first(aligned))
    ranks = sorted({int(rank) for table in shown.values() for rank in table["rank"].unique()})
    return {
        rank: _drawn(
            {name: table[(table["rank"] == rank).to_numpy()] for name, table in shown.items()},
            base,
            steps,
            labels,
            (*notes, *left_out),
        )
        for rank in ranks
    }


def clocks_of(rows: RowsOfRun) -> tuple[dict[int, int], tuple[str, ...]]:
    """Return how far the clock of each rank is ahead, in ns, and notes on how well they agree."""
    clocks = matched_collectives(rows.whole("collectives", MATCHED_COLUMNS)).clocks
    offsets = dict(zip(clocks["rank"].tolist(), clocks["offset_ns"].tolist(), strict=True))
    ranks = rows.known("cpu_ops", "rank") | rows.known("kernels", "rank")
    return offsets, tuple(_alignment(clocks, ranks))


def _shown(
    rows: RowsOfRun, steps: Sequence[int], max_events: int
) -> tuple[dict[str, pd.DataFrame], tuple[str, ...]]:
    """Return the rows in `steps`, at most `max_events`, and a note on what is left out."""
    shown, left_out = rows.of_steps(steps).longest(_DRAWN_COLUMNS, max_events)
    note = agreeing(left_out, "{} event[s], the shortest, [was|were] left out.")
    return shown, (note,) if left_out else ()


def _first(tables: Tables) -> int:
    return int(min((rows["start_ns"].min() for rows in tables.values() if len(rows)), default=0))


def _drawn(
    tables: Tables,
    base: int,
    steps: Sequence[int],
    labels: Mapping[int, str],
    notes: tuple[str, ...],
) -> Timeline:
    shown = {**tables, **_with_unique_correlations(tables)}
    tracks = Tracks(labels=labels)
    events = [*_encoded(event for draw in _DRAWN for event in draw(shown, base, tracks))]
    # Only then all tracks are known, which come first.
    named = [*_encoded(tracks.metadata())]
    return Timeline(
        encoded=[text for text, _ in (*named, *events)],
        count=sum(count for _, count in (*named, *events)),
        slices=sum(map(len, shown.values())),
        base_ns=base,
        steps=tuple(steps),
        notes=notes,
    )


def _encoded(events: Iterable[str]) -> Iterator[tuple[bytes, int]]:
    """Yield events joined to long texts, and of how many each is."""
    rest = iter(events)
    while some := list(islice(rest, _EVENTS_AT_ONCE)):
        yield ",\n".join(some).encode(), len(some)


def few_steps(rows: RowsOfRun, skip_first: int, count: int) -> list[int]:
    """Return the first `count` steps after the first `skip_first`, as long as others remain."""
    known = rows.known("cpu_ops", "step") | rows.known("kernels", "step")
    steps = sorted(step for step in known if step >= 0)
    return ([step for step in steps if step >= skip_first] or steps)[:count]


def _alignment(clocks: pd.DataFrame, ranks: set[int]) -> Iterator[str]:
    """Yield how far the clocks of the ranks were moved, and how well they then agree."""
    apart = sorted(ranks - {int(rank) for rank in clocks["rank"]})
    if len(clocks):
        moved = float(clocks["offset_ns"].abs().max()) / _NS_PER_US
        doubt = float(clocks["residual_ns"].max()) / _NS_PER_US
        yield (
            f"Clocks were moved by up to {moved:.1f} us; ends of collectives then agree to "
            f"{doubt:.1f} us (largest median over ranks)."
        )
    if len(ranks) > 1 and apart:
        yield f"The clocks of ranks {apart} were not aligned: no collective connects them."


def _aligned(rows: pd.DataFrame, offsets: Mapping[int, int]) -> pd.DataFrame:
    """Return `rows` on the clock of the lowest rank."""
    moved = rows["rank"].map(lambda rank: offsets.get(int(rank), 0)).astype(np.int64)
    times = [name for name in ("start_ns", "end_ns") if name in rows]
    return rows.assign(**{name: rows[name] - moved for name in times})


def _with_unique_correlations(tables: Tables) -> dict[str, pd.DataFrame]:
    """Return calls and GPU work with ids that no two ranks share: in one file they would mix."""
    both = {name: tables[name] for name in ("runtime_calls", "kernels")}
    known = pd.concat([rows[["rank", "correlation"]] for rows in both.values()])
    before = known.groupby("rank")["correlation"].max().clip(lower=0).cumsum().shift(fill_value=0)
    moved = {name: rows["correlation"] + rows["rank"].map(before) for name, rows in both.items()}
    return {
        name: rows.assign(correlation=moved[name].where(rows["correlation"] > 0, -1))
        for name, rows in both.items()
    }


def _cpu_tracks(rows: pd.DataFrame, tracks: Tracks, kind: str) -> tuple[Ints, Ints]:
    """Return process and thread of each row, on threads that are called `kind`."""
    pid = tracks.processes(rows["rank"])
    return pid, tracks.threads(pid, kind, rows["tid"])


def _operators(tables: Tables, base: int, tracks: Tracks) -> Iterator[str]:
    """Yield operators and annotations of the CPU; ranges that do not nest as asynchronous."""
    ops = tables["cpu_ops"]
    ends = ops[["rank", "op", "end_ns"]].rename(columns={"op": "parent", "end_ns": "until_ns"})
    until = ops[["rank", "parent"]].merge(ends, how="left", on=["rank", "parent"])["until_ns"]
    crossing = ops["end_ns"].to_numpy() > until.fillna(np.inf).to_numpy()
    annotated = (ops["kind"] == "annotation").to_numpy()
    ops = ops.assign(cat=np.where(annotated, "user_annotation", "cpu_op"))
    pid, tid = _cpu_tracks(ops, tracks, "thread")
    nesting = ops[~crossing]
    yield from spans(
        nesting,
        base,
        pid[~crossing],
        tid[~crossing],
        module=nesting["module"],
        phase=nesting["phase"],
        Input_Dims=nesting["input_shapes"],
    )
    yield from ranges(ops[crossing], base, pid[crossing], tid[crossing])


def _python(tables: Tables, base: int, tracks: Tracks) -> Iterator[str]:
    if PYTHON in tables:
        rows = tables[PYTHON].assign(cat="python_function")
        yield from spans(rows, base, *_cpu_tracks(rows, tracks, "Python of thread"))


def _calls(tables: Tables, base: int, tracks: Tracks) -> Iterator[str]:
    rows = tables["runtime_calls"].assign(cat="cuda_runtime")
    where = _cpu_tracks(rows, tracks, "thread")
    yield from spans(rows, base, *where, correlation=rows["correlation"])


def _work(tables: Tables, base: int, tracks: Tracks) -> Iterator[str]:
    """Yield kernels, copies and sets; communication kernels with the collective they belong to."""
    names = ["operation", "group", "size_bytes", "dtype"]
    about = tables["collectives"][["rank", "collective", *names]].add_prefix("of_")
    ours, theirs = ["rank", "collective"], ["of_rank", "of_collective"]
    work = tables["kernels"].merge(about, how="left", left_on=ours, right_on=theirs)
    work["cat"] = [_WORK.get(kind, "kernel") for kind in work["kind"]]
    carried = work["of_size_bytes"].fillna(-1).astype(np.int64)
    pid = tracks.processes(work["rank"], work["device"])
    yield from spans(
        work,
        base,
        pid,
        tracks.threads(pid, "stream", work["stream"]),
        device=work["device"],
        stream=work["stream"],
        correlation=work["correlation"],
        module=work["module"],
        phase=work["phase"],
        grid=work["grid"],
        block=work["block"],
        bytes=carried.where(work["collective"] >= 0, work["size_bytes"]),
        collective=work["of_operation"],
        group=work["of_group"],
        dtype=work["of_dtype"],
    )


def _launches(tables: Tables, base: int, tracks: Tracks) -> Iterator[str]:
    """Yield an arrow from the call to each kernel, copy or set that it launched."""
    calls = tables["runtime_calls"][["rank", "correlation", "tid", "start_ns"]]
    calls = calls[calls["correlation"] > 0].drop_duplicates(["rank", "correlation"])
    work = tables["kernels"][["rank", "correlation", "device", "stream", "start_ns"]]
    both = work.merge(calls, on=["rank", "correlation"], suffixes=("_work", ""))
    device = tracks.processes(both["rank"], both["device"])
    begin = (*_cpu_tracks(both, tracks, "thread"), both["start_ns"].to_numpy())
    stream = tracks.threads(device, "stream", both["stream"])
    yield from arrows("ac2g", begin, (device, stream, both["start_ns_work"].to_numpy()), base)


def _gradients(tables: Tables, base: int, tracks: Tracks) -> Iterator[str]:
    """Yield an arrow from each forward operator to the backward operator around its gradient."""
    ops = tables["cpu_ops"][["rank", "op", "parent", "tid", "start_ns", "forward"]]
    backward = ops[ops["forward"] >= 0]
    inside = backward[["rank", "op"]].rename(columns={"op": "parent"}).assign(inside=True)
    outer = backward.merge(inside, how="left", on=["rank", "parent"])
    outer = outer[outer["inside"].isna().to_numpy()]
    ahead = ops[["rank", "op", "tid", "start_ns"]].rename(columns={"op": "forward"})
    both = outer.merge(ahead, on=["rank", "forward"], suffixes=("", "_forward"))
    pid = tracks.processes(both["rank"])
    begin = (pid, tracks.threads(pid, "thread", both["tid_forward"]))
    end = (pid, tracks.threads(pid, "thread", both["tid"]))
    times = (both[name].to_numpy() for name in ("start_ns_forward", "start_ns"))
    yield from arrows("fwdbwd", (*begin, next(times)), (*end, next(times)), base)


def _memory(tables: Tables, base: int, tracks: Tracks) -> Iterator[str]:
    """Yield the memory that each rank has allocated on each device, as a curve."""
    rows = tables["memory_events"]
    rows = rows[(rows["allocated_bytes"] >= 0).to_numpy()]
    names = "allocated on " + rows["device"].astype(str)
    time, size = (rows[name].to_numpy() for name in ("start_ns", "allocated_bytes"))
    yield from counters(names, tracks.processes(rows["rank"]), time - base, size)


_DRAWN = (_operators, _calls, _python, _work, _launches, _gradients, _memory)
