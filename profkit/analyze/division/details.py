"""The causes of one rank as a tree: what each consists of, where it is, and its numbers."""

import glob
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.division import charges, cpu, gpu, names, places, thread_waits
from profkit.analyze.division.communicated import communicated, on_gpu
from profkit.analyze.division.cpu_threads import NOT_RECORDED, PYTHON
from profkit.analyze.division.in_threads import Spent, Sums
from profkit.analyze.division.late_launches import covering_ns
from profkit.analyze.division.partition import Partition
from profkit.analyze.division.recorded_rank import RecordedRank
from profkit.analyze.division.request_waits import NO_REQUEST
from profkit.analyze.shared import calltree, intervals
from profkit.analyze.shared.blocking_calls import may_be_start
from profkit.analyze.shared.glob_match import matching, texts
from profkit.analyze.shared.intervals import Intervals
from profkit.core.verdict import Evidence
from profkit.patterns.short_kernels import SHORT_GAP_NS

OTHER = "other"
LINE = "line"
"""In the evidence of the largest operator: where it is called most, or what it is the gradient of.
"""
IN_OPERATORS = "in_operators_share"
"""What part of the time in Python and dispatch operators of the CPU take, 0 to 1."""

OF_OPERATOR = "operator_share"
"""What part of it the operator with most of it takes, 0 to 1."""

LAUNCHES = "is_launching"
"""Whether that operator launches work for the GPU, here or elsewhere."""

SHORT_GAPS = "short_gaps_share"
"""What part of it lies in gaps of the GPU that many launches leave, 0 to 1."""

IN_COMMUNICATION = "in_communication_share"
"""What part of it the GPU communicates, with nothing launched that could follow, 0 to 1."""

COVERS = "only_hides_launching_share"
"""What part of computing only covers that the CPU launches meanwhile, 0 to 1."""

_BETWEEN_KERNELS_NS = 5_000
"""The GPU takes 0.5 to 3 us from one kernel to the next that is there already."""

AT_PLACE = "at_place_share"
"""What part of it is at its place, 0 to 1."""

_MOST_PARTS = 8
_LEAST_PART = 0.01
_PLACE_SHARE = 0.2


@dataclass(kw_only=True)
class Detail:
    """One cause of one rank and repeat, in ns over all its periods."""

    time_ns: int
    place: str = ""
    evidence: Evidence = field(default_factory=dict)


def details(rank: RecordedRank, time: Partition, spent: Mapping[str, Spent]) -> dict[str, Detail]:
    """Return the causes of `time` by id, with those that each consists of.

    `spent` says for those of CPU threads where these spent it.
    """
    rank.tidy()
    whole = intervals.total(intervals.union(rank.windows))
    found = undetailed(time)
    worth = [name for name, detail in found.items() if detail.time_ns > _LEAST_PART * whole]
    work, calls = charges.of_kernels(rank, time), charges.of_calls(rank, time)
    for name in worth:
        rank.tidy()
        detail = found[name]
        if name == gpu.COMPUTING:
            own = np.where((rank.kernels["kind"] == "compute").to_numpy(), work, 0)
            found |= _computed(rank, detail, own, whole)
            covering = covering_ns(rank, time.spans(name))
            detail.evidence |= {COVERS: round(covering / detail.time_ns, 3)}
        elif name == cpu.COMPUTING:
            found |= _operated(detail, spent[name], whole)
        elif name.endswith(f"{gpu.EXPOSED}.waiting"):
            detail.evidence = _waited_for(rank.collectives)
        elif name.startswith(f"{gpu.EXPOSED}.") and rank.communication is not None:
            detail.evidence = communicated(rank, rank.communication, time.spans(name))
            on_cpu = spent[name].places if name in spent else []
            detail.place = _place(on_cpu, detail.time_ns)
        elif name.startswith("exposed_copies."):
            _copied(rank, work, name, detail)
        elif name.endswith(NOT_RECORDED):
            _locate(detail, places.by_range(rank, time.spans(name)))
        elif names.is_of_call(name):
            detail.place = _place(spent[name].places, detail.time_ns)
            _blocked(rank, calls, name, detail)
        elif name in spent and not name.endswith(NO_REQUEST):
            found |= _spent(rank, spent[name], name, detail, time.spans(name), whole)
    return found


def _computed(
    rank: RecordedRank, detail: Detail, own: NDArray[np.int64], whole: int
) -> dict[str, Detail]:
    """Say where kernels computed, each for its `own` time; return what the cause consists of."""
    of_ops = Sums()
    of_ops.add(rank.kernel_labels, own)
    _locate(detail, places.of_ops(rank, _of_ops(rank, own)))
    return _parts(gpu.COMPUTING, detail.time_ns, of_ops, whole)


def _spent(  # noqa: PLR0913, PLR0917 - a cause, and what is known of it
    rank: RecordedRank, spent: Spent, name: str, detail: Detail, spans: Intervals, whole: int
) -> dict[str, Detail]:
    """Say where a thread spent time without operators; return what the cause consists of."""
    detail.place = _place(spent.places, detail.time_ns)
    if name.rpartition(".")[2] != PYTHON:
        detail.evidence = _evidence(rank, name, spans)
        return {}
    detail.evidence = _outside(rank, spans, spent.names)
    return _lines(name, detail.time_ns, spent.places, whole)


def _copied(rank: RecordedRank, work: NDArray[np.int64], name: str, detail: Detail) -> None:
    """Say which copies a cause is, and where most of their `work` was asked for."""
    rows = rank.copy_names == name.partition(".")[2]
    detail.place = _place(places.of_ops(rank, _of_ops(rank, work * rows)), detail.time_ns)
    detail.evidence = _copies(rank, rows & (work > 0))


def _operated(detail: Detail, spent: Spent, whole: int) -> dict[str, Detail]:
    """Say where operators computed on the CPU; return what the cause consists of."""
    _locate(detail, spent.places)
    found = _parts(cpu.COMPUTING, detail.time_ns, spent.names, whole)
    for largest in [*found.values()][:1]:
        line = _place(spent.of_largest, largest.time_ns)
        largest.evidence |= {LINE: line} if ".py(" in line else {}
    return found


def undetailed(time: Partition) -> dict[str, Detail]:
    """Return the causes of `time` by id, without what they consist of."""
    return {name: Detail(time_ns=intervals.total(time.spans(name))) for name in time.parts}


def _parts(above: str, total: int, of: Sums, whole: int) -> dict[str, Detail]:
    """Return what `above` consists of by label, the rest together; they sum to the total."""
    ordered = sorted(of.ns.items(), key=lambda part: (-part[1], part[0]))
    kept = [(label, ns, of.calls[label]) for label, ns in ordered if ns > _LEAST_PART * whole]
    return _summing(above, total, kept[:_MOST_PARTS])


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


def _locate(detail: Detail, found: list[places.Place]) -> None:
    """Say where most of a cause is, if it is much of it, and what part of it is there."""
    detail.place = _place(found, detail.time_ns)
    if detail.place:
        detail.evidence[AT_PLACE] = round(min(found[0][1] / detail.time_ns, 1.0), 3)


def _of_ops(rank: RecordedRank, time: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the `time` of kernels summed over their operators."""
    return calltree.sums(rank.kernel_ops, time, len(rank.ops))


def _waited_for(rows: pd.DataFrame) -> Evidence:
    """Return which other rank is waited for most in the collectives `rows`."""
    rows = rows[(rows["late_rank"] != rows["rank"]).to_numpy()]
    if rows.empty:
        return {}
    waited = rows.groupby("late_rank")["wait_ns"].sum().sort_values(ascending=False)
    first, most = int(waited.index.to_numpy()[0]), float(waited.iloc[0])
    return {
        "late_rank": first,
        "waiting_for_it_share": round(most / max(float(waited.sum()), 1.0), 3),
        "collectives": len(rows),
    }


def _outside(rank: RecordedRank, spans: Intervals, working: Sums) -> Evidence:
    """Return how the time of Python and dispatch is spread, and the operator with most of it."""
    total = max(intervals.total(spans), 1)
    length = spans[:, 1] - spans[:, 0]
    evidence: Evidence = {
        "gaps": len(spans),
        "longest_ns": int(length.max()),
        SHORT_GAPS: round(float(length[length < SHORT_GAP_NS].sum()) / total, 3),
        IN_OPERATORS: round(working.ns.total() / total, 3),
    }
    if inside := int(intervals.overlap(spans, on_gpu(rank)).sum()):
        evidence |= {IN_COMMUNICATION: round(inside / total, 3)}
    if working.ns:
        operator, time = max(working.ns.items(), key=lambda part: (part[1], part[0]))
        evidence |= {"operator": operator, OF_OPERATOR: round(time / total, 3)}
        evidence |= {LAUNCHES: True} if _launches(rank, operator) else {}
    return evidence


def _launches(rank: RecordedRank, operator: str) -> bool:
    """Tell whether an operator of this name, or one below it, launches work for the GPU."""
    launched = np.ones(len(rank.kernels), dtype=np.int64)
    below = calltree.subtree_sums(rank.kernel_ops, launched, rank.op_parents)
    return bool(below[matching(rank.ops["name"], (glob.escape(operator),))].any())


def _evidence(rank: RecordedRank, name: str, spans: Intervals) -> Evidence:
    """Return what held up the CPU, or the GPU, in a cause."""
    if name.endswith(".not_started"):
        return _blocked_meanwhile(rank, spans)
    return thread_waits.evidence(rank, name, spans) if name.endswith(thread_waits.CAUSES) else {}


def _blocked_meanwhile(rank: RecordedRank, spans: Intervals) -> Evidence:
    """Return what held up what had been launched.

    That it only goes from kernel to kernel, where most of the time lies in gaps as short as that;
    the call in which the CPU waited; or how many streams the GPU has, and how long it waited.
    """
    lengths = np.sort(spans[:, 1] - spans[:, 0])
    middle = int(lengths[np.searchsorted(np.cumsum(lengths), lengths.sum() / 2)])
    if middle < _BETWEEN_KERNELS_NS:
        return {"gaps": len(lengths), "between_kernels_ns": middle}
    inside = np.where(rank.blocked, intervals.overlap(rank.call_spans, spans), 0)
    if not len(inside) or inside.max() < _PLACE_SHARE * intervals.total(spans):
        streams = rank.kernels[["device", "stream"]].drop_duplicates()
        longest = int((spans[:, 1] - spans[:, 0]).max())
        return {"streams": len(streams), "longest_ns": longest}
    return {"blocked_in": str(rank.calls["name"].iloc[int(inside.argmax())])}


def _copies(rank: RecordedRank, rows: NDArray[np.bool_]) -> Evidence:
    size = int(rank.kernels["size_bytes"].to_numpy(np.int64)[rows].clip(min=0).sum())
    return {"copies": int(rows.sum()), **({"size_bytes": size} if size else {})}


def _blocked(rank: RecordedRank, charged: NDArray[np.int64], name: str, detail: Detail) -> None:
    """Say in which calls the time is, how many there are, and the line that made them."""
    call = name.rpartition(".")[2]
    named = (texts(rank.calls["name"]) == call) & rank.blocked
    rows = named & (intervals.overlap(rank.call_spans, intervals.union(rank.windows)) > 0)
    ops = rank.calls["op"].to_numpy(np.int64)
    row = calltree.positions(rank.ops["op"].to_numpy(np.int64), ops)
    weights = np.where(rows & (ops >= 0), np.maximum(charged, 1), 0)
    of_op = calltree.sums(np.where(ops >= 0, row, -1), weights, len(rank.ops))
    detail.place = detail.place or places.shown(places.of_ops(rank, of_op), 1)
    length = (rank.calls["end_ns"] - rank.calls["start_ns"]).to_numpy(np.int64)[rows]
    detail.evidence = {
        "calls": int(rows.sum()),
        "longest_call_ns": int(length.max()) if len(length) else 0,
    }
    if "Kernel" in call and len(rank.kernels):
        launched = rank.launched["call"].to_numpy(np.int64)
        loads = may_be_start(rank.calls, rank.kernels, launched)
        detail.evidence["first_launches"] = int((rows & loads).sum())
    if of_op.any():
        detail.evidence["operator"] = str(rank.ops["name"].iloc[int(of_op.argmax())])


def per_step(evidence: Mapping[str, str | int | float | bool], steps: int) -> Evidence:
    """Return counts and sizes as means of a step."""
    return {
        f"{key}_per_step" if key in _COUNTED else key: (
            round(float(value) / max(steps, 1), 2) if key in _COUNTED else value
        )
        for key, value in evidence.items()
    }


_COUNTED = frozenset({"calls", "copies", "size_bytes", "collectives", "gaps"})
