"""The ranks of a recording, each with its periods divided among causes."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.division import cpu, gpu
from profkit.analyze.division.partition import Partition
from profkit.analyze.division.periods import Periods
from profkit.analyze.division.recorded_rank import RecordedRank
from profkit.analyze.shared.closed_steps import OPS, Span
from profkit.analyze.shared.large_table import LargeTable, batches, ranks_in_batches, spans_of
from profkit.analyze.shared.launch_calls import CALLS, launches
from profkit.analyze.shared.step_spans import step_spans
from profkit.analyze.shared.step_windows import WHERE, by_repeat, filtered
from profkit.tables import schema
from profkit.tables.rank_clocks import MatchedCollectives

_FAR_NS = 10**12
_BEFORE_NS = 10**6
_OF_KERNELS = ("rank", "repeat", "step", "start_ns", "end_ns", "correlation")


def divided(
    found: Periods, tables: Mapping[str, pd.DataFrame | LargeTable]
) -> Iterator[tuple[RecordedRank, Partition]]:
    """Yield each rank and repeat that has periods, with the partition of their time.

    `tables` are those of `RecordedRank.of`, by name of its fields.
    """
    for where, rows, own in recorded(found, tables):
        rank = RecordedRank.of(where, rows, **own)
        yield rank, (gpu if len(rank.kernels) else cpu).divide(rank)
        # There is room for one rank with many rows, and not for the next one beside it.
        del rank, rows, own


def recorded(
    found: Periods, tables: Mapping[str, pd.DataFrame | LargeTable], *, in_parts: bool = False
) -> Iterator[tuple[tuple[int, int], pd.DataFrame, dict[str, pd.DataFrame]]]:
    """Yield each rank and repeat that has periods, with these and its rows of the `tables`.

    Large tables are read a few ranks at a time; of their kernels, those are left out whose times
    cannot be. With `in_parts` a rank of which many operators and nothing else was recorded comes
    several times, each with some of them.
    """
    by_recording: dict[Any, pd.DataFrame] = dict(iter(found.rows.groupby(WHERE, observed=True)))
    of_small = {
        name: by_repeat(table) for name, table in tables.items() if isinstance(table, pd.DataFrame)
    }
    large = {name: table for name, table in tables.items() if isinstance(table, LargeTable)}
    counts: Counter[int] = Counter()
    for group in (group for table in large.values() for group in table.groups()):
        counts.update(group)
    ordered = {int(rank): counts[int(rank)] for rank, _ in by_recording}
    for ranks in ranks_in_batches([[ordered]]):
        for span in _spans(tables, ranks) if in_parts else (None,):
            rows = {
                name: table.of_ranks(ranks, span if name == "ops" else None)
                for name, table in large.items()
            }
            if large:
                rows["kernels"], _ = placed(rows["kernels"], rows["calls"])
            of = of_small | {name: by_repeat(table) for name, table in rows.items()}
            for (number, repeat), periods in by_recording.items():
                if number in ranks:
                    where = int(number), int(repeat)
                    yield where, periods, {name: of[name](where) for name in tables}
            del rows, of


def _spans(
    tables: Mapping[str, pd.DataFrame | LargeTable], ranks: set[int]
) -> Sequence[Span | None]:
    """Return the parts of operators that can be looked at apart: none but all, beside a GPU.

    What was sampled is compared with all operators.
    """
    ops, samples = tables["ops"], tables["samples"]
    if not isinstance(ops, LargeTable) or isinstance(samples, LargeTable) or len(samples):
        return (None,)
    has_more = any(
        not ranks.isdisjoint(group)
        for table in (tables["kernels"], tables["calls"])
        if isinstance(table, LargeTable)
        for group in table.groups()
    )
    return (None,) if has_more else spans_of({OPS: ops}, ranks)


def sampled_tables(**tables: pd.DataFrame | None) -> dict[str, pd.DataFrame]:
    """Return the tables ``python_*`` of what was sampled, empty ones where nothing was."""
    return {
        name: schema.frame(f"python_{name}") if table is None else table
        for name, table in tables.items()
    }


def placed_spans(kernels: LargeTable, calls: LargeTable) -> tuple[pd.DataFrame, Counter[str]]:
    """Return the spans of the steps of the kernels that are `placed`, and sums of its counts.

    With the column waited_ns: how long the first kernel of the rank and repeat had been launched.
    """
    counts: Counter[str] = Counter()
    parts = []
    for work, launching in batches(kernels.narrowed(_OF_KERNELS), calls.narrowed(CALLS)):
        rows, own = placed(work, launching)
        counts.update(own)
        spans = step_spans(LargeTable.of(rows))
        parts.append(spans.merge(_waited(rows, launching), on=WHERE, how="left"))
    return pd.concat(parts, ignore_index=True), counts


def _waited(kernels: pd.DataFrame, calls: pd.DataFrame) -> pd.DataFrame:
    """Return for each rank and repeat how long its first kernel had been launched when it began."""
    first = kernels.loc[kernels.groupby(WHERE, observed=True)["start_ns"].idxmin()]
    ready = launches(first, calls)["end_ns"].to_numpy(np.int64)
    start = first["start_ns"].to_numpy(np.int64)
    return first[WHERE].assign(waited_ns=np.where(ready >= 0, start - ready, 0))


def placed(kernels: pd.DataFrame, calls: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, int]]:
    """Return the `kernels` whose times can be, and how many there are.

    And how many are misplaced, and of the others without a launch.
    """
    launched = launches(kernels, calls)
    is_misplaced = _misplaced(kernels, launched)
    is_unknown = launched["call"].to_numpy() < 0
    counts = {
        "kernels": int((~is_misplaced).sum()),
        "misplaced": int(is_misplaced.sum()),
        "unlaunched": int(is_unknown[~is_misplaced].sum()),
    }
    return filtered(kernels, ~is_misplaced), counts


def _misplaced(kernels: pd.DataFrame, launched: pd.DataFrame) -> NDArray[np.bool_]:
    """Tell which kernels lie long before or after their launch, which cannot be."""
    call = launched["start_ns"].to_numpy(np.int64)
    delay = kernels["start_ns"].to_numpy(np.int64) - call
    return np.asarray((call >= 0) & ((delay < -_BEFORE_NS) | (delay > _FAR_NS)))


def with_late_rank(matched: MatchedCollectives) -> pd.DataFrame:
    """Return the matched collectives with the rank that came last to each."""
    rows = matched.rows
    late = rows.loc[rows["last"].to_numpy(bool)].drop_duplicates("meeting")
    return rows.assign(late_rank=rows["meeting"].map(late.set_index("meeting")["rank"]))
