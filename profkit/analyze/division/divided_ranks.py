"""The ranks of a recording, each with its periods divided among causes."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.division import communicated, cpu, gpu, kept_ops
from profkit.analyze.division.copies import MIGRATIONS
from profkit.analyze.division.long_steps import are_in_long_steps
from profkit.analyze.division.partition import Partition
from profkit.analyze.division.periods import Periods
from profkit.analyze.division.recorded_rank import RecordedRank
from profkit.analyze.division.sampled_calls import IS_SELDOM
from profkit.analyze.division.thread_roles import ThreadRoles
from profkit.analyze.division.usual_pauses import with_usual_times
from profkit.analyze.shared.blocking_calls import SYNCHRONISE
from profkit.analyze.shared.closed_steps import OPS, Span, may_cut
from profkit.analyze.shared.glob_match import matching
from profkit.analyze.shared.large_table import LargeTable, batches, ranks_in_batches, spans_of
from profkit.analyze.shared.launch_calls import CALLS, launches
from profkit.analyze.shared.step_spans import step_spans
from profkit.analyze.shared.step_windows import (
    WHERE,
    by_repeat,
    filtered,
    grouped,
    positions_by_repeat,
)
from profkit.tables import schema
from profkit.tables.rank_clocks import MatchedCollectives

_FAR_NS = 10**12
_BEFORE_NS = 10**6
_QUEUED_NS = 10**6
_MOST_LOST = 0.1
_BUSY_MEANWHILE = 0.01
_STREAM = (*WHERE, "device", "stream")
_OF_KERNELS = (*_STREAM, "step", "start_ns", "end_ns", "correlation", "copy_kind")


def divided(
    found: Periods,
    tables: Mapping[str, pd.DataFrame | LargeTable],
    also: Callable[[pd.DataFrame], NDArray[np.bool_]] | None = None,
) -> Iterator[tuple[RecordedRank, Partition]]:
    """Yield each rank and repeat that has periods, with the partition of their time.

    `tables` are those of `RecordedRank.of`, by name of its fields. A rank of which many operators
    and nothing else was recorded has none of them but in parts, if it can be cut; with `also`
    those of which that holds, and those that divide its time.
    """
    recordings = _Recordings(found, tables)
    for ranks in recordings.batches():
        many = recordings.many_ops(ranks)
        parts = _Parts(many, ranks) if many else None
        if parts and also is None and len(parts.spans) == 1:
            many = None
        roles = _roles(many, ranks) if many else {}
        for where, rows, own in recordings.of(ranks, many and _kept(many, also)):
            rank = RecordedRank.of(where, rows, **own)
            if many and parts:
                rank = replace(
                    rank, known_roles=roles[where], parts_of_ops=partial(parts.joined, where)
                )
            time = (gpu if len(rank.kernels) else cpu).divide(rank)
            if many and also is None:
                rank = replace(rank, ops=rank.ops.iloc[:0].copy())
            del own
            yield rank, time
            # There is room for one rank with many rows, and not for the next one beside it.
            del rank, rows, time


def _kept(ops: LargeTable, also: Callable[[pd.DataFrame], NDArray[np.bool_]] | None) -> LargeTable:
    if also is None:
        return ops.narrowed(kept_ops.COLUMNS).keeping(kept_ops.divides)
    return ops.keeping(lambda rows: kept_ops.divides(rows) | also(rows))


def _roles(ops: LargeTable, ranks: Collection[int]) -> Mapping[tuple[int, int], ThreadRoles]:
    """Return what the threads of each recording of some ranks are for."""
    found: defaultdict[tuple[int, int], ThreadRoles] = defaultdict(ThreadRoles)
    no_calls = schema.frame("runtime_calls")
    for rows in ops.narrowed([*WHERE, "tid", "name", "forward"]).only(ranks).portions():
        for where, own in positions_by_repeat(rows).items():
            found[where].add(rows.iloc[own], no_calls)
    return found


@dataclass(frozen=True)
class _Parts:
    """The operators of one rank in parts."""

    ops: LargeTable
    ranks: Collection[int]

    @cached_property
    def spans(self) -> Sequence[Span | None]:
        """What they are cut into."""
        return spans_of({OPS: self.ops}, self.ranks)

    def joined(self, where: tuple[int, int], at_once: int) -> Iterator[pd.DataFrame]:
        """Yield those of one repeat, so many parts `at_once`."""
        for at in range(0, len(self.spans), at_once):
            first, last = self.spans[at], self.spans[at : at + at_once][-1]
            span = first.until(last) if first and last else None
            yield by_repeat(self.ops.of_ranks(self.ranks, span))(where)


def recorded(
    found: Periods, tables: Mapping[str, pd.DataFrame | LargeTable]
) -> Iterator[tuple[tuple[int, int], pd.DataFrame, dict[str, pd.DataFrame]]]:
    """Yield each rank and repeat that has periods, with these and its rows of the `tables`.

    A rank of which many operators and nothing else was recorded comes several times, each with
    some of them.
    """
    recordings = _Recordings(found, tables)
    for ranks in recordings.batches():
        many = recordings.many_ops(ranks)
        for span in spans_of({OPS: many}, ranks) if many else (None,):
            yield from recordings.of(ranks, span=span)


class _Recordings:
    """Ranks and repeats with periods, of whose large tables a few ranks at a time are read."""

    def __init__(self, found: Periods, tables: Mapping[str, pd.DataFrame | LargeTable]) -> None:
        self._tables = tables
        self._large = {name: one for name, one in tables.items() if isinstance(one, LargeTable)}
        self._small = {
            name: by_repeat(one) for name, one in tables.items() if isinstance(one, pd.DataFrame)
        }
        self._periods: dict[Any, pd.DataFrame] = dict(
            iter(found.rows.groupby(WHERE, observed=True))
        )

    def batches(self) -> Iterator[set[int]]:
        """Yield ranks that are read together."""
        counts: Counter[int] = Counter()
        for group in (group for table in self._large.values() for group in table.groups()):
            counts.update(group)
        ordered = {int(rank): counts[int(rank)] for rank, _ in self._periods}
        return ranks_in_batches([[ordered]])

    def of(
        self, ranks: set[int], ops: LargeTable | None = None, span: Span | None = None
    ) -> Iterator[tuple[tuple[int, int], pd.DataFrame, dict[str, pd.DataFrame]]]:
        """Yield each recording of `ranks`, perhaps with other `ops`, or those of a `span` alone.

        Of their kernels, those are left out whose times cannot be.
        """
        large = self._large | ({"ops": ops} if ops else {})
        rows = {
            name: table.of_ranks(ranks, span if name == "ops" else None)
            for name, table in large.items()
        }
        if large:
            rows["kernels"], _ = placed(rows["kernels"], rows["calls"])
        of = self._small | {name: by_repeat(table) for name, table in rows.items()}
        left = [key for key in self._periods if key[0] in ranks]
        while left:
            periods = self._periods[key := left.pop(0)]
            where = int(key[0]), int(key[1])
            found = [{name: of[name](where) for name in self._tables}]
            if not left:
                # Who gets the last rows may let go of them.
                rows, of = {}, {}
            yield where, periods, found.pop()

    def many_ops(self, ranks: Collection[int]) -> LargeTable | None:
        """Return the operators if they can be looked at some at a time; None beside a GPU.

        What was sampled is compared with all operators.
        """
        ops, samples = self._tables["ops"], self._tables["samples"]
        if not isinstance(ops, LargeTable) or isinstance(samples, LargeTable) or len(samples):
            return None
        rows = {
            name: sum(group.get(rank, 0) for group in table.groups() for rank in ranks)
            for name, table in self._large.items()
        }
        has_more = rows.get("kernels") or rows.get("calls")
        return ops if len(ranks) == 1 and may_cut(rows["ops"]) and not has_more else None


def sampled_tables(
    samples: pd.DataFrame | None,
    threads: pd.DataFrame | None,
    pauses: pd.DataFrame | None,
    sampled_steps: pd.DataFrame | None,
) -> dict[str, pd.DataFrame]:
    """Return the tables ``python_*`` of what was sampled, empty ones where nothing was.

    That of the samples has the column `IS_SELDOM` besides, that of the collector `PER_STEP_NS`.
    """
    tables = {"samples": samples, "threads": threads, "pauses": pauses}
    found = {
        name: schema.frame(f"python_{name}") if table is None else table
        for name, table in tables.items()
    }
    steps = schema.frame("sampled_steps") if sampled_steps is None else sampled_steps
    are_seldom = are_in_long_steps(found["samples"], steps)
    return found | {
        "samples": found["samples"].assign(**{IS_SELDOM: are_seldom}),
        "pauses": with_usual_times(found["pauses"], steps),
    }


def placed_spans(kernels: LargeTable, calls: LargeTable) -> tuple[pd.DataFrame, Counter[str]]:
    """Return the spans of the steps of the kernels that are `placed`, and sums of its counts.

    With the columns of `_begun`.
    """
    counts: Counter[str] = Counter()
    parts = []
    for work, launching in batches(kernels.narrowed(_OF_KERNELS), calls.narrowed(CALLS)):
        rows, launched, own = _with_launches(work, launching)
        counts.update(own)
        spans = step_spans(LargeTable.of(rows))
        parts.append(spans.merge(_begun(rows, launched), on=WHERE, how="left"))
    return pd.concat(parts, ignore_index=True), counts


def _begun(kernels: pd.DataFrame, launched: pd.DataFrame) -> pd.DataFrame:
    """Return when each rank and repeat is done with what was launched before the recording.

    Column begins_ns is the end of the last such kernel, or where none was recorded the start of the
    first of a stream, if that had long been launched and hardly anything was recorded before;
    -1 if the GPU had nothing to do before. Column before_ns is how long such kernels lasted, the
    most there can be where none was recorded.
    """
    group, head = grouped([kernels[name].to_numpy() for name in WHERE])
    start, end = (kernels[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
    begins, lasted = np.full(len(head), -1, dtype=np.int64), np.zeros(len(head), dtype=np.int64)
    before = _launched_before(kernels, launched)
    held = np.bincount(group[before], minlength=len(head)) > 0
    later = np.flatnonzero(~before)
    first, ready = _waited(kernels.iloc[later], launched.iloc[later])
    for row, since in zip(later[first], ready, strict=True):
        own = later[(group[later] == group[row]) & (start[later] < start[row])]
        busy = (np.minimum(end[own], start[row]) - start[own]).sum()
        if busy < _BUSY_MEANWHILE * (start[row] - start[own].min(initial=since)):
            lasted[group[row]] = np.iinfo(np.int64).max // 2
            if not held[group[row]]:
                begins[group[row]] = max(begins[group[row]], start[row])
    np.maximum.at(begins, group[before], end[before])
    np.add.at(lasted, group[before], (end - start)[before])
    return kernels[WHERE].iloc[head].assign(begins_ns=begins, before_ns=lasted)


def _waited(
    kernels: pd.DataFrame, launched: pd.DataFrame
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first kernels of streams that had long been launched, and since when each had."""
    start = kernels["start_ns"].to_numpy(np.int64)
    stream, head = grouped([kernels[name].to_numpy() for name in _STREAM])
    order = np.lexsort((start, stream))
    first = order[np.searchsorted(stream[order], np.arange(len(head)))]
    call = launched.iloc[first]
    # A synchronous copy waits for earlier work within its call.
    in_call = matching(cast("pd.Series[str]", call["name"].astype("category")), SYNCHRONISE)
    ready = np.where(in_call, call["start_ns"], call["end_ns"]).astype(np.int64)
    waited = (ready >= 0) & (start[first] - ready >= _QUEUED_NS)
    return first[waited], ready[waited]


def placed(kernels: pd.DataFrame, calls: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, int]]:
    """Return the `kernels` whose times can be, and how many there are.

    And how many are misplaced, and of the others without a launch that should have been recorded.
    """
    rows, _, counts = _with_launches(kernels, calls)
    return rows, counts


def _with_launches(
    kernels: pd.DataFrame, calls: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame, dict[str, int]]:
    """Return the kernels that are `placed`, the call that launched each, and the counts."""
    launched = launches(kernels, calls)
    is_placed = ~_misplaced(kernels, launched)
    rows, launched = filtered(kernels, is_placed), filtered(launched, is_placed)
    moves_alone = matching(rows["copy_kind"], (f"{MIGRATIONS}*",))
    lost = (launched["call"].to_numpy() < 0) & ~_launched_before(rows, launched) & ~moves_alone
    counts = {
        "kernels": len(rows),
        "misplaced": len(kernels) - len(rows),
        "unlaunched": int(lost.sum()),
    }
    return rows, launched, counts


def _launched_before(kernels: pd.DataFrame, launched: pd.DataFrame) -> NDArray[np.bool_]:
    """Tell which kernels were launched before the recording began.

    A busy GPU works through these for as long as the CPU was ahead of it: they have no launch, and
    begin before the first kernel that has one. Where later ones lack theirs as well, launches were
    lost, and nothing is known of the first.
    """
    start = kernels["start_ns"].to_numpy(np.int64)
    known = launched["call"].to_numpy() >= 0
    group, head = grouped([kernels[name].to_numpy() for name in WHERE])
    first = np.full(len(head), -1, dtype=np.int64)
    first[group[known]] = np.iinfo(np.int64).max
    np.minimum.at(first, group[known], start[known])
    is_later = start >= first[group]
    later, lost = (
        np.bincount(group[rows], minlength=len(head)) for rows in (is_later, is_later & ~known)
    )
    is_whole = lost <= _MOST_LOST * later
    return np.asarray(~is_later & is_whole[group])


def _misplaced(kernels: pd.DataFrame, launched: pd.DataFrame) -> NDArray[np.bool_]:
    """Tell which kernels lie long before or after their launch, which cannot be."""
    call = launched["start_ns"].to_numpy(np.int64)
    delay = kernels["start_ns"].to_numpy(np.int64) - call
    return np.asarray((call >= 0) & ((delay < -_BEFORE_NS) | (delay > _FAR_NS)))


def of_collectives(
    collectives: pd.DataFrame, matched: MatchedCollectives
) -> dict[str, pd.DataFrame]:
    """Return the tables of `RecordedRank` that are made of collectives."""
    return {
        "collectives": with_late_rank(matched),
        "communication": collectives[[*WHERE, *communicated.COLUMNS]],
    }


def with_late_rank(matched: MatchedCollectives) -> pd.DataFrame:
    """Return the matched collectives with the rank that came last to each."""
    rows = matched.rows
    late = rows.loc[rows["last"].to_numpy(bool)].drop_duplicates("meeting")
    return rows.assign(late_rank=rows["meeting"].map(late.set_index("meeting")["rank"]))
