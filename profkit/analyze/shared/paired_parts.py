"""The parts of the step times of two runs, side by side: what the causes of both consist of.

Made of the tables ``parts`` of two results of the analysis ``causes``, of one rank each. What is
the same in both has the same name: functions whose line has moved, kernels without a launch.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.division import gpu
from profkit.analyze.division.parts import KEYS
from profkit.core.result import Result

SIDES = ("before", "after")
_SMALL = 0.02
_MS = 1e6
_LINE = re.compile(r"\(\d+\)")
_STEP = re.compile(r"(ProfilerStep|step)#\d+$")
_WAITING = f"{gpu.EXPOSED}.waiting"


@dataclass(frozen=True, kw_only=True, slots=True)
class PairedParts:
    """The parts of both runs."""

    times: pd.DataFrame
    """ms per step by `KEYS`; a column for each side and repeat, those of pairs in one order."""

    ranks: tuple[int, int]
    """Rank of each run: the one that others wait for in the slower run."""

    repeats: tuple[list[int], list[int]]
    """Repeats of each run; those that both have, if there are any."""

    pairs: int
    """How many repeats both have."""

    work: float
    """How often the work of the first recording is in the second, by calls of the same operators
    and kernels; its times are divided by that. 1 where both have marked steps."""

    launching_ms: tuple[float, float]
    """CPU time that launching the kernels of a step takes in each run; 0 without a GPU."""


def paired_parts(
    before: Result, after: Result, ranks: tuple[int, int] | None = None
) -> PairedParts | None:
    """Return the parts of two results of ``causes``; None if one has divided no time of its rank.

    `ranks` are compared, or else those that decide how long the step is.
    """
    both = [_rows(result) for result in (before, after)]
    if any(rows.empty for rows in both):
        return None
    work = 1.0 if _has_steps(before) and _has_steps(after) else _work(both)
    both[1] = both[1].assign(ms_per_step=both[1]["ms_per_step"] / work)
    ranks = ranks or _ranks(both)
    both = [rows[(rows["rank"] == rank).to_numpy()] for rows, rank in zip(both, ranks, strict=True)]
    if any(rows.empty for rows in both):
        return None
    both = _with_operators(both)
    both[0] = _with_lines_of(both[1], both[0])
    own = [sorted(set(rows["repeat"].tolist())) for rows in both]
    common = [repeat for repeat in own[0] if repeat in own[1]]
    repeats = (common, common) if common else (own[0], own[1])
    times = [_times(rows, chosen) for rows, chosen in zip(both, repeats, strict=True)]
    return PairedParts(
        times=pd.concat(times, axis=1, keys=SIDES).fillna(0.0),
        ranks=ranks,
        repeats=repeats,
        pairs=len(common),
        work=work,
        launching_ms=(_launching_ms(before, ranks[0]), _launching_ms(after, ranks[1]) / work),
    )


def of_side(times: pd.DataFrame, side: str) -> NDArray[np.float64]:
    """Return the times of one side, a row for each part and a column for each repeat."""
    own = np.asarray(times.columns.get_level_values(0) == side)
    return times.to_numpy(np.float64)[:, own]


def _rows(result: Result) -> pd.DataFrame:
    """Return the rows of the table ``parts``."""
    parts = result.tables.get("parts")
    if parts is None:
        return pd.DataFrame()
    rows = pd.DataFrame(parts.rows, columns=list(parts.columns))
    return rows.assign(operator=rows["operator"].astype(str).map(unnumbered))


def unnumbered(name: str) -> str:
    """Return a name without the number of a step, which makes every range a different one."""
    return _STEP.sub(r"\1", name)


def _launching_ms(causes: Result, rank: int) -> float:
    """Return the CPU time per step in which a rank launches kernels; 0 if it was not kept."""
    ranks = causes.tables["ranks"].records() if "ranks" in causes.tables else ()
    found = (row.get("launching_least_ns") or 0 for row in ranks if row["rank"] == rank)
    return float(str(next(found, 0))) / _MS


def _has_steps(causes: Result) -> bool:
    """Say whether times are those of marked steps, and not of all that was recorded."""
    steps = causes.tables.get("by_step")
    return steps is None or any(row[steps.columns.index("step")] != -1 for row in steps.rows)


def _work(both: Sequence[pd.DataFrame]) -> float:
    """Return how many calls the second recording has for one of the first, of the same work.

    The median over operators and kernels that both have, each counting as much as it takes. 1 if
    they have none in common.
    """
    sums = [
        rows[(rows["calls_per_step"] > 0).to_numpy()]
        .groupby(["operator", "kernel"])[["calls_per_step", "ms_per_step"]]
        .sum()
        / len(rows[["rank", "repeat"]].drop_duplicates())
        for rows in both
    ]
    joined = pd.concat(sums, axis=1, join="inner", keys=SIDES)
    if joined.empty:
        return 1.0
    calls, ms = (joined.xs(name, axis=1, level=1) for name in ("calls_per_step", "ms_per_step"))
    ratios = (calls["after"] / calls["before"]).sort_values()
    weights = ms["before"].loc[ratios.index].cumsum()
    return float(ratios[(weights >= weights.iloc[-1] / 2).to_numpy()].iloc[0])


def _ranks(both: Sequence[pd.DataFrame]) -> tuple[int, int]:
    """Return the rank of each run whose causes decide: in the slower run it keeps others waiting.

    Where none waits for long it is the one with the longest step, of equals the lowest. It is the
    same rank of both runs, if both have it.
    """
    lengths = [_of_ranks(rows, rows) for rows in both]
    waiting = [rows[(rows["cause"] == _WAITING).to_numpy()] for rows in both]
    chosen = [
        _decisive(length, _of_ranks(rows, own).reindex(length.index).fillna(0.0))
        for length, rows, own in zip(lengths, both, waiting, strict=True)
    ]
    slower = int(lengths[1].max() > lengths[0].max())
    if chosen[slower] in lengths[1 - slower].index:
        return chosen[slower], chosen[slower]
    return chosen[0], chosen[1]


def _of_ranks(rows: pd.DataFrame, counted: pd.DataFrame) -> "pd.Series[float]":
    """Return the mean time over the repeats of each rank, in ms per step, of the `counted` rows."""
    sums: pd.Series[float] = counted.groupby("rank")["ms_per_step"].sum()
    return sums / rows.groupby("rank")["repeat"].nunique()


def _decisive(lengths: "pd.Series[float]", waits: "pd.Series[float]") -> int:
    near = _SMALL * float(lengths.max())
    busy = lengths[(waits <= waits.min() + near).to_numpy()]
    return min(int(str(rank)) for rank in busy.index[(busy >= busy.max() - near).to_numpy()])


def _with_operators(both: Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
    """Return the rows, kernels whose launch was not recorded with the operator they else have."""
    launched = pd.concat([rows[(rows["operator"] != rows["kernel"]).to_numpy()] for rows in both])
    of_kernel = launched.groupby("kernel")["operator"].agg(set)
    known = {kernel: min(names) for kernel, names in of_kernel.items() if len(names) == 1}
    return [
        rows.assign(
            operator=[
                known.get(kernel, operator) if kernel and operator == kernel else operator
                for operator, kernel in zip(rows["operator"], rows["kernel"], strict=True)
            ]
        )
        for rows in both
    ]


def _with_lines_of(reference: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Return `rows` with functions called as in `reference` if only their line has moved."""
    known = set(reference["operator"])
    moved = {_LINE.sub("", name): name for name in sorted(known) if _LINE.search(name)}
    names = {
        name: moved.get(_LINE.sub("", name), name)
        for name in set(rows["operator"]) - known
        if _LINE.search(name)
    }
    return rows.assign(operator=[names.get(name, name) for name in rows["operator"]])


def _times(rows: pd.DataFrame, repeats: Sequence[int]) -> pd.DataFrame:
    """Return ms per step by `KEYS`, a column for each of the `repeats`."""
    sums = rows.pivot_table("ms_per_step", KEYS, "repeat", aggfunc="sum", fill_value=0.0)
    return sums[list(repeats)]
