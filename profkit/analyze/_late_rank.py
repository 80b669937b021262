"""What the rank that comes last does while the others wait for it."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from profkit.analyze._compared_ranks import WAITING, Compared
from profkit.analyze._late_advice import ALSO, IN_ONE_OF, MUTUAL, REMEDY, late_rank, remedy
from profkit.analyze.division import gpu, names
from profkit.analyze.division.cpu_threads import BLOCKED, NOT_RECORDED, PYTHON
from profkit.analyze.division.details import OTHER
from profkit.analyze.division.phases import inside
from profkit.analyze.shared.late_hosts import late_ranks
from profkit.core.formatting import milliseconds
from profkit.core.result import Result
from profkit.core.verdict import Cause, Evidence

OF_SOME_RANKS = "the straggler of "
"""Beginning of what is not known where some ranks were not recorded."""

STAGES = "is_of_stages"
"""Evidence on communication between ranks that send to one another, all of which were recorded."""

_UNSEEN = "in which nothing was recorded"
_ALLOCATING = ("cudaMalloc", "cudaFree", "hipMalloc", "hipFree")
_COMPUTING = ("gpu_computing", "cpu_operators")
_SENDING = ("send", "recv", "sendrecv")
_PYTHON = f"{gpu.IDLE}.{PYTHON}"
_ON_CPU = (_PYTHON, PYTHON, NOT_RECORDED, f"{gpu.IDLE}.{NOT_RECORDED}")
_UNEQUAL, _EQUAL = 1.2, 0.02
_EXPLAINS = 0.3
_MOST = 0.5
_IN_TURN = 0.3
_NEARLY = 0.125


def is_last_recorded(stragglers: Result | None, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Say whether `rows` are of the rank, among others, that comes last of all ranks there are.

    Marks of all ranks show it, where traces leave ranks out.
    """
    if stragglers is None or "by_rank" not in stragglers.tables:
        return False
    if any(missing.what.startswith(OF_SOME_RANKS) for missing in stragglers.abstentions):
        return False
    ranks = [row["rank"] for row in stragglers.tables["by_rank"].records()]
    traced = {row["rank"] for row in rows}
    return len(ranks) > len(traced) and ranks[0] in traced


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
            did, of = _more(theirs, mine, rank, cause.ms_per_step, known)
            of_steps = known.mostly_in_one_of(of, int(late), rank) if of else 0
            did += f", mostly in 1 of {of_steps} steps" if of_steps else ""
            more = _for_each_other(cause, theirs, rank) or _also_late(cause, rows, int(late))
            more |= {"late_because": did or _begun_late(int(late), known, alone=ALSO not in more)}
            more |= _late_host(int(late), known.stragglers)
            more |= {REMEDY: text} if (text := remedy(of)) else {}
            if of_steps := of_steps or known.mostly_in_one_of(WAITING, rank, int(late)):
                more |= {IN_ONE_OF: of_steps}
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
    """Return the share of `waiting` in that of two ranks, where the late one waits for long too.

    It waits for this `rank` then, so that none of them is the late one.
    """
    for row in theirs:
        evidence = json.loads(row["evidence"]) if row["id"] == WAITING else {}
        least_ms = _IN_TURN * waiting.ms_per_step
        if evidence.get("late_rank") == rank and row["ms_per_step"] >= least_ms:
            of_both = waiting.ms_per_step + row["ms_per_step"]
            return {
                MUTUAL: 1,
                "waiting_for_it_share": round(waiting.ms_per_step / of_both, 3),
            }
    return {}


def _also_late(waiting: Cause, rows: Sequence[Mapping[str, Any]], late: int) -> Evidence:
    """Return which other ranks hardly wait for the `late` one, as they are late too.

    To fix one alone would leave the others waiting for these. Not where that is half of the ranks,
    nor where ranks come one after another, and the last one later than each.
    """
    waits = dict.fromkeys((row["rank"] for row in rows), 0.0)
    waits |= {row["rank"]: row["ms_per_step"] for row in rows if row["id"] == WAITING}
    others = sorted((ms / waiting.ms_per_step, rank) for rank, ms in waits.items() if rank != late)
    also = [rank for share, rank in others if share < _NEARLY]
    are_apart = all(share < _NEARLY or share > _MOST for share, _ in others)
    is_few = len(also) > 0 and 2 * (len(also) + 1) <= len(waits)
    return {ALSO: ", ".join(map(str, also))} if is_few and are_apart else {}


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
    theirs: Sequence[Mapping[str, Any]],
    mine: Sequence[Cause],
    rank: int,
    waiting_ms: float,
    known: Compared,
) -> tuple[str, str]:
    """Return what the late rank spends most more time on than `rank`, in words, and its id.

    "" for both where that is nothing.

    Of a cause and its parts it is the part where that has most of the difference: what is left
    over has no name. Launching shows less in a rank that waits, which does it meanwhile.
    """
    own = {cause.id: cause.ms_per_step for cause in mine}
    late_ms = known.behind(theirs[0]["rank"])[1] if theirs else 0.0
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
    if most < max(_EXPLAINS * waiting_ms, late_ms):
        return "", ""
    large = [name for name, (ms, _) in more.items() if ms >= _MOST * most]
    cause = max(large, key=lambda name: (name.count("."), more[name][0]))
    return _than(rank, *more[cause], known), cause


def _than(rank: int, ms: float, row: Mapping[str, Any], known: Compared) -> str:
    """Return in words how much longer, in `ms`, a cause of another rank is than that of `rank`."""
    cause = str(row["id"])
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


def _begun_late(late: int, known: Compared, *, alone: bool) -> str:
    """Return what is known of a rank that comes last with no part of its step being longer."""
    late_ms = known.behind(late)[1]
    who = "it" if alone else f"rank {late}"
    if not late_ms:
        return f"{who} may have begun late, as no part of its step is that much longer"
    return f"{who} was {milliseconds(late_ms)} ms late before its step began"


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
