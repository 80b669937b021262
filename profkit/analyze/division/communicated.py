"""What exposed communication is of: operation, size of messages, and their time at best."""

import numpy as np
import pandas as pd

from profkit.analyze.division.partition import spans_of
from profkit.analyze.division.recorded_rank import RecordedRank
from profkit.analyze.shared import intervals
from profkit.analyze.shared.glob_match import matching, texts
from profkit.analyze.shared.intervals import Intervals
from profkit.core.verdict import Evidence

COLUMNS = ("kind", "operation", "group", "size_bytes", "dtype", "start_ns", "end_ns")
"""Of `collectives`, besides rank and repeat."""

_ALIKE = ["operation", "group", "size_bytes", "dtype"]
_MOSTLY = 0.5
_FEWEST = 3
"""Calls alike of which the fastest says what the others could take."""
_OF_TRAINING = ("backward", "optimizer")
_TRAINS = ("*Backward*", "Optimizer.*")


def communicated(rank: RecordedRank, rows: pd.DataFrame, spans: Intervals) -> Evidence:
    """Return the operation that most of the exposed communication `spans` is of.

    And whether the CPU carries it out, and all that the rank recorded is inference; `rows` are its
    collectives.
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
        **_of_messages(rows, exposed),
    }


def _of_messages(rows: pd.DataFrame, exposed: "pd.Series[int]") -> Evidence:
    """Return the size of the message that most time is of, and what calls take at best.

    That is the share of their time that is left if each is as fast as the fastest of its kind and
    size, and the time of the fastest of those that take most.
    """
    length = rows["end_ns"] - rows["start_ns"]
    alike = length.groupby([rows[name] for name in _ALIKE], observed=True)
    fastest, calls = alike.transform("min"), alike.transform("size")
    at_best = np.where(calls >= _FEWEST, np.minimum(exposed, fastest), exposed)
    most = int(exposed.to_numpy(np.int64).argmax())
    size = int(rows["size_bytes"].iloc[most])
    return {
        "at_best_share": round(float(at_best.sum() / exposed.sum()), 3),
        "fastest_ns": int(fastest.iloc[most]),
        **({"message_bytes": size} if size >= 0 else {}),
    }
