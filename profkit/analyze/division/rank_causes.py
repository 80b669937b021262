"""The causes of each rank as rows: per step over its repeats, and of each single step."""

import json
import math
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.division import divided_ranks, gpu, names
from profkit.analyze.division.details import Detail, details, per_step, undetailed
from profkit.analyze.division.in_threads import Spent, spent_in_threads
from profkit.analyze.division.partition import Partition
from profkit.analyze.division.parts import parts
from profkit.analyze.division.periods import Periods
from profkit.analyze.division.recorded_rank import RecordedRank
from profkit.analyze.division.thread_waits import queued_share
from profkit.analyze.division.usual_pauses import gain_ns
from profkit.analyze.shared.large_table import LargeTable
from profkit.analyze.shared.step_windows import WHERE

_MS = 1e6
_WAITING = f"{gpu.EXPOSED}.waiting"
_COLLECTING = "garbage_collection"
_SMALL = 0.02
_CAUSES = (
    *("rank", "id", "title", "ms_per_step", "median_ms", "gain_ms", "share", "place"),
    "evidence",
)


ByStep = Mapping[str, NDArray[np.int64]]
"""Columns of one recording, a row a period."""


@dataclass(frozen=True, kw_only=True)
class Divided:
    """One rank and repeat with the partition of its periods."""

    rank: RecordedRank
    time: Partition
    spent: dict[str, Spent]
    """Where CPU threads spent it, by cause; nothing of a rank that is not divided in full."""

    details: dict[str, Detail]

    @cached_property
    def times(self) -> dict[str, NDArray[np.int64]]:
        """The time in ns of each cause of the partition in each period."""
        return self.time.times(self.rank.windows)

    def parts(self) -> pd.DataFrame:
        """Return what the causes consist of."""
        return parts(self.rank, self.time, self.spent)


@dataclass(frozen=True, kw_only=True)
class RankCauses:
    """What is kept of one rank, over its repeats, when the next one is divided."""

    number: int
    rows: list[dict[str, Any]]
    by_step: list[ByStep]
    """Of each repeat."""

    launching_ns: NDArray[np.int64]
    """How long the CPU works to launch, at least and at most, see `RecordedRank.launching_ns`."""

    queued: float
    """See `queued_share`; the largest of its repeats."""

    parts: list[pd.DataFrame]
    """Of each repeat; none of a rank that is not divided in full."""

    whole: list[Divided]
    """Its recordings, if they need not be divided anew when it is shown: it is the only rank, or
    the tables of all are small."""


def divided(
    found: Periods,
    tables: Mapping[str, pd.DataFrame | LargeTable],
    in_full: Container[int] | None = None,
) -> Iterator[Divided]:
    """Yield the recordings of each rank, one after another, with their causes.

    Those of the ranks `in_full`, or of all, say what each cause consists of, and where it is.
    """
    for rank, time in divided_ranks.divided(found, tables):
        if in_full is None or rank.where[0] in in_full:
            spent = spent_in_threads(rank, time)
            causes = details(rank, time, spent)
        else:
            spent, causes = {}, undetailed(time)
        rank.tidy()
        yield Divided(rank=rank, time=time, spent=spent, details=causes)
        del rank, time, spent, causes  # before the next one is read


def one_by_one(
    found: Periods,
    tables: Mapping[str, pd.DataFrame | LargeTable],
    chosen: Collection[int],
    *,
    keeps_all: bool,
) -> list[RankCauses]:
    """Return what is kept of each rank; of the `chosen` ones in full, and all of the only one.

    Where it `keeps_all`, all of each chosen one: several times the memory of its tables.
    """
    ranks = []
    recordings = divided(found, tables, chosen)
    repeats = found.rows.groupby("rank")["repeat"].nunique()
    keeps_all = keeps_all or len(repeats) == 1
    for number, count in zip(repeats.index.tolist(), repeats.tolist(), strict=True):
        of_rank = list(islice(recordings, count))
        kept = _kept(of_rank, in_full=number in chosen)
        ranks.append(replace(kept, whole=of_rank) if keeps_all and number in chosen else kept)
        del of_rank
    return ranks


def _kept(of_rank: Sequence[Divided], *, in_full: bool) -> RankCauses:
    return RankCauses(
        number=of_rank[0].rank.where[0],
        rows=_rows(of_rank),
        by_step=[_by_step(one) for one in of_rank],
        launching_ns=np.sum([one.rank.launching_ns for one in of_rank], axis=0),
        queued=max(queued_share(one.rank) for one in of_rank),
        parts=[one.parts() for one in of_rank] if in_full else [],
        whole=[],
    )


def with_shown(
    ranks: Sequence[RankCauses],
    found: Periods,
    tables: Mapping[str, pd.DataFrame | LargeTable],
) -> tuple[list[RankCauses], Divided]:
    """Return the `ranks`, and the first recording of the one whose causes the verdict tells.

    That one and the rank for which it waits most are there in full, also if they were not chosen.
    """
    by_number = {one.number: one for one in ranks}
    shown = _decisive(tree_of(ranks))
    of_shown = by_number[shown].whole or _divided_of(shown, found, tables)
    if not by_number[shown].parts:
        by_number[shown] = _kept(of_shown, in_full=True)
    late = _late_rank(by_number[shown].rows)
    if late in by_number and not by_number[late].parts:
        by_number[late] = _kept(_divided_of(late, found, tables), in_full=True)
    return [*by_number.values()], of_shown[0]


def _divided_of(
    rank: int, found: Periods, tables: Mapping[str, pd.DataFrame | LargeTable]
) -> list[Divided]:
    rows = found.rows[(found.rows["rank"] == rank).to_numpy()]
    return list(divided(replace(found, rows=rows), tables))


def _late_rank(rows: Sequence[Mapping[str, Any]]) -> int:
    """Return the rank that is waited for most, -1 if there is none."""
    waiting = (json.loads(row["evidence"]) for row in rows if row["id"] == _WAITING)
    return next((int(evidence.get("late_rank", -1)) for evidence in waiting), -1)


def _decisive(rows: pd.DataFrame) -> int:
    """Return the rank whose causes the verdict tells: the one that waits most for others.

    Where waiting is not known apart from communication it is the one with most of both. Where none
    waits for long it is the one with the longest step, of equals the lowest.
    """
    tops = rows[~rows["id"].str.contains(".", regex=False)]
    lengths = tops.groupby("rank")["ms_per_step"].sum()
    waits = rows[rows["id"] == _WAITING].set_index("rank")["ms_per_step"]
    if waits.empty:
        waits = tops[tops["id"] == gpu.EXPOSED].set_index("rank")["ms_per_step"]
    if len(waits) and waits.max() > _SMALL * lengths.max():
        return int(str(waits.idxmax()))
    longest = lengths[lengths >= (1 - _SMALL) * lengths.max()]
    return min(int(str(rank)) for rank in longest.index)


def tree_of(ranks: Sequence[RankCauses]) -> pd.DataFrame:
    """Return the causes of all `ranks`, see `_rows`."""
    return pd.DataFrame([row for one in ranks for row in one.rows], columns=list(_CAUSES))


def by_step_of(ranks: Sequence[RankCauses]) -> pd.DataFrame:
    """Return one row a period of all `ranks`, 0 where one has a cause that others have."""
    parts = [part for one in ranks for part in one.by_step]
    none = np.zeros(max(len(part["step"]) for part in parts), dtype=np.int64)
    return pd.DataFrame(
        {
            name: np.concatenate([part.get(name, none[: len(part["step"])]) for part in parts])
            for name in dict.fromkeys(name for part in parts for name in part)
        }
    )


def _rows(of_rank: Sequence[Divided]) -> list[dict[str, Any]]:
    """Return the tree of one rank over its repeats, one row a cause, each level summed."""
    steps = sum(len(one.rank.periods) for one in of_rank)
    whole = sum(int((one.rank.windows[:, 1] - one.rank.windows[:, 0]).sum()) for one in of_rank)
    time: dict[str, int] = {}
    about: dict[str, Detail] = {}
    for one in of_rank:
        for cause, detail in one.details.items():
            time[cause] = time.get(cause, 0) + detail.time_ns
            if cause not in about or detail.time_ns > about[cause].time_ns:
                about[cause] = detail
        for cause in one.time.parts:
            for above in names.parts_of(cause)[:-1]:
                time[above] = time.get(above, 0) + one.details[cause].time_ns
    medians = _medians(of_rank)
    own = {cause: len(one.rank.periods) for one in of_rank for cause in one.details}
    rows = [
        {
            "rank": of_rank[0].rank.where[0],
            "id": cause,
            "title": names.title(cause, _label(cause, about.get(cause))),
            "ms_per_step": total / max(steps, 1) / _MS,
            "median_ms": medians.get(cause, math.nan),
            "gain_ms": _gain_ns(cause, total / max(steps, 1), of_rank) / _MS,
            "share": total / max(whole, 1),
            "place": about[cause].place if cause in about else "",
            "evidence": json.dumps(
                per_step(about[cause].evidence, own[cause]) if cause in about else {}
            ),
        }
        for cause, total in time.items()
        if total
    ]
    return sorted(rows, key=lambda row: (-row["ms_per_step"], row["id"]))


def _gain_ns(cause: str, ns_per_step: float, of_rank: Sequence[Divided]) -> float:
    """Return what can be gained of `ns_per_step` of a cause, in ns: all but of the collector's."""
    if not cause.endswith(_COLLECTING):
        return ns_per_step
    return float(np.mean([gain_ns(one.rank.pauses, ns_per_step) for one in of_rank]))


def _medians(of_rank: Sequence[Divided]) -> dict[str, float]:
    """Return the median over the steps of each part of the partition, in ms."""
    times = [one.times for one in of_rank]
    none = [np.zeros(len(one.rank.periods), dtype=np.int64) for one in of_rank]
    return {
        cause: float(np.median(np.concatenate(own))) / _MS
        for cause in dict.fromkeys(cause for by_cause in times for cause in by_cause)
        if (own := [by_cause.get(cause, zero) for by_cause, zero in zip(times, none, strict=True)])
    }


def _label(cause: str, about: Detail | None) -> str:
    """Return the name that the last part of an id was made of, "" if it is a word of profkit's."""
    if about is None or not about.place:
        return ""
    return about.place if cause.endswith(about.place.replace(".", "_")) else ""


def _by_step(one: Divided) -> ByStep:
    """Return one row a period with the time in ns of each cause of the partition."""
    windows = one.rank.windows
    columns = {name: one.rank.periods[name].to_numpy(np.int64) for name in (*WHERE, "step")}
    times = {f"{name}_ns": time for name, time in one.times.items()}
    return {**columns, "step_time_ns": windows[:, 1] - windows[:, 0], **times}
