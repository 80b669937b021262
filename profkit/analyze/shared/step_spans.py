"""When the work of each step begins and ends: in place of a large table for windows of steps."""

import numpy as np
import pandas as pd

from profkit.analyze.shared.large_table import LargeTable
from profkit.analyze.shared.step_windows import WHERE, extents

_STEP = [*WHERE, "step"]
_TIMES = ["start_ns", "end_ns"]


def step_spans(work: LargeTable) -> pd.DataFrame:
    """Return one row per rank, repeat and step of `work`, in place of its rows: start and end.

    Windows of steps and periods are the same for these rows as for all.
    """
    return spans(work, _STEP)


def spans(work: LargeTable, key: list[str]) -> pd.DataFrame:
    """Return one row per `key` of `work`: its first start and last end."""
    narrow = work.narrowed([*key, *_TIMES])
    return _joined([_spans(rows, key) for rows in narrow.portions()], key)


def operator_spans(cpu_ops: LargeTable) -> pd.DataFrame:
    """Return the same of operators, and of other ranges: with their ``kind``."""
    key = [*_STEP, "is_operator"]
    parts = []
    for rows in cpu_ops.narrowed([*_STEP, *_TIMES, "kind"]).portions():
        is_operator = (rows["kind"] == "operator").to_numpy()
        parts.append(_spans(rows.assign(is_operator=is_operator), key))
    made = _joined(parts, key)
    kind = np.where(made.pop("is_operator"), "operator", "range")
    return made.assign(kind=pd.Categorical(kind))


def _spans(rows: pd.DataFrame, key: list[str]) -> pd.DataFrame:
    spans = extents(rows, key).reset_index()
    return spans.rename(columns={"first": "start_ns", "last": "end_ns"})


def _joined(parts: list[pd.DataFrame], key: list[str]) -> pd.DataFrame:
    """Return the spans of all portions; a step may be in two of them."""
    return _spans(pd.concat(parts, ignore_index=True), key)
