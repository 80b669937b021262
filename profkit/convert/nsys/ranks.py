"""Which process of a report is which rank: a report around a launcher holds several."""

import json
import re
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profkit.convert.nsys.report import Report, pid_of
from profkit.convert.nsys.store import Ints

_MARK = re.compile(r"rank#(\d{1,9})")
_JOINS = "ncclCommInitRank"


def ranks(report: Report, rank: int) -> dict[int, int]:
    """Return the rank of each process that is one; a single one is `rank`.

    Of several, the ranks are those in the marks that profkit sets, or else what MPI says, or what
    NCCL records when they join a communicator of all, or else follow the devices, which is a guess
    and noted.
    """
    if marked := _marked(report):
        return marked if len(marked) > 1 else dict.fromkeys(marked, rank)
    pids = report.working_pids.tolist() or _most_active(report)
    if len(pids) <= 1:
        return dict.fromkeys(pids, rank)
    if stated := _of_mpi(report, pids) or _joined(report, pids):
        return stated
    report.notes.append(
        f"The report holds {len(pids)} processes with work on devices and does not say which rank"
        " each is: they are numbered by device."
    )
    return {pid: rank + index for index, pid in enumerate(pids)}


def _marked(report: Report) -> dict[int, int]:
    nvtx = report.nvtx
    rows = nvtx.marks
    pids = pid_of(nvtx.columns["globalTid"][rows]).tolist()
    found = [_MARK.fullmatch(nvtx.texts[row]) for row in rows.tolist()]
    return {pid: int(mark[1]) for pid, mark in zip(pids, found, strict=True) if mark}


def _of_mpi(report: Report, pids: list[int]) -> dict[int, int]:
    """Return the ranks in ``MPI_COMM_WORLD``, if it has all of `pids` as different ranks."""
    rows = report.store.ints("MPI_RANKS", ["globalTid", "rank"])
    every = dict(zip(pid_of(rows["globalTid"]).tolist(), rows["rank"].tolist(), strict=True))
    found = {pid: every[pid] for pid in pids if pid in every}
    return found if len(set(found.values())) == len(pids) else {}


def _joined(report: Report, pids: list[int]) -> dict[int, int]:
    """Return the ranks in the largest communicator, if it has all of `pids` as different ranks."""
    nvtx = report.nvtx
    sizes: dict[int, tuple[int, int]] = {}
    for row in nvtx.ranges.tolist():
        if nvtx.texts[row].startswith(_JOINS):
            stated = payload(nvtx.payloads[row])
            pid = int(pid_of(nvtx.columns["globalTid"][row : row + 1])[0])
            size, rank = stated.get("No. of ranks"), stated.get("Rank")
            if isinstance(size, int) and isinstance(rank, int):
                sizes[pid] = max(sizes.get(pid, (0, 0)), (size, rank))
    found = {pid: rank for pid, (_, rank) in sizes.items() if pid in pids}
    return found if len(found) == len(pids) == len(set(found.values())) else {}


def payload(text: str) -> dict[str, Any]:
    """Return the object in the JSON of a payload; empty if it is none."""
    if not text.startswith("{"):
        return {}
    try:
        stated = json.loads(text)
    except ValueError:
        return {}
    return stated if isinstance(stated, dict) else {}


def _most_active(report: Report) -> list[int]:
    """Return the process with most NVTX ranges, or else with most calls of the system."""
    for table in ("NVTX_EVENTS", "OSRT_API", "CUPTI_ACTIVITY_KIND_RUNTIME"):
        pids = pid_of(report.store.ints(table, ["globalTid"])["globalTid"])
        counts = Counter(pids[pids > 0].tolist())
        if counts:
            return [counts.most_common(1)[0][0]]
    return []


def belongs(pids: Ints, own: int, every: dict[int, int]) -> NDArray[np.bool_]:
    """Return whether the rows of each process in `pids` are those of rank `own`.

    Processes that are no rank were started by one; with several ranks it is unknown by which.
    """
    mine = np.array([pid for pid, rank in every.items() if rank == own], dtype=np.int64)
    if len(set(every.values())) <= 1:
        return np.ones(len(pids), dtype=np.bool_)
    return np.isin(pids, mine)
