"""system: readings of the sampler, as samples beside the steps, and phases as annotations."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from profkit.convert._harness_steps import step_of, steps_of
from profkit.convert._json_lines import complete_lines
from profkit.convert.base import Converted, Raw, converter
from profkit.core.errors import InputError
from profkit.tables import schema

# Ends of names, the longest first, and the unit that they mean.
_UNITS = ("bytes_per_s", "percent", "bytes", "count", "mhz", "w", "j", "s", "c")
_COUNTERS = frozenset(
    {"cpu_s", "cpu_all_s", "energy_j"}
    | {"disk_read_bytes", "disk_write_bytes", "network_sent_bytes", "network_received_bytes"}
    | {f"{link}_{way}_bytes" for link in ("pcie", "nvlink") for way in ("sent", "received")}
)


class _Line(msgspec.Struct):
    """A line of the file: a sample, a phase, or the cost of sampling."""

    time_ns: int = -1
    readings: dict[str, dict[str, float]] = {}
    phase: str = ""
    kind: str = ""
    start_ns: int = -1
    end_ns: int = -1
    cpu_ns: int = -1
    elapsed_ns: int = -1


@converter("samples", "annotations", pattern="rank*.samples.jsonl")
def convert(raw: Raw, out: Path) -> Converted:
    """Read the samples of one rank; steps are those that its step clock left beside them."""
    del out
    lines, notes = complete_lines(raw.path, _Line)
    steps = steps_of(raw)
    samples = [line for line in lines if line.time_ns >= 0]
    if not samples:
        raise InputError(f"{raw.path}: holds no sample", hint="capture again")
    notes += [_cost(line) for line in lines if line.elapsed_ns > 0]
    tables = {
        "samples": _samples(samples, steps, raw),
        "annotations": _annotations([line for line in lines if line.phase], steps, raw),
    }
    return Converted(tables=tables, notes=tuple(notes))


def _cost(line: _Line) -> str:
    share = line.cpu_ns / line.elapsed_ns
    return f"Sampling took {share:.2%} of one CPU's time."


def _samples(lines: list[_Line], steps: NDArray[np.int64], raw: Raw) -> pa.Table:
    times = np.array([line.time_ns for line in lines], dtype=np.int64)
    columns: dict[str, list[Any]] = {
        name: [] for name in ("time_ns", "device", "metric", "kind", "value", "unit", "step")
    }
    for line, step in zip(lines, step_of(times, steps).tolist(), strict=True):
        for row in _rows(line):
            for name, value in {**row, "time_ns": line.time_ns, "step": step}.items():
                columns[name].append(value)
    count = len(columns["time_ns"])
    where = {"rank": [raw.rank] * count, "repeat": [raw.repeat] * count}
    return schema.table("samples", where | columns)


def _rows(line: _Line) -> Iterator[dict[str, Any]]:
    for device, readings in line.readings.items():
        for metric, value in readings.items():
            kind = "counter" if metric in _COUNTERS else "level"
            yield {
                "device": device,
                "metric": metric,
                "kind": kind,
                "value": float(value),
                "unit": next((unit for unit in _UNITS if metric.endswith(f"_{unit}")), ""),
            }


def _annotations(phases: list[_Line], steps: NDArray[np.int64], raw: Raw) -> pa.Table:
    count = len(phases)
    starts = np.array([phase.start_ns for phase in phases], dtype=np.int64)
    return schema.table(
        "annotations",
        {
            "rank": [raw.rank] * count,
            "repeat": [raw.repeat] * count,
            "kind": [phase.kind for phase in phases],
            "tid": [-1] * count,
            "name": [phase.phase for phase in phases],
            "start_ns": starts,
            "end_ns": [phase.end_ns for phase in phases],
            "op": [-1] * count,
            "step": step_of(starts, steps),
        },
    )
