"""Measured launches as tables."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from profkit.convert.ncu.launches import Advice, Launch, Metric
from profkit.tables import schema
from profkit.tables.tree_paths import joined


def tables(launches: Sequence[Launch], *, rank: int, repeat: int) -> dict[str, pa.Table]:
    """Return `measured_kernels`, `kernel_metrics` and `kernel_advice` of one file."""
    metrics = [
        (number, metric) for number, launch in enumerate(launches) for metric in launch.metrics
    ]
    advice = [(number, rule) for number, launch in enumerate(launches) for rule in launch.advice]
    made = {
        "measured_kernels": _launches(launches),
        "kernel_metrics": _metrics(launches, metrics),
        "kernel_advice": _advice(advice),
    }
    return {name: _table(name, columns, rank, repeat) for name, columns in made.items()}


def _table(name: str, columns: Mapping[str, Any], rank: int, repeat: int) -> pa.Table:
    count = len(columns["kernel"])
    where = {"rank": np.full(count, rank), "repeat": np.full(count, repeat)}
    return schema.table(name, {**where, **columns})


def _launches(launches: Sequence[Launch]) -> dict[str, Any]:
    copied = ("launch", "pid", "function", "name", "device", "device_name", "capability", "stream")
    return {
        "kernel": np.arange(len(launches)),
        **{name: [getattr(launch, name) for launch in launches] for name in copied},
        "grid": [_shape(launch.grid) for launch in launches],
        "block": [_shape(launch.block) for launch in launches],
        "ranges": [joined(launch.ranges) for launch in launches],
    }


def _shape(shape: list[int]) -> str:
    # Without white space, as in the tables of traces, with which kernels are joined by shape.
    return json.dumps(shape, separators=(",", ":")) if shape else ""


def _metrics(launches: Sequence[Launch], rows: Sequence[tuple[int, Metric]]) -> dict[str, Any]:
    unknown = np.full(len(rows), -1)
    return {
        "kernel": np.array([number for number, _ in rows], dtype=np.int64),
        "correlation": unknown,
        "op": unknown,
        "name": [launches[number].name for number, _ in rows],
        "metric": [metric.name for _, metric in rows],
        "value": [np.nan if metric.value is None else metric.value for _, metric in rows],
        "unit": [metric.unit for _, metric in rows],
        "text": [metric.text for _, metric in rows],
    }


def _advice(rows: Sequence[tuple[int, Advice]]) -> dict[str, Any]:
    texts = ("section", "rule", "kind", "title", "message", "speedup_scope")
    return {
        "kernel": np.array([number for number, _ in rows], dtype=np.int64),
        **{name: [getattr(rule, name) for _, rule in rows] for name in texts},
        "speedup_percent": [
            np.nan if rule.speedup_percent is None else rule.speedup_percent for _, rule in rows
        ],
    }
