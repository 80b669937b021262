"""host_memory: CPU memory that memray saw live at the peak, by stack, and memory over time."""

import re
from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from profkit.convert._harness_steps import step_of, steps_of
from profkit.convert.base import Converted, Raw, converter
from profkit.convert.drawing import flamegraph
from profkit.core.errors import InputError
from profkit.tables import schema
from profkit.tables.tree_paths import joined

# Folders of packages; the rest of a path is the name that is imported.
_FOLDER = re.compile(r"^.*/(?:(?:site|dist)-packages|lib/python3\.\d+)/")

Sums = dict[tuple[str, ...], tuple[int, int]]
"""Number of allocations and bytes live at the peak, by frames from the root."""


@converter("host_stacks", "samples", pattern="rank*.memray.bin")
def convert(raw: Raw, out: Path) -> Converted:
    """Read memray's file of one rank; leave the flame graph of its peak in `out`."""
    sums, readings = read(raw.path)
    title = f"{raw.label}, repeat {raw.repeat}: what was live on the host at the peak"
    weighted = ((frames, float(size)) for frames, (_, size) in sums.items())
    drawing = flamegraph.svg(weighted, unit="bytes", title=title)
    path = out / f"{raw.label}.rep{raw.repeat}.flamegraph.svg"
    path.write_text(drawing, encoding="utf-8")
    return Converted(tables={"host_stacks": _stacks(sums, raw), "samples": _samples(readings, raw)})


def read(path: Path) -> tuple[Sums, list[tuple[int, int, int]]]:
    """Return memory live at the peak, and time in unix ms, resident and heap bytes over time."""
    try:
        from memray import FileReader  # noqa: PLC0415 - optional: only this tool needs it
    except ImportError:
        message = f"{path}: memray is not installed, which reads it"
        raise InputError(message, hint="pip install 'profkit[samplers]'") from None
    sums: Sums = defaultdict(lambda: (0, 0))
    try:
        with FileReader(path) as reader:
            has_native = reader.metadata.has_native_traces
            for record in reader.get_high_watermark_allocation_records(merge_threads=True):
                frames = record.hybrid_stack_trace() if has_native else record.stack_trace()
                key = tuple(_name(*frame) for frame in reversed(frames)) or ("(no Python)",)
                count, size = sums[key]
                sums[key] = count + record.n_allocations, size + record.size
            readings = [
                (reading.time, reading.rss, reading.heap)
                for reading in reader.get_memory_snapshots()
            ]
    except (OSError, RuntimeError, ValueError) as error:
        message = f"{path}: not what memray writes, or damaged: {error}"
        raise InputError(message, hint="capture again") from None
    return dict(sums), readings


@lru_cache(1 << 16)
def _name(function: str, file: str, line: int) -> str:
    return f"{function} ({_FOLDER.sub('', file)}:{line})" if file else function


def _stacks(sums: Sums, raw: Raw) -> pa.Table:
    count = len(sums)
    columns: dict[str, Any] = {
        "rank": [raw.rank] * count,
        "repeat": [raw.repeat] * count,
        "stack": [*map(joined, sums)],
        "allocations": [number for number, _ in sums.values()],
        "size_bytes": [size for _, size in sums.values()],
    }
    return schema.table("host_stacks", columns)


def _samples(readings: Iterable[tuple[int, int, int]], raw: Raw) -> pa.Table:
    """Return the process's memory over time; memray's clock is that of the steps, in ms."""
    given = np.array(list(readings), dtype=np.int64).reshape(-1, 3)
    times = given[:, 0] * 1_000_000
    metrics = ("memory_used_bytes", "heap_bytes")
    count = len(times) * len(metrics)
    steps = step_of(times, steps_of(raw))
    return schema.table(
        "samples",
        {
            "rank": [raw.rank] * count,
            "repeat": [raw.repeat] * count,
            "time_ns": np.tile(times, 2),
            "device": ["process"] * count,
            "metric": np.repeat(metrics, len(times)).tolist(),
            "kind": ["level"] * count,
            "value": np.concatenate([given[:, 1], given[:, 2]]).astype(np.float64),
            "unit": ["bytes"] * count,
            "step": np.tile(steps, 2),
        },
    )
