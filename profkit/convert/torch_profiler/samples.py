"""Stacks that profkit sampled inside the process, beside a trace of its own captures."""

from pathlib import Path

import msgspec
import pyarrow as pa

from profkit.convert.base import Raw
from profkit.core.errors import InputError
from profkit.tables import schema
from profkit.tables.tree_paths import SEPARATOR

SUFFIX = ".python.json"
_OF_TRACE = ".pt.trace.json"


class _Sampled(msgspec.Struct):
    """What `profkit.capture._python_samples` writes."""

    tid: int
    stacks: list[list[str]]
    samples: list[tuple[int, int]]
    pauses: list[tuple[int, int]]


def tables(raw: Raw) -> dict[str, pa.Table]:
    """Return the samples beside the trace `raw`; empty tables where there are none."""
    path = raw.path.with_name(raw.path.name.partition(_OF_TRACE)[0] + SUFFIX)
    if not path.is_file():
        return {name: schema.empty(name) for name in ("python_samples", "python_pauses")}
    read = _read(path)
    # Frames are written from the innermost.
    stacks = [SEPARATOR.join(reversed(frames)) for frames in read.stacks]
    where = {"rank": raw.rank, "repeat": raw.repeat, "tid": read.tid}
    samples, pauses = len(read.samples), len(read.pauses)
    return {
        "python_samples": schema.table(
            "python_samples",
            {name: [value] * samples for name, value in where.items()}
            | {
                "time_ns": [when for when, _ in read.samples],
                "stack": [stacks[number] for _, number in read.samples],
            },
        ),
        "python_pauses": schema.table(
            "python_pauses",
            {name: [value] * pauses for name, value in where.items()}
            | {
                "start_ns": [start for start, _ in read.pauses],
                "end_ns": [end for _, end in read.pauses],
            },
        ),
    }


def _read(path: Path) -> _Sampled:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Sampled)
    except msgspec.MsgspecError as error:
        raise InputError(f"{path}: not samples of profkit: {error}") from None
