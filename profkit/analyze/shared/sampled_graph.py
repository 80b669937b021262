"""The flame graph of stacks that were sampled or allocated, a part for each rank."""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from profkit.analyze.shared.frame_kinds import of_stack
from profkit.analyze.shared.frame_tree import Stack, tree_of
from profkit.core.drawing import Detail, Drawing

_UNITS = {"duration_ns": ("ns", "Sampled time"), "size_bytes": ("bytes", "Bytes live at the peak")}


def sampled_graph(
    title: str, tables: Mapping[str, pd.DataFrame], column: str, most: int
) -> Drawing:
    """Return the mean of `column` over the repeats of each rank, by thread and ``stack``.

    `tables` are by tool; `most` frames of a rank are drawn.
    """
    details = tuple(
        Detail.of(
            f"rank {rank}" if len(tables) == 1 else f"rank {rank}, {tool}",
            tree_of(_stacks(own, column)).plain(most),
        )
        for tool, rows in tables.items()
        for rank, own in rows.groupby("rank", observed=True)
    )
    unit, measure = _UNITS[column]
    look: dict[str, Any] = {
        "unit": unit,
        "of": "Rank",
        "measures": [{"title": measure, "column": 0}],
    }
    look |= {"groups": ["Thread"], "total": len(details)}
    return Drawing(kind="flame", title=title, data=look, details=details)


def _stacks(own: pd.DataFrame, column: str) -> Iterator[Stack]:
    repeats = own["repeat"].nunique()
    threads = own["thread"] if "thread" in own else pd.Series("", index=own.index)
    grouped = own.groupby([threads.astype(object), own["stack"].astype(object)], sort=False)
    sums: dict[Any, int] = grouped[column].sum().to_dict()
    for (thread, stack), value in sums.items():
        yield (thread or "main thread",), of_stack(stack), (value // repeats,)
