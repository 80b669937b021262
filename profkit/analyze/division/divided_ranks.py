"""The ranks of a recording, each with its periods divided among causes."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.division import cpu, gpu
from profkit.analyze.division.partition import Partition
from profkit.analyze.division.periods import Periods
from profkit.analyze.division.recorded_rank import RecordedRank
from profkit.analyze.shared.step_windows import WHERE, by_repeat
from profkit.tables import schema
from profkit.tables.rank_clocks import MatchedCollectives

_FAR_NS = 10**12
_BEFORE_NS = 10**6


def divided(
    found: Periods, tables: Mapping[str, pd.DataFrame]
) -> Iterator[tuple[RecordedRank, Partition]]:
    """Yield each rank and repeat that has periods, with the partition of their time.

    `tables` are those of `RecordedRank.of`, by name of its fields.
    """
    own = {name: by_repeat(table) for name, table in tables.items()}
    by_recording: dict[Any, pd.DataFrame] = dict(iter(found.rows.groupby(WHERE, observed=True)))
    for (number, repeat), rows in by_recording.items():
        where = int(number), int(repeat)
        rank = RecordedRank.of(where, rows, **{name: of(where) for name, of in own.items()})
        yield rank, (gpu if len(rank.kernels) else cpu).divide(rank)


def sampled_tables(**tables: pd.DataFrame | None) -> dict[str, pd.DataFrame]:
    """Return the tables ``python_*`` of what was sampled, empty ones where nothing was."""
    return {
        name: schema.frame(f"python_{name}") if table is None else table
        for name, table in tables.items()
    }


def misplaced(kernels: pd.DataFrame, launched: pd.DataFrame) -> NDArray[np.bool_]:
    """Tell which kernels lie long before or after their launch, which cannot be."""
    call = launched["start_ns"].to_numpy(np.int64)
    delay = kernels["start_ns"].to_numpy(np.int64) - call
    return np.asarray((call >= 0) & ((delay < -_BEFORE_NS) | (delay > _FAR_NS)))


def with_late_rank(matched: MatchedCollectives) -> pd.DataFrame:
    """Return the matched collectives with the rank that came last to each."""
    rows = matched.rows
    late = rows.loc[rows["last"].to_numpy(bool)].drop_duplicates("meeting")
    return rows.assign(late_rank=rows["meeting"].map(late.set_index("meeting")["rank"]))
