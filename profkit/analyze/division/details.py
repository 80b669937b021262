"""The causes of one rank as a tree: what each consists of, where it is, and its numbers."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.division import charges, cpu, gpu, places, thread_waits
from profkit.analyze.division.cpu_threads import PYTHON, START_UP
from profkit.analyze.division.partition import Partition
from profkit.analyze.division.recorded_rank import RecordedRank
from profkit.analyze.shared import calltree, intervals
from profkit.analyze.shared.glob_match import categorical, texts
from profkit.analyze.shared.intervals import Intervals
from profkit.core.verdict import Evidence

OTHER = "other"
_MOST_PARTS = 8
_LEAST_PART = 0.01
_PLACE_SHARE = 0.2


@dataclass(kw_only=True)
class Detail:
    """One cause of one rank and repeat, in ns over all its periods."""

    time_ns: int
    place: str = ""
    evidence: Evidence = field(default_factory=dict)


def details(rank: RecordedRank, time: Partition) -> dict[str, Detail]:
    """Return the causes of `time` by id, with those that each consists of."""
    rank.tidy()
    totals = {name: intervals.total(time.spans(name)) for name in time.parts}
    whole = intervals.total(intervals.union(rank.windows))
    found = {name: Detail(time_ns=total) for name, total in totals.items()}
    worth = [name for name, total in totals.items() if total > _LEAST_PART * whole]
    work, calls = charges.of_kernels(rank, time), charges.of_calls(rank, time)
    for name in worth:
        rank.tidy()
        detail = found[name]
        if name == gpu.COMPUTING:
            own = np.where((rank.kernels["kind"] == "compute").to_numpy(), work, 0)
            found |= _parts(name, detail.time_ns, rank.kernel_labels, own, whole)
            detail.place = _place(places.of_ops(rank, _of_ops(rank, own)), detail.time_ns)
        elif name == cpu.COMPUTING:
            own = np.where(rank.works, charges.of_ops(rank, time), 0)
            labels = categorical(rank.ops["name"])
            found |= _parts(name, detail.time_ns, labels, own, whole)
            detail.place = _place(places.of_ops(rank, own), detail.time_ns)
        elif name.startswith(gpu.EXPOSED):
            _communication(rank, time.spans(name), name, detail)
        elif name.startswith("exposed_copies."):
            rows = rank.copy_names == name.partition(".")[2]
            detail.place = _place(places.of_ops(rank, _of_ops(rank, work * rows)), detail.time_ns)
            detail.evidence = _copies(rank, rows & (work > 0))
        elif ".blocked." in name or name.startswith(f"{gpu.IDLE}.{START_UP}."):
            _blocked(rank, time.spans(name), calls, name, detail)
        else:
            spans = places.of_spans(rank, time.spans(name))
            detail.place = _place(spans, detail.time_ns)
            if name.endswith(".not_started"):
                detail.evidence = _blocked_meanwhile(rank, time.spans(name))
            if name.endswith(thread_waits.CAUSES):
                detail.evidence = thread_waits.evidence(rank, name, time.spans(name))
            if name.rpartition(".")[2] == PYTHON:
                found |= _lines(name, detail.time_ns, spans, whole)
                detail.evidence = _outside(rank, time.spans(name))
    return found


def _parts(
    above: str,
    total: int,
    labels: "NDArray[np.object_] | pd.Categorical",
    time: NDArray[np.int64],
    whole: int,
) -> dict[str, Detail]:
    """Return what `above` consists of by label, the rest together; they sum to the total."""
    rows = time > 0
    numbers, distinct = pd.factorize(labels[rows])
    known = np.asarray(distinct, dtype=object)
    by_label = np.argsort(known)
    sums = calltree.sums(numbers, time[rows], len(known))[by_label]
    counts = np.bincount(numbers, minlength=len(known))[by_label]
    known = known[by_label]
    kept = [row for row in np.argsort(-sums, kind="stable") if sums[row] > _LEAST_PART * whole]
    parts = ((str(known[row]), int(sums[row]), int(counts[row])) for row in kept[:_MOST_PARTS])
    return _summing(above, total, parts)


def _lines(above: str, total: int, lines: list[places.Place], whole: int) -> dict[str, Detail]:
    """Return the lines of the program that `above` consists of, the rest together."""
    kept = [(label, time, 0) for label, time in lines if time > _LEAST_PART * whole]
    parts = _summing(above, total, kept[:_MOST_PARTS])
    for name, detail in parts.items():
        detail.place = "" if name.endswith(f".{OTHER}") else detail.place
    return parts


def _summing(above: str, total: int, parts: Iterable[tuple[str, int, int]]) -> dict[str, Detail]:
    """Return the `parts` (label, ns, count) as causes below `above`, and what they leave."""
    found, left = {}, total
    for label, time, count in parts:
        detail = Detail(time_ns=min(time, left), place=label)
        detail.evidence = {"calls": count} if count else {}
        found[f"{above}.{label.replace('.', '_')}"] = detail
        left -= detail.time_ns
    return found | {f"{above}.{OTHER}": Detail(time_ns=left)} if found else {}


def _place(found: list[places.Place], total: int) -> str:
    return places.shown(found, int(_PLACE_SHARE * total))


def _of_ops(rank: RecordedRank, time: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the `time` of kernels summed over their operators."""
    return calltree.sums(rank.kernel_ops, time, len(rank.ops))


def _communication(rank: RecordedRank, spans: Intervals, name: str, detail: Detail) -> None:
    """Say which rank is waited for most, or the line that communicates without a GPU."""
    rows = rank.collectives
    if not name.endswith(".waiting"):
        if rank.kernels.empty:
            detail.place = _place(places.of_spans(rank, spans), detail.time_ns)
        return
    if rows.empty:
        return
    waited = rows.groupby("late_rank")["wait_ns"].sum().sort_values(ascending=False)
    first, most = int(waited.index.to_numpy()[0]), float(waited.iloc[0])
    detail.evidence = {
        "late_rank": first,
        "waiting_for_it_share": round(most / max(float(waited.sum()), 1.0), 3),
        "collectives": len(rows),
    }


def _outside(rank: RecordedRank, spans: Intervals) -> Evidence:
    """Return how the time of Python and dispatch is spread, and the operator with most of it."""
    own = charges.of_threads(rank, spans, [rank.main, *rank.launching])
    working = np.where(rank.works, own, 0)
    total = max(intervals.total(spans), 1)
    evidence: Evidence = {
        "gaps": len(spans),
        "longest_ns": int((spans[:, 1] - spans[:, 0]).max()),
        "in_operators_share": round(int(working.sum()) / total, 3),
    }
    if working.any():
        names = categorical(rank.ops["name"])
        sums = calltree.sums(names.codes, working, len(names.categories))
        known = np.unique(names.codes)
        times = pd.Series(sums[known], index=names.categories.astype(object)[known])
        evidence["operator"] = str(times.sort_index().sort_values().index[-1])
    return evidence


def _blocked_meanwhile(rank: RecordedRank, spans: Intervals) -> Evidence:
    """Return the call in which the CPU waited while what it had launched did not start."""
    inside = np.where(rank.blocked, intervals.overlap(rank.call_spans, spans), 0)
    if not len(inside) or inside.max() < _PLACE_SHARE * intervals.total(spans):
        return {}
    return {"blocked_in": str(rank.calls["name"].iloc[int(inside.argmax())])}


def _copies(rank: RecordedRank, rows: NDArray[np.bool_]) -> Evidence:
    size = int(rank.kernels["size_bytes"].to_numpy(np.int64)[rows].clip(min=0).sum())
    return {"copies": int(rows.sum()), **({"size_bytes": size} if size else {})}


def _blocked(
    rank: RecordedRank,
    spans: Intervals,
    charged: NDArray[np.int64],
    name: str,
    detail: Detail,
) -> None:
    """Say in which calls the time is, how many there are, and the line that made them."""
    call = name.rpartition(".")[2]
    named = (texts(rank.calls["name"]) == call) & rank.blocked
    rows = named & (intervals.overlap(rank.call_spans, intervals.union(rank.windows)) > 0)
    ops = rank.calls["op"].to_numpy(np.int64)
    row = calltree.positions(rank.ops["op"].to_numpy(np.int64), ops)
    weights = np.where(rows & (ops >= 0), np.maximum(charged, 1), 0)
    of_op = calltree.sums(np.where(ops >= 0, row, -1), weights, len(rank.ops))
    detail.place = _place(places.of_spans(rank, spans), detail.time_ns) or places.shown(
        places.of_ops(rank, of_op), 1
    )
    length = (rank.calls["end_ns"] - rank.calls["start_ns"]).to_numpy(np.int64)[rows]
    detail.evidence = {
        "calls": int(rows.sum()),
        "longest_ns": int(length.max()) if len(length) else 0,
    }
    if of_op.any():
        detail.evidence["operator"] = str(rank.ops["name"].iloc[int(of_op.argmax())])


def per_step(evidence: Mapping[str, str | int | float], steps: int) -> Evidence:
    """Return counts and sizes as means of a step."""
    return {
        f"{key}_per_step" if key in _COUNTED else key: (
            round(float(value) / max(steps, 1), 2) if key in _COUNTED else value
        )
        for key, value in evidence.items()
    }


_COUNTED = frozenset({"calls", "copies", "size_bytes", "collectives", "gaps"})
