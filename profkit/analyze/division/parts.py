"""What each cause consists of: all of its time by module, operator or Python line, and kernel."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.division import gpu
from profkit.analyze.division.in_threads import Spent
from profkit.analyze.division.partition import Partition, alone
from profkit.analyze.division.recorded_rank import RecordedRank
from profkit.analyze.shared import intervals
from profkit.analyze.shared.glob_match import texts
from profkit.tables.kernel_names import readable

KEYS = ["cause", "module", "operator", "kernel"]
_SUMS = ("calls", "ns", "first_use_ns")
_SMALL = 1e-4
_MS = 1e6
_KINDS = {gpu.COMPUTING: "compute", gpu.EXPOSED: "communication", "exposed_sets": "set"}


def parts(rank: RecordedRank, time: Partition, spent: Mapping[str, Spent]) -> pd.DataFrame:
    """Return `KEYS`, calls and ms per step of what causes consist of; each sums to its time.

    `spent` says for causes of CPU threads where these spent them. Of the time of a part,
    ``first_use_ms_per_step`` is what other operators would take without it. What takes less than a
    ten-thousandth of the step, and what belongs to no row, is one part of its cause whose other
    keys are empty.
    """
    of_causes = [_of_cause(rank, time, cause, spent.get(cause)) for cause in time.parts]
    # One table: a table of each cause takes longer than what is in it.
    columns = (*KEYS, *_SUMS)
    found = pd.DataFrame(
        {name: np.concatenate([own[name] for own in of_causes]) for name in columns}
    )
    del of_causes
    rank.tidy()
    found = found.groupby(KEYS, observed=True, sort=False)[list(_SUMS)].sum().reset_index()
    totals = pd.Series({cause: intervals.total(time.spans(cause)) for cause in time.parts})
    # Ranges that overlap without being one in the other share it.
    charged = found.groupby("cause")["ns"].transform("sum")
    share = (found["cause"].map(totals) / charged).clip(upper=1.0)
    for name in ("ns", "first_use_ns"):
        found[name] = (found[name] * share).astype(np.int64)
    whole = intervals.total(intervals.union(rank.windows))
    found = found[(found["ns"] > _SMALL * whole).to_numpy()]
    rest = totals.sub(found.groupby("cause")["ns"].sum(), fill_value=0)
    left = pd.DataFrame({"cause": rest.index, **dict.fromkeys(_SUMS, 0), "ns": rest.to_numpy()})
    found = pd.concat([found, left[(left["ns"] != 0).to_numpy()]], ignore_index=True)
    found[KEYS] = found[KEYS].fillna("")
    steps = max(len(rank.periods), 1)
    number, repeat = rank.where
    return found.assign(
        rank=number,
        repeat=repeat,
        calls_per_step=found["calls"] / steps,
        ms_per_step=found["ns"] / steps / _MS,
        first_use_ms_per_step=found["first_use_ns"] / steps / _MS,
    )[["rank", "repeat", *KEYS, "calls_per_step", "ms_per_step", "first_use_ms_per_step"]]


def _of_cause(
    rank: RecordedRank, time: Partition, cause: str, spent: Spent | None
) -> dict[str, NDArray[Any]]:
    if spent is None:
        return _kernels(rank, time, cause, cause.partition(".")[0])
    if spent.lines:
        ns = np.array([ns for _, ns in spent.lines], dtype=np.int64)
        return _rows(cause, "", [line for line, _ in spent.lines], "", ns)
    return _rows(cause, *spent.operators.columns())


def _kernels(rank: RecordedRank, time: Partition, cause: str, top: str) -> dict[str, NDArray[Any]]:
    kinds = texts(rank.kernels["kind"])
    of_cause = kinds == _KINDS.get(top, "copy")
    if top == "exposed_copies":
        of_cause = rank.copy_names == cause.partition(".")[2]
    rows = np.flatnonzero(of_cause)
    charged = intervals.overlap(alone(rank.kernel_spans[rows]), time.spans(cause))
    names = texts(rank.kernels["name"], readable, rows)
    modules = texts(rank.kernels["module"], rows=rows)
    return _rows(cause, modules, rank.kernel_labels[rows], names, charged)


def _rows(  # noqa: PLR0913, PLR0917 (most are keys)
    cause: str,
    module: Any,
    operator: Any,
    kernel: Any,
    ns: NDArray[np.int64],
    first_use_ns: NDArray[np.int64] | None = None,
    calls: NDArray[np.int64] | None = None,
) -> dict[str, NDArray[Any]]:
    keys = {"cause": cause, "module": module, "operator": operator, "kernel": kernel}
    kept = ns > 0
    same = {
        name: np.broadcast_to(np.asarray(key, dtype=object), ns.shape) for name, key in keys.items()
    }
    first_use_ns = np.zeros_like(ns) if first_use_ns is None else first_use_ns
    calls = np.ones_like(ns) if calls is None else calls
    sums = {"calls": calls, "ns": ns, "first_use_ns": first_use_ns}
    return {name: of[kept] for name, of in {**same, **sums}.items()}
