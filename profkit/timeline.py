"""One timeline of all ranks in the trace event format, which Perfetto and chrome://tracing read.

Clocks are put side by side by the ends of collectives. Format: "Trace Event Format", the document
of the Chromium project; times are in µs, with their nanoseconds as fractions.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from profkit.meetings import meetings

Event = dict[str, Any]
Tables = Mapping[str, pd.DataFrame]

TABLES = ("cpu_ops", "runtime_calls", "kernels", "memory_events", "collectives")
"""Tables that a timeline is drawn from; `python_calls` too, where its rows are wanted."""

_WORK = {"copy": "gpu_memcpy", "set": "gpu_memset"}
_NS_PER_US = 1000
_FIRST_DEVICE = 1_000_000
_DEVICES = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeline:
    """The events, and what a reader of them should know."""

    events: list[Event]
    base_ns: int
    """What the times of the events count from, on the clock of the lowest rank."""
    steps: tuple[int, ...]
    """Steps that are drawn; empty if none is marked."""
    notes: tuple[str, ...]
    """How well clocks agree, and what was left out."""


@dataclass(kw_only=True, slots=True)
class _Tracks:
    """Processes and threads of the timeline, numbered as they come up.

    Perfetto joins threads of equal number even in different processes, so each has its own.
    """

    labels: Mapping[int, str]
    numbers: dict[tuple[int, str], int] = field(default_factory=dict)
    named: dict[int, str] = field(default_factory=dict)

    def process(self, rank: int, device: int = -1) -> int:
        """Return the number of the process of a rank's host, or of one of its devices."""
        label = self.labels.get(rank, f"rank {rank}")
        pid = rank + 1 if device < 0 else _FIRST_DEVICE + rank * _DEVICES + device
        self.named[pid] = label if device < 0 else f"{label}, device {device}"
        return pid

    def thread(self, pid: int, name: str) -> int:
        """Return the number of the thread `name` of a process."""
        return self.numbers.setdefault((pid, name), len(self.numbers) + 1)

    def metadata(self) -> Iterator[Event]:
        """Yield names and order of processes and threads: devices below their rank's host."""
        order = sorted(self.named, key=lambda pid: (_rank_of(pid), pid))
        for place, pid in enumerate(order):
            yield _named("process_name", pid, 0, name=self.named[pid])
            yield _named("process_sort_index", pid, 0, sort_index=place)
        for (pid, name), tid in self.numbers.items():
            yield _named("thread_name", pid, tid, name=name)


def _rank_of(pid: int) -> int:
    return pid - 1 if pid < _FIRST_DEVICE else (pid - _FIRST_DEVICE) // _DEVICES


def _named(what: str, pid: int, tid: int, **args: Any) -> Event:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "ts": 0, "args": args}


def timeline(
    tables: Tables, *, steps: Sequence[int], labels: Mapping[int, str], max_events: int
) -> Timeline:
    """Draw `steps` of one repeat; all that was recorded if there are none.

    `labels` are the names of ranks. Beyond `max_events` what begins latest is left out.
    """
    clocks = meetings(tables["collectives"]).clocks
    offsets = dict(zip(clocks["rank"].tolist(), clocks["offset_ns"].tolist(), strict=True))
    notes = list(_alignment(clocks, tables))
    shown = {name: _in_steps(rows, steps) for name, rows in tables.items()}
    if steps and "python_calls" in tables:
        shown["python_calls"] = _open_during(tables["python_calls"], shown["cpu_ops"])
    shown = {name: _aligned(rows, offsets) for name, rows in shown.items()}
    shown, left_out = _limited(shown, max_events)
    if left_out:
        notes.append(f"{left_out} events, those that begin last, were left out.")
    times = [rows["start_ns"].min() for rows in shown.values() if len(rows)]
    base = int(min(times, default=0))
    tracks = _Tracks(labels=labels)
    events = [event for draw in _DRAWN for event in draw(shown, base, tracks)]
    return Timeline(
        events=[*tracks.metadata(), *events],
        base_ns=base,
        steps=tuple(steps),
        notes=tuple(notes),
    )


def few_steps(tables: Tables, skip_first: int, count: int) -> list[int]:
    """Return the first `count` steps after the first `skip_first`, as long as others remain."""
    known = {step for name in ("cpu_ops", "kernels") for step in tables[name]["step"].unique()}
    steps = sorted(int(step) for step in known if step >= 0)
    return ([step for step in steps if step >= skip_first] or steps)[:count]


def _alignment(clocks: pd.DataFrame, tables: Tables) -> Iterator[str]:
    """Yield how far the clocks of the ranks were moved, and how well they then agree."""
    ranks = {int(rank) for rank in tables["cpu_ops"]["rank"].unique()}
    ranks |= {int(rank) for rank in tables["kernels"]["rank"].unique()}
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


def _in_steps(rows: pd.DataFrame, steps: Sequence[int]) -> pd.DataFrame:
    rows = rows.rename(columns={"time_ns": "start_ns"})
    return rows[rows["step"].isin(steps).to_numpy()] if steps else rows


def _open_during(calls: pd.DataFrame, ops: pd.DataFrame) -> pd.DataFrame:
    """Return the calls that are open while any of `ops` of their rank is, cut to that."""
    spans = ops.groupby("rank").agg(first=("start_ns", "min"), last=("end_ns", "max"))
    rows = calls.join(spans, on="rank", how="inner")
    rows = rows[((rows["start_ns"] < rows["last"]) & (rows["end_ns"] > rows["first"])).to_numpy()]
    start, end = (
        np.maximum(rows["start_ns"], rows["first"]),
        np.minimum(rows["end_ns"], rows["last"]),
    )
    return rows.assign(start_ns=start, end_ns=end)


def _aligned(rows: pd.DataFrame, offsets: Mapping[int, int]) -> pd.DataFrame:
    """Return `rows` on the clock of the lowest rank."""
    moved = rows["rank"].map(lambda rank: offsets.get(int(rank), 0)).astype(np.int64)
    times = [name for name in ("start_ns", "end_ns") if name in rows]
    return rows.assign(**{name: rows[name] - moved for name in times})


def _limited(tables: dict[str, pd.DataFrame], count: int) -> tuple[dict[str, pd.DataFrame], int]:
    """Return the first `count` rows of all tables by their start, and how many others there are."""
    starts = np.concatenate([rows["start_ns"].to_numpy(np.int64) for rows in tables.values()])
    if len(starts) <= count:
        return tables, 0
    last = np.partition(starts, count)[count]
    kept = {name: rows[(rows["start_ns"] < last).to_numpy()] for name, rows in tables.items()}
    return kept, len(starts) - sum(map(len, kept.values()))


def _rows(table: pd.DataFrame) -> Iterator[Any]:
    """Yield the rows as named tuples, whose types pandas does not state."""
    yield from table.itertuples()


def _span(row: Any, base: int, cat: str, pid: int, tid: int, **args: Any) -> Event:
    return {
        "ph": "X",
        "cat": cat,
        "name": row.name,
        "pid": pid,
        "tid": tid,
        "ts": (row.start_ns - base) / _NS_PER_US,
        "dur": (row.end_ns - row.start_ns) / _NS_PER_US,
        "args": {name: value for name, value in args.items() if value not in ("", -1)},
    }


def _operators(tables: Tables, base: int, tracks: _Tracks) -> Iterator[Event]:
    """Yield operators and annotations of the host; ranges that do not nest as asynchronous."""
    ops = tables["cpu_ops"]
    ends = ops[["rank", "op", "end_ns"]].rename(columns={"op": "parent", "end_ns": "until_ns"})
    until = ops[["rank", "parent"]].merge(ends, how="left", on=["rank", "parent"])["until_ns"]
    crossing = (ops["end_ns"].to_numpy() > until.fillna(np.inf).to_numpy()).tolist()
    for number, (row, crosses) in enumerate(zip(_rows(ops), crossing, strict=True)):
        pid = tracks.process(row.rank)
        tid = tracks.thread(pid, f"thread {row.tid}")
        cat = "user_annotation" if row.kind == "annotation" else "cpu_op"
        about = {"module": row.module, "phase": row.phase, "Input Dims": row.input_shapes}
        span = _span(row, base, cat, pid, tid, **about)
        if not crosses:
            yield span
            continue
        end = span["ts"] + span.pop("dur")
        # Slices of one thread must nest, or viewers drop them.
        yield span | {"ph": "b", "id": number}
        yield span | {"ph": "e", "id": number, "ts": end, "args": {}}


def _python(tables: Tables, base: int, tracks: _Tracks) -> Iterator[Event]:
    for row in _rows(tables.get("python_calls", pd.DataFrame())):
        pid = tracks.process(row.rank)
        tid = tracks.thread(pid, f"Python of thread {row.tid}")
        yield _span(row, base, "python_function", pid, tid)


def _calls(tables: Tables, base: int, tracks: _Tracks) -> Iterator[Event]:
    for row in _rows(tables["runtime_calls"]):
        pid = tracks.process(row.rank)
        tid = tracks.thread(pid, f"thread {row.tid}")
        yield _span(row, base, "cuda_runtime", pid, tid, correlation=row.correlation)


def _work(tables: Tables, base: int, tracks: _Tracks) -> Iterator[Event]:
    """Yield kernels, copies and sets; of communication, what it carries out."""
    names = ["operation", "group", "size_bytes", "dtype"]
    about = tables["collectives"][["rank", "collective", *names]].add_prefix("of_")
    ours, theirs = ["rank", "collective"], ["of_rank", "of_collective"]
    work = tables["kernels"].merge(about, how="left", left_on=ours, right_on=theirs)
    for row in _rows(work):
        pid = tracks.process(row.rank, row.device)
        tid = tracks.thread(pid, f"stream {row.stream}")
        args = {"device": row.device, "stream": row.stream, "correlation": row.correlation}
        args |= {"module": row.module, "phase": row.phase, "grid": row.grid, "block": row.block}
        args["bytes"] = row.size_bytes
        if row.collective >= 0:
            args |= {"collective": row.of_operation, "group": row.of_group}
            args |= {"bytes": int(row.of_size_bytes), "dtype": row.of_dtype}
        yield _span(row, base, _WORK.get(row.kind, "kernel"), pid, tid, **args)


def _launches(tables: Tables, base: int, tracks: _Tracks) -> Iterator[Event]:
    """Yield an arrow from the call to each piece of device work that it launched."""
    calls = tables["runtime_calls"][["rank", "correlation", "tid", "start_ns"]]
    calls = calls[calls["correlation"] > 0].drop_duplicates(["rank", "correlation"])
    work = tables["kernels"][["rank", "correlation", "device", "stream", "start_ns"]]
    both = work.merge(calls, on=["rank", "correlation"], suffixes=("_work", ""))
    for number, row in enumerate(_rows(both)):
        host, device = tracks.process(row.rank), tracks.process(row.rank, row.device)
        begin = (host, tracks.thread(host, f"thread {row.tid}"), row.start_ns)
        end = (device, tracks.thread(device, f"stream {row.stream}"), row.start_ns_work)
        yield from _arrow("ac2g", number, begin, end, base)


def _gradients(tables: Tables, base: int, tracks: _Tracks) -> Iterator[Event]:
    """Yield an arrow from each forward operator to the backward operator around its gradient."""
    ops = tables["cpu_ops"][["rank", "op", "parent", "tid", "start_ns", "forward"]]
    backward = ops[ops["forward"] >= 0]
    inside = backward[["rank", "op"]].rename(columns={"op": "parent"}).assign(inside=True)
    outer = backward.merge(inside, how="left", on=["rank", "parent"])
    outer = outer[outer["inside"].isna().to_numpy()]
    ahead = ops[["rank", "op", "tid", "start_ns"]].rename(columns={"op": "forward"})
    both = outer.merge(ahead, on=["rank", "forward"], suffixes=("", "_forward"))
    for number, row in enumerate(_rows(both)):
        pid = tracks.process(row.rank)
        begin = (pid, tracks.thread(pid, f"thread {row.tid_forward}"), row.start_ns_forward)
        end = (pid, tracks.thread(pid, f"thread {row.tid}"), row.start_ns)
        yield from _arrow("fwdbwd", number, begin, end, base)


def _arrow(
    cat: str, number: int, begin: tuple[int, int, int], end: tuple[int, int, int], base: int
) -> Iterator[Event]:
    for ph, (pid, tid, time), more in (("s", begin, {}), ("f", end, {"bp": "e"})):
        where = {"pid": pid, "tid": tid, "ts": (time - base) / _NS_PER_US}
        yield {"ph": ph, "cat": cat, "name": cat, "id": number, **where, **more}


def _memory(tables: Tables, base: int, tracks: _Tracks) -> Iterator[Event]:
    """Yield what each rank has allocated on each device, as a curve."""
    for row in _rows(tables["memory_events"]):
        if row.allocated_bytes >= 0:
            yield {
                "ph": "C",
                "cat": "memory",
                "name": f"allocated on {row.device}",
                "pid": tracks.process(row.rank),
                "tid": 0,
                "ts": (row.start_ns - base) / _NS_PER_US,
                "args": {"bytes": row.allocated_bytes},
            }


_DRAWN = (_operators, _calls, _python, _work, _launches, _gradients, _memory)
