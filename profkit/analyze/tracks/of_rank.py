"""The tracks of one rank: its causes, phases, threads, collectives and streams."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from profkit.analyze.division import names
from profkit.analyze.division.partition import Partition
from profkit.analyze.division.places import line_of
from profkit.analyze.division.recorded_rank import RecordedRank
from profkit.analyze.shared import calltree, intervals
from profkit.analyze.shared.intervals import Intervals
from profkit.analyze.tracks.track import Track

PHASES = ("data", "forward", "backward", "optimizer")
_WHEN = ["start_ns", "end_ns", "name"]
_ON_CPU = ("kind", "line", "module", "phase", "input_shapes", "inputs")
_OF_KERNEL = (
    *("kind", "operator", "module", "phase", "grid", "block", "registers"),
    *("shared_memory_bytes", "occupancy_percent", "size_bytes", "copy_kind"),
)
_PHASED = ["start_ns", "end_ns", "phase"]
_PHASE_OF_RUN = {"name": "phase"}
_OF_COLLECTIVE = ("kind", "group", "group_description", "group_ranks", "dtype", "size_bytes")


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """All that one rank recorded in the repeat that is shown."""

    rank: RecordedRank
    time: Partition
    annotations: pd.DataFrame
    collectives: pd.DataFrame
    """All of them, those that were matched with ``meeting`` and ``wait_ns``, else -1."""

    memory: pd.DataFrame
    offset_ns: int
    """How far its clock is ahead of the common one."""

    def tracks(self, window: tuple[int, int], least_ns: int) -> Iterator[Track]:
        """Yield the tracks with what is there in a window of the common clock.

        Of CPU threads it is what takes `least_ns`, or more.
        """
        own = window[0] + self.offset_ns, window[1] + self.offset_ns
        phases, threads = (partial(make, least_ns=least_ns) for make in (_phases, _threads))
        for make in (_causes, phases, threads, _collectives, _streams):
            for track in make(self, own):
                if len(track.rows):
                    moved = track.rows[["start_ns", "end_ns"]] - self.offset_ns
                    track.rows[["start_ns", "end_ns"]] = moved
                    yield track


def cause_name(cause: str) -> str:
    """Return the name of a cause, what it is part of behind it."""
    *above, own = (names.title(part) for part in names.parts_of(cause))
    return f"{own} ({': '.join(above)})" if above else own


def _inside(rows: pd.DataFrame, window: tuple[int, int], least_ns: int = 0) -> pd.DataFrame:
    inside = (rows["start_ns"] < window[1]) & (rows["end_ns"] > window[0])
    if least_ns:
        inside &= rows["end_ns"] - rows["start_ns"] >= least_ns
    return rows[inside.to_numpy()]


def _causes(one: Recorded, window: tuple[int, int]) -> Iterator[Track]:
    causes = [*one.time.parts]
    if not causes:
        return
    spans = [_cut(one.time.spans(cause), window) for cause in causes]
    # A text of its own for each of millions of spans would take more than they do.
    number = np.repeat(np.arange(len(causes), dtype=np.int16), [len(own) for own in spans])
    names = pd.Categorical([cause_name(cause) for cause in causes])
    rows = _rows(np.concatenate(spans)).assign(
        name=names[number], cause=pd.Categorical.from_codes(number, pd.Index(causes))
    )
    yield Track(rank=one.rank.where[0], kind="causes", rows=rows, about=("cause",))


def _cut(spans: Intervals, window: tuple[int, int]) -> Intervals:
    return intervals.intersection(spans, np.array([window], dtype=np.int64))


def _rows(spans: Intervals) -> pd.DataFrame:
    return pd.DataFrame({"start_ns": spans[:, 0], "end_ns": spans[:, 1]})


def _phases(one: Recorded, window: tuple[int, int], least_ns: int) -> Iterator[Track]:
    marked = one.annotations
    named = (marked["kind"] == "host") & marked["name"].isin(PHASES)
    rows = _inside(marked[named.to_numpy()], window)[_WHEN]
    if rows.empty:
        # Of shorter operators not all are in memory.
        parts = one.rank.in_parts() if least_ns else (one.rank,)
        runs = [_runs(_inside(part.ops[_PHASED], window)) for part in parts]
        rows = runs[0] if len(runs) == 1 else _runs(pd.concat(runs).rename(columns=_PHASE_OF_RUN))
    yield Track(rank=one.rank.where[0], kind="phases", rows=rows.copy())


def _runs(ops: pd.DataFrame) -> pd.DataFrame:
    """Return runs of operators of one phase, where the phases themselves were not marked."""
    known = ops[(ops["phase"].astype(object) != "").to_numpy()].sort_values("start_ns")
    phase = known["phase"].astype(object)
    run = (phase != phase.shift()).cumsum()
    grouped = known.assign(name=phase).groupby(run.to_numpy())
    return grouped.agg(
        start_ns=("start_ns", "min"), end_ns=("end_ns", "max"), name=("name", "first")
    )


def _threads(one: Recorded, window: tuple[int, int], least_ns: int) -> Iterator[Track]:
    """Yield for each thread its operators, ranges and calls, and then its Python."""
    rank = one.rank
    ops = _inside(rank.ops, window, least_ns)
    lines = {stack: line_of(str(stack)) for stack in ops["stack"].unique()}
    ops = ops.assign(line=ops["stack"].map(lines).astype(object))
    calls = _inside(rank.calls, window, least_ns)
    launches = calls["correlation"].isin(rank.kernels["correlation"]) & (calls["correlation"] > 0)
    calls = calls.assign(link=calls["correlation"].where(launches, -1), kind="runtime call")
    both = pd.concat([ops.assign(link=-1), calls], ignore_index=True)
    texts = {name: both[name].astype(object).fillna("") for name in ("name", *_ON_CPU)}
    both = both[["tid", "start_ns", "end_ns", "link"]].assign(**texts)
    python = _inside(rank.python, window, 0 if rank.is_sampled else least_ns)
    for tid, role in rank.roles.names().items():
        where: dict[str, int | str] = {"thread": tid, "role": role}
        rows = both[(both["tid"] == tid).to_numpy()].copy()
        yield Track(rank=rank.where[0], kind="cpu", rows=rows, where=where, about=_ON_CPU)
        of_python = python[(python["tid"] == tid).to_numpy()][_WHEN].copy()
        if rank.is_sampled:
            where = where | {"is_sampled": 1}
        yield Track(rank=rank.where[0], kind="python", rows=of_python, where=where)


def _collectives(one: Recorded, window: tuple[int, int]) -> Iterator[Track]:
    rows = _inside(one.collectives, window)
    known = rows["operation"].astype(object)
    rows = rows.assign(name=known.where(known != "", rows["name"].astype(object)))
    rows = rows.assign(link=rows["meeting"], last=rows["last"].astype(np.int64))
    about = (*_OF_COLLECTIVE, "wait_ns", "last")
    yield Track(rank=one.rank.where[0], kind="collectives", rows=rows, about=about)


def _streams(one: Recorded, window: tuple[int, int]) -> Iterator[Track]:
    kernels = _inside(one.rank.kernels, window)
    ops = one.rank.ops
    row = calltree.positions(ops["op"].to_numpy(np.int64), kernels["op"].to_numpy(np.int64))
    row = np.where(kernels["op"].to_numpy() >= 0, row, -1)
    operator = np.where(row >= 0, ops["name"].iloc[row].astype(object), "") if len(ops) else ""
    correlation = kernels["correlation"].to_numpy(np.int64)
    kernels = kernels.assign(operator=operator, link=np.where(correlation > 0, correlation, -1))
    for device, stream, own in by_stream(kernels):
        where: dict[str, int | str] = {"device": device, "stream": stream}
        yield Track(rank=one.rank.where[0], kind="gpu", rows=own, where=where, about=_OF_KERNEL)


def by_stream(kernels: pd.DataFrame) -> Iterator[tuple[int, int, pd.DataFrame]]:
    """Yield each device and stream with its kernels."""
    places: dict[Any, Any] = dict(kernels.groupby(["device", "stream"], observed=True).indices)
    for (device, stream), rows in sorted(places.items()):
        yield int(device), int(stream), kernels.iloc[rows].copy()
