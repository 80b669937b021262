"""What exposed communication is of: operation, size of messages, and their time at best."""

import numpy as np
import pandas as pd

from profkit.analyze.division.known_names import CALLING
from profkit.analyze.division.partition import spans_of, union_of_rows
from profkit.analyze.division.recorded_rank import STARTING_NS, RecordedRank
from profkit.analyze.shared import intervals
from profkit.analyze.shared.glob_match import categorical, matching, texts
from profkit.analyze.shared.intervals import Intervals
from profkit.analyze.shared.step_windows import grouped
from profkit.core.verdict import Evidence

COLUMNS = ("kind", "operation", "group", "size_bytes", "dtype", "start_ns", "end_ns")
"""Of `collectives`, besides rank and repeat."""

_SIZE = "size_bytes"
_ALIKE = ("operation", "group", _SIZE, "dtype")
_MOSTLY = 0.5
_NUMBERS = 2
_FAR_LONGER = 20
_FEWEST = 3
"""Calls alike of which the fastest says what the others could take."""
_OF_TRAINING = ("backward", "optimizer")
_TRAINS = ("*Backward*", "Optimizer.*")
_LIBRARIES = {
    "FSDP": ("FSDP::*", "FullyShardedDataParallel*", "*torch/distributed/fsdp/*"),
    "ZeRO": ("*deepspeed/*", "DeepSpeed*"),
    "DDP": ("DistributedDataParallel*",),
}
"""Names of ranges and Python functions of what spreads a model over ranks."""
NO_LIBRARY = "none"


def on_gpu(rank: RecordedRank) -> Intervals:
    """Return the time of a rank in kernels of communication, as a union."""
    return union_of_rows(rank.kernels, (rank.kernels["kind"] == "communication").to_numpy())


def connecting(rank: RecordedRank) -> Intervals:
    """Return the first communication kernel where it takes far longer than the others: a start.

    None in a later step than the first, before which ranks have communicated already.
    """
    rows = np.flatnonzero((rank.kernels["kind"] == "communication").to_numpy())
    is_later = bool((rank.periods["step"] > 0).any())
    if len(rank.periods) > 1 or is_later or len(rows) < _FEWEST:
        return intervals.nothing()
    spans = rank.kernel_spans[rows]
    length = spans[:, 1] - spans[:, 0]
    first = int(spans[:, 0].argmin())
    is_start = length[first] > max(STARTING_NS, _FAR_LONGER * int(np.median(length)))
    return spans[first : first + 1] if is_start else intervals.nothing()


def communicated(rank: RecordedRank, rows: pd.DataFrame, spans: Intervals) -> Evidence:
    """Return the operation that most of the exposed communication `spans` is of.

    And whether the CPU carries it out, all that the rank recorded is inference, and what spreads
    its model over ranks; `rows` are its collectives.
    """
    exposed = pd.Series(intervals.overlap(spans_of(rows), spans), index=rows.index)
    by_operation = exposed.groupby(texts(rows["operation"])).sum().drop("", errors="ignore")
    if not by_operation.sum():
        return {}
    is_on_cpu = (rows["kind"] == "host").to_numpy()
    ops = rank.ops if rank.parts_of_ops is None else rank.ops.iloc[:0]
    trains = ops["phase"].isin(_OF_TRAINING) | matching(ops["name"], _TRAINS)
    return {
        "operation": str(by_operation.idxmax()),
        "operation_share": round(float(by_operation.max() / by_operation.sum()), 3),
        **({"on_cpu": 1} if exposed[is_on_cpu].sum() > _MOSTLY * exposed.sum() else {}),
        **({"program": "inference"} if len(ops) and not trains.any() else {}),
        **({"library": _library(rank)} if len(ops) else {}),
        **_of_numbers(ops),
        **_of_messages(rows, exposed),
    }


def _of_numbers(ops: pd.DataFrame) -> Evidence:
    """Return how many calls there are outside of backward, if what they send is read as numbers."""
    own = matching(ops["name"], CALLING) & (ops["phase"] != "backward").to_numpy()
    numbers = int(matching(ops["name"], ("aten::item",)).sum())
    return {"calls": int(own.sum())} if 0 < own.sum() <= _NUMBERS * numbers else {}


def _library(rank: RecordedRank) -> str:
    """Return what spreads a model over ranks, as far as it is known and was recorded."""
    names = (rank.ops["name"], rank.python["name"])
    used = (key for key, of in _LIBRARIES.items() if any(matching(one, of).any() for one in names))
    return next(used, NO_LIBRARY)


def _of_messages(rows: pd.DataFrame, exposed: "pd.Series[int]") -> Evidence:
    """Return the size of the message that most time is of, and what calls take at best.

    Nothing where that size was not recorded: then no two calls are known to be alike.
    At best is the share of their time that is left if each is as fast as the fastest of its kind
    and size, and the time of the fastest of those that take most.
    """
    span = spans_of(rows)
    length, times = span[:, 1] - span[:, 0], exposed.to_numpy(np.int64)
    # Numbered by value: to group by columns of text takes pandas milliseconds a rank.
    values = [categorical(rows[name]).codes if name != _SIZE else rows[name] for name in _ALIKE]
    alike, head = grouped([np.asarray(value) for value in values])
    fastest = np.full(len(head), np.iinfo(np.int64).max)
    np.minimum.at(fastest, alike, length)
    sizes = rows[_SIZE].to_numpy(np.int64)
    has_few = (np.bincount(alike)[alike] < _FEWEST) | (sizes < 0)
    at_best = np.where(has_few, times, np.minimum(times, fastest[alike]))
    # Many small calls of a kind may take more than the longest of all.
    of_kind = np.bincount(alike, weights=times)
    most = int(np.where(of_kind[alike] == of_kind.max(), times, -1).argmax())
    if sizes[most] < 0:
        return {}
    return {
        "at_best_share": round(float(at_best.sum() / times.sum()), 3),
        "fastest_ns": int(fastest[alike[most]]),
        "message_bytes": int(sizes[most]),
        **({"dtype": dtype} if (dtype := str(texts(rows["dtype"])[most])) else {}),
    }
