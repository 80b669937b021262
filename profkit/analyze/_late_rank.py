"""What the rank that comes last does while the others wait for it."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from profkit.analyze.division import gpu, names
from profkit.analyze.division.cpu_threads import BLOCKED, NOT_RECORDED, PYTHON
from profkit.analyze.division.details import OTHER
from profkit.analyze.division.phases import inside
from profkit.analyze.shared.late_hosts import late_ranks
from profkit.core.formatting import milliseconds
from profkit.core.result import Result
from profkit.core.verdict import Cause, Evidence

WAITING = f"{gpu.EXPOSED}.waiting"
OF_SOME_RANKS = "the straggler of "
"""Beginning of what is not known where some ranks were not recorded."""

STAGES = "is_of_stages"
"""Evidence on communication between ranks that send to one another, all of which were recorded."""

_ALSO = "also_late"
"""Evidence on other ranks that are late, where the one that is last is not alone."""

_NOT_STARTED = names.lower(names.title(f"{gpu.IDLE}.not_started"))
_UNSEEN = "in which nothing was recorded"
_ALLOCATING = ("cudaMalloc", "cudaFree", "hipMalloc", "hipFree")
_COMPUTING = ("gpu_computing", "cpu_operators")
_SENDING = ("send", "recv", "sendrecv")
_PYTHON = f"{gpu.IDLE}.{PYTHON}"
_ON_CPU = (_PYTHON, PYTHON, NOT_RECORDED, f"{gpu.IDLE}.{NOT_RECORDED}")
BEFORE, _IN = "before the step", "in "
"""Since when a rank is late; what it is late in."""

_MS = 1e6
_UNEQUAL, _EQUAL = 1.2, 0.02
_EXPLAINS = 0.3
_MOST = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """What is known of all ranks beside their causes."""

    stragglers: Result | None
    flops: Result | None
    launching_ms: Mapping[int, tuple[float, float]]
    """How long the CPU of each rank works in a step to launch, at least and at most."""

    @classmethod
    def of(cls, causes: Result, stragglers: Result | None, flops: Result | None) -> Self:
        """Return what is known of the ranks of `causes`."""
        rows = causes.tables["ranks"].records() if "ranks" in causes.tables else ()
        times = {
            row["rank"]: (
                (row.get("launching_least_ns") or 0.0) / _MS,
                (row.get("launching_most_ns") or 0.0) / _MS,
            )
            for row in rows
        }
        return cls(stragglers=stragglers, flops=flops, launching_ms=times)

    def launches_more_ms(self, late: int, rank: int) -> float:
        """Return how much longer the CPU of the `late` rank works than that of another one."""
        if late not in self.launching_ms or not any(self.launching_ms[late]):
            return math.inf  # there is no GPU
        pairs = zip(self.launching_ms[late], self.launching_ms[rank], strict=True)
        return max(more - own for more, own in pairs)

    def behind(self, late: int) -> tuple[str, float]:
        """Return in what the CPU of a rank falls behind, and how late it begins steps in ms.

        "" and 0 where that is not so for most of the waiting that it causes.
        """
        tables = self.stragglers.tables if self.stragglers else {}
        rows = [
            row
            for row in (tables["causes"].records() if "causes" in tables else ())
            if row["rank"] == late and row["since"]
        ]
        waits: dict[str, float] = {}
        for row in rows:
            where = row["fell_behind_in"] if row["place"] == "host" else ""
            key = BEFORE if row["since"] == BEFORE else f"{_IN}{where}"
            waits[key] = waits.get(key, 0.0) + row["caused_wait_ns"]
        most = max(waits, key=lambda key: waits[key], default="")
        if not waits or waits[most] < _MOST * sum(waits.values()):
            return "", 0.0
        if most == BEFORE:
            return "", max(row["late_ns"] for row in rows if row["since"] == BEFORE) / _MS
        return most.removeprefix(_IN), 0.0


def late_rank(waiting: Cause) -> int | None:
    """Return the rank that comes last for most of the time; None if ranks do so in turn."""
    late = waiting.evidence.get("late_rank")
    is_mostly = float(waiting.evidence.get("waiting_for_it_share", 1.0)) >= _MOST
    is_one = is_mostly and not waiting.evidence.get("is_mutual")
    return int(late) if is_one and late is not None else None


def late_place(waiting: Cause) -> str | None:
    """Return what others wait for in words: a whole host, or a rank; None if ranks in turn."""
    if waiting.evidence.get("is_whole_host"):
        return f"host {waiting.evidence['late_host']}"
    late = late_rank(waiting)
    if late is not None and (also := waiting.evidence.get(_ALSO)):
        return f"ranks {late} and {also}"
    return None if late is None else f"rank {late}"


def late_advice(cause: Cause) -> str:
    """Return what to do about waiting for other ranks."""
    late = late_place(cause)
    if late is not None:
        did = str(cause.evidence.get("late_because", ""))
        if times := cause.evidence.get("flops_ratio"):
            return (
                f"Give all ranks equal work: {late} {'have' if _ALSO in cause.evidence else 'has'} "
                f"{times:.3g} times the FLOPs of others, as "
                f"with longer sequences, larger batches or more layers; {did}."
            )
        is_same = did[:1].isdigit() and cause.evidence.get("is_same_work")
        same = ", with the same FLOPs as others" if is_same else ""
        first = f"Fix {late} first{f': {did}{same}' if did else ''}."
        if host := cause.evidence.get("late_host"):
            return f"{first} Host {host}: {cause.evidence['late_ranks_of_host']}."
        return first
    share = f"{float(cause.evidence.get('waiting_for_it_share', 0.0)):.0%}"
    rank, did = cause.evidence.get("late_rank"), str(cause.evidence.get("late_because", ""))
    known = f"rank {rank} has {did}" if did[:1].isdigit() else ""
    if cause.evidence.get("is_mutual"):
        why = (
            ": see with `nvidia-smi` whether another program has the GPU"
            if _NOT_STARTED in did
            else ", as where batches differ in length, or where ranks share cores"
        )
        return (
            f"Two ranks come last in turn, each for at most {share} of the waiting"
            f"{f' ({known})' if known else ''}{why}."
        )
    what = known or "give all ranks equal work (lengths of sequences, sizes of batches, CPU cores)"
    return f"Ranks come last in turn, each for at most {share} of the waiting: {what}."


def late_title(cause: Cause) -> str:
    """Return what waiting for other ranks is called where something is to be done about it."""
    return f"Ranks wait for {late_place(cause) or 'one another'}"


def is_last_recorded(stragglers: Result | None, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Say whether `rows` are of the rank, among others, that comes last of all ranks there are.

    Marks of all ranks show it, where traces leave ranks out.
    """
    if stragglers is None or "by_rank" not in stragglers.tables:
        return False
    if any(missing.what.startswith(OF_SOME_RANKS) for missing in stragglers.abstentions):
        return False
    last = next(iter(stragglers.tables["by_rank"].records()), None)
    return last is not None and last["rank"] in {row["rank"] for row in rows}


def with_late_rank(
    mine: Sequence[Cause],
    rows: Sequence[Mapping[str, Any]],
    rank: int,
    known: Compared,
) -> list[Cause]:
    """Return the causes of `rank`, that of waiting with what the late rank did, and its host.

    What can be gained is less where the late rank has more work, which others have to do instead.
    """
    found = []
    for cause in mine:
        late = cause.evidence.get("late_rank")
        if cause.id == WAITING and late is not None and late != rank:
            theirs = [row for row in rows if row["rank"] == int(late)]
            did = _more(theirs, mine, rank, cause.ms_per_step, known)
            more: Evidence = {"late_because": did or _begun_late(int(late), known)}
            more |= _late_host(int(late), known.stragglers)
            more |= _for_each_other(cause, theirs, rank) or _also_late(cause, rows, int(late))
            cause = replace(cause, evidence=cause.evidence | more)  # noqa: PLW2901
            needed_ms, _ = known.launching_ms.get(rank, (0.0, 0.0))
            if late_rank(cause) == late:
                cause = _with_more_work(cause, rows, rank, known.flops)  # noqa: PLW2901
                needed_ms = needed_ms if did else max(needed_ms, _worked_ms(theirs))
            cause = _no_faster(cause, mine, needed_ms)  # noqa: PLW2901
        found.append(cause)
    return found


def of_stages(rows: Sequence[dict[str, Any]], rank: int) -> list[dict[str, Any]]:
    """Return the rows of the table of causes; what `rank` sends may be waiting for another one.

    Sends and receives are not matched: whom stages wait for shows in how long each works in a step.
    """
    work_ms: dict[int, float] = {}
    for row in rows:
        is_work = "." not in row["id"] and row["id"] not in (gpu.EXPOSED, gpu.IDLE)
        work_ms[row["rank"]] = work_ms.get(row["rank"], 0.0) + row["ms_per_step"] * is_work
    if len(work_ms) == 1:
        return [*rows]
    late = max(work_ms, key=lambda one: work_ms[one])
    more_ms = work_ms[late] - sum(work_ms.values()) / len(work_ms)
    is_late = late != rank and (work_ms[late] - more_ms) * _UNEQUAL < work_ms[late]
    # Where collectives were matched, it is known who waits for whom.
    is_late &= not any(row["id"] == WAITING for row in rows if row["rank"] == rank)
    return [
        _of_stage(row, {"late_rank": late} if is_late else {}, more_ms)
        if row["rank"] == rank
        else row
        for row in rows
    ]


def _of_stage(row: dict[str, Any], late: Evidence, more_ms: float) -> dict[str, Any]:
    """Return a row of the waiting rank, if it is of sending and receiving as that of stages."""
    evidence = json.loads(row["evidence"])
    is_mostly = float(evidence.get("operation_share", 0.0)) > _MOST
    if not (is_mostly and evidence["operation"] in _SENDING):
        return row
    if not late:
        return row | {"evidence": json.dumps(evidence | {STAGES: 1})}
    return row | {
        "id": WAITING,
        "title": names.title(WAITING),
        "gain_ms": min(row["gain_ms"], more_ms),
        "evidence": json.dumps(late | {STAGES: 1}),
    }


def _with_more_work(
    waiting: Cause, rows: Sequence[Mapping[str, Any]], rank: int, flops: Result | None
) -> Cause:
    """Return the cause, if the late rank computes more FLOPs for it, with what equal work gains.

    Each rank computes for as long as all do on the average then. Or with the evidence that it has
    the same.
    """
    counted = flops.tables["by_rank"].records() if flops and "by_rank" in flops.tables else ()
    work = {row["rank"]: float(row["model_flops"] or 0) for row in counted}
    late = waiting.evidence["late_rank"]
    own, most = work.get(rank, 0.0), work.get(late, 0.0)
    times = dict.fromkeys((row["rank"] for row in rows), 0.0)
    for row in rows:
        times[row["rank"]] += row["ms_per_step"] * (row["id"] in _COMPUTING)
    computing = times[rank]
    if own > 0 and abs(most / own - 1) < _EQUAL:
        return replace(waiting, evidence=waiting.evidence | {"is_same_work": 1})
    # A rank on a slow host comes last too, with about as much work as the others.
    if own <= 0 or (most / own - 1) * computing < _MOST * waiting.ms_per_step:
        return waiting
    further = max(sum(times.values()) / len(times) - computing, 0.0)
    least = max(waiting.ms_per_step - further, 0.0)
    # What stages work was compared already: a stage has more than its layers.
    gain_ms = waiting.gain_ms if STAGES in waiting.evidence else min(waiting.gain_ms, least)
    return replace(
        waiting,
        gain_ms=gain_ms,
        evidence=waiting.evidence | {"flops_ratio": round(most / own, 2)},
    )


def _for_each_other(waiting: Cause, theirs: Iterable[Mapping[str, Any]], rank: int) -> Evidence:
    """Return the share of `waiting` in that of two ranks, where the late one waits about as long.

    It waits for this `rank` then, so that none of them is the late one.
    """
    for row in theirs:
        evidence = json.loads(row["evidence"]) if row["id"] == WAITING else {}
        if evidence.get("late_rank") == rank and row["ms_per_step"] >= _MOST * waiting.ms_per_step:
            of_both = waiting.ms_per_step + row["ms_per_step"]
            return {
                "is_mutual": 1,
                "waiting_for_it_share": round(waiting.ms_per_step / of_both, 3),
            }
    return {}


def _also_late(waiting: Cause, rows: Sequence[Mapping[str, Any]], late: int) -> Evidence:
    """Return which other ranks wait for the `late` one far less than most, as they are late too.

    To fix one alone would leave the others waiting for these. Not where that is half of the ranks.
    """
    waits = dict.fromkeys((row["rank"] for row in rows), 0.0)
    waits |= {row["rank"]: row["ms_per_step"] for row in rows if row["id"] == WAITING}
    least = _MOST * waiting.ms_per_step
    also = sorted(rank for rank, ms in waits.items() if rank != late and ms < least)
    is_few = len(also) > 0 and 2 * (len(also) + 1) <= len(waits)
    return {_ALSO: ", ".join(map(str, also))} if is_few else {}


def _late_host(late: int, stragglers: Result | None) -> Evidence:
    """Return the host of the late rank, and whether that is late as a whole, where it is known."""
    if stragglers is None or "by_host" not in stragglers.tables:
        return {}
    of_rank = {row["rank"]: row["host"] for row in stragglers.tables["by_rank"].records()}
    for row in stragglers.tables["by_host"].records():
        if row["host"] == of_rank.get(late) and row["late_ranks"]:
            is_whole = row["caused_by_rank"] is None and row["late_ranks"] == row["ranks"]
            return {
                "late_host": str(row["host"]),
                "late_ranks_of_host": late_ranks(row),
                **({"is_whole_host": 1} if is_whole else {}),
            }
    return {}


def _more(
    theirs: Iterable[Mapping[str, Any]],
    mine: Sequence[Cause],
    rank: int,
    waiting_ms: float,
    known: Compared,
) -> str:
    """Return what the late rank spends most more time on than `rank`, in words; "" for nothing.

    Of a cause and its parts it is the part where that has most of the difference: what is left
    over has no name. Launching shows less in a rank that waits, which does it meanwhile.
    """
    own = {cause.id: cause.ms_per_step for cause in mine}
    more = {
        str(row["id"]): (row["ms_per_step"] - own.get(row["id"], 0.0), row)
        for row in theirs
        if not row["id"].startswith(gpu.EXPOSED) and not row["id"].endswith(f".{OTHER}")
    }
    if _PYTHON in more:
        ms, row = more[_PYTHON]
        most_ms = max(known.launches_more_ms(row["rank"], rank), 0.0)
        hidden_ms = max(ms - most_ms, 0.0)
        more |= {
            name: (ms - hidden_ms if name == gpu.IDLE else min(ms, most_ms), row)
            for name, (ms, row) in more.items()
            if name == gpu.IDLE or name.startswith(_PYTHON)
        }
    most = max((ms for ms, _ in more.values()), default=0.0)
    if most < _EXPLAINS * waiting_ms:
        return ""
    large = [name for name, (ms, _) in more.items() if ms >= _MOST * most]
    cause = max(large, key=lambda name: (name.count("."), more[name][0]))
    ms, row = more[cause]
    if thread := json.loads(row["evidence"]).get("thread"):
        words = f"{milliseconds(ms)} ms more {names.lower(row['title'])} than rank {rank}"
        return f"{words}, as another thread of it runs {thread}"
    above = names.parts_of(cause)[-2:][0]
    title = names.title(above if _is_part(cause) else cause)
    where = row["title"] if _is_part(cause) else row["place"]
    where = where or (known.behind(row["rank"])[0] if cause in _ON_CPU else "")
    what = _UNSEEN if cause.endswith(NOT_RECORDED) else names.lower(title)
    words = f"{milliseconds(ms)} ms more {what} than rank {rank}"
    words = f"{words}, {inside(where)}" if where else words
    is_full = where in _ALLOCATING and BLOCKED in cause.split(".")
    return f"{words}, as where GPU memory is full" if is_full else words


def _begun_late(late: int, known: Compared) -> str:
    """Return what is known of a rank that comes last with no part of its step being longer."""
    late_ms = known.behind(late)[1]
    if not late_ms:
        return "it may have begun late, as no part of its step is that much longer"
    return f"it was {milliseconds(late_ms)} ms late before its step began"


def _worked_ms(rows: Sequence[Mapping[str, Any]]) -> float:
    """Return what a rank needs for a step, by its causes: all but waiting for others."""
    whole_ms = sum(row["ms_per_step"] for row in rows if "." not in row["id"])
    return float(whole_ms - sum(row["ms_per_step"] for row in rows if row["id"] == WAITING))


def _no_faster(waiting: Cause, mine: Sequence[Cause], needed_ms: float) -> Cause:
    """Return the cause with a gain that leaves what is needed for a step."""
    own_ms = sum(cause.ms_per_step for cause in mine if "." not in cause.id)
    return replace(waiting, gain_ms=min(waiting.gain_ms, max(own_ms - needed_ms, 0.0)))


def _is_part(cause: str) -> bool:
    """Tell whether a cause is an operator, a call or a line of the one above."""
    depth = 2 if cause.startswith(gpu.IDLE) else 1
    return cause.count(".") >= depth
