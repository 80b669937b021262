"""What is said of waiting for other ranks, and what to do about it."""

from collections.abc import Iterable, Iterator

from profkit.analyze.division import gpu, names
from profkit.core.verdict import Cause, Trust

ALSO = "also_late"
"""Evidence on other ranks that are late, where the one that is last is not alone: latest first."""

IN_ONE_OF = "in_one_of_steps"
"""Evidence on what is mostly so in a single step: of how many."""

MUTUAL = "is_mutual"
"""Evidence on two ranks that wait for each other: maybe by chance, as none is the late one."""

REMEDY = "late_remedy"
"""Evidence on a late rank: what to do about it, where its cause has a remedy."""

_REMEDIES = (
    ("loading_data", "Load there in workers (`num_workers`), or share out equally what is read."),
    (
        "waiting_for_thread",
        "Move that work to a process (`multiprocessing`), or let it sleep between its pieces.",
    ),
    (
        "garbage_collection",
        "Collect at the same step on all ranks: `gc.disable()`, and `gc.collect()` every 1,000.",
    ),
)
"""By a part of the id of a cause."""

_NOT_STARTED = names.lower(names.title(f"{gpu.IDLE}.not_started"))
_MOST = 0.5
_MUCH = 0.1
_NEARLY_ALL = 0.95


def of_late_rank(causes: Iterable[Cause]) -> Iterator[Trust]:
    """Yield the check that fails if one step decides which rank comes last, or by what."""
    for cause in causes:
        late, steps = late_rank(cause), int(cause.evidence.get(IN_ONE_OF, 0))
        if late is not None and steps and cause.share >= _MUCH:
            message = (
                f"What makes rank {late} late is mostly in 1 of {steps} steps: record more steps "
                "to see whether it is in others too."
            )
            yield Trust(check="late rank", passed=False, message=message)


def remedy(cause: str) -> str:
    """Return what to do about what makes a rank late, by the id of that; "" if that says it all."""
    return next((text for part, text in _REMEDIES if part in cause.split(".")), "")


_SAME = " Its FLOPs are those of others: its cores or GPU may be slower, or shared."


def late_rank(waiting: Cause) -> int | None:
    """Return the rank that comes last for most of the time; None if ranks do so in turn."""
    late = waiting.evidence.get("late_rank")
    is_mostly = float(waiting.evidence.get("waiting_for_it_share", 1.0)) >= _MOST
    is_one = is_mostly and not waiting.evidence.get(MUTUAL)
    return int(late) if is_one and late is not None else None


def late_place(waiting: Cause) -> str | None:
    """Return what others wait for in words: a whole host, or a rank; None if ranks in turn."""
    if waiting.evidence.get("is_whole_host"):
        return f"host {waiting.evidence['late_host']}"
    late = late_rank(waiting)
    if late is not None and (also := waiting.evidence.get(ALSO)):
        *some, last = [str(late), *str(also).split(", ")]
        return f"ranks {', '.join(some)} and {last}"
    return None if late is None else f"rank {late}"


def late_part(waiting: Cause) -> str:
    """Return for whom others wait, and for how much of the time if that is not all of it."""
    if (late := late_place(waiting)) is None:
        return " for other ranks in turn"
    share = float(waiting.evidence.get("waiting_for_it_share", 1.0))
    is_all = share >= _NEARLY_ALL or ALSO in waiting.evidence or late_rank(waiting) is None
    return f" for {late}" if is_all else f", {share:.0%} of it for {late}"


def late_advice(cause: Cause) -> str:
    """Return what to do about waiting for other ranks."""
    late = late_place(cause)
    if late is not None:
        did = str(cause.evidence.get("late_because", ""))
        if times := cause.evidence.get("flops_ratio"):
            return (
                f"Give all ranks equal work: {late} {'have' if ALSO in cause.evidence else 'has'} "
                f"{times:.3g} times the FLOPs of others, as "
                f"with longer sequences, larger batches or more layers; {did}."
            )
        is_same = did[:1].isdigit() and cause.evidence.get("is_same_work")
        first = f"Fix {late} first{f': {did}' if did else ''}.{_SAME if is_same else ''}"
        if host := cause.evidence.get("late_host"):
            return f"{first} Host {host}: {cause.evidence['late_ranks_of_host']}."
        return " ".join(filter(None, (first, str(cause.evidence.get(REMEDY, "")))))
    share = f"{float(cause.evidence.get('waiting_for_it_share', 0.0)):.0%}"
    rank, did = cause.evidence.get("late_rank"), str(cause.evidence.get("late_because", ""))
    known = f"rank {rank} has {did}" if did[:1].isdigit() else ""
    if cause.evidence.get(MUTUAL):
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
