"""torch_benchmark: the measurements of each part of a step."""

from pathlib import Path
from typing import Annotated, Any

import msgspec

from profkit.convert.base import Converted, Raw, converter
from profkit.core.errors import InputError
from profkit.tables import schema

_Count = Annotated[int, msgspec.Meta(ge=1, lt=1 << 31)]


class _Measurement(msgspec.Struct):
    calls: _Count
    seconds: list[Annotated[float, msgspec.Meta(gt=0, lt=1e9)]]


class _Benchmark(msgspec.Struct):
    """Measurements of one rank; seconds are those of all calls of a measurement together."""

    device: str
    threads: _Count
    parts: dict[str, list[_Measurement]]


@converter("benchmarks", pattern="rank*.benchmark.json")
def convert(raw: Raw, out: Path) -> Converted:
    """Read the measurements of one rank."""
    del out
    try:
        measured = msgspec.json.decode(raw.path.read_bytes(), type=_Benchmark)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        message = f"{raw.path}: not what torch_benchmark leaves: {error}"
        raise InputError(message, hint="capture again") from None
    columns: dict[str, list[Any]] = {name: [] for name in schema.TABLES["benchmarks"].names}
    for part, measurements in measured.parts.items():
        times = [
            (measurement.calls, seconds)
            for measurement in measurements
            for seconds in measurement.seconds
        ]
        for index, (calls, seconds) in enumerate(times):
            row = {"part": part, "measurement": index, "calls": calls}
            row |= {"rank": raw.rank, "repeat": raw.repeat, "call_ns": seconds / calls * 1e9}
            row |= {"threads": measured.threads, "device": measured.device}
            for name, value in row.items():
                columns[name].append(value)
    empty = [part for part in measured.parts if part not in columns["part"]]
    if not measured.parts:
        empty = ["any part of the step"]
    notes = [f"No measurement was left of {part}." for part in empty]
    return Converted(tables={"benchmarks": schema.table("benchmarks", columns)}, notes=tuple(notes))
