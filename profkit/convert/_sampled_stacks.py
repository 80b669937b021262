"""Sampled call stacks of threads: summed, as table and as flame graph."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from profkit.convert.base import Raw
from profkit.convert.drawing import flamegraph
from profkit.tables import schema
from profkit.tables.tree_paths import joined

Sums = dict[tuple[str, tuple[str, ...]], tuple[int, float]]
"""Number of samples (-1: unknown) and time in ns, by thread and frames from the root."""


def draw(sums: Sums, raw: Raw, out: Path) -> None:
    """Leave the flame graph of one rank in `out`."""
    title = f"{raw.label}, repeat {raw.repeat}: where Python spent its time"
    drawing = flamegraph.svg(_weighted(sums), unit="ns", title=title)
    path = out / f"{raw.label}.rep{raw.repeat}.flamegraph.svg"
    path.write_text(drawing, encoding="utf-8")


def _weighted(sums: Sums) -> Iterator[tuple[tuple[str, ...], float]]:
    """Yield frames and time, below the thread if there are several."""
    several = len({thread for thread, _ in sums}) > 1
    for (thread, frames), (_, time_ns) in sums.items():
        yield ((thread or "(thread)", *frames) if several else frames), time_ns


def table(of_steps: Mapping[int, Sums], raw: Raw) -> pa.Table:
    """Return table `sampled_stacks` of one rank; `of_steps` are by step, -1 where not known."""
    rows = [
        (thread, joined(frames), step, *sampled)
        for step, sums in of_steps.items()
        for (thread, frames), sampled in sums.items()
    ]
    columns: dict[str, Any] = {
        "rank": [raw.rank] * len(rows),
        "repeat": [raw.repeat] * len(rows),
        "thread": [thread for thread, *_ in rows],
        "stack": [stack for _, stack, *_ in rows],
        "samples": [samples for *_, samples, _ in rows],
        "duration_ns": [round(time_ns) for *_, time_ns in rows],
        "step": [step for _, _, step, *_ in rows],
    }
    return schema.table("sampled_stacks", columns)
