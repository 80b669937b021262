"""The record that `memory_layers` leaves of one rank, read and checked, and its table."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import pyarrow as pa

from profkit.convert.base import Raw
from profkit.core.errors import InputError
from profkit.tables import schema

KINDS = (
    "parameters",
    "gathered",
    "gradients",
    "masters",
    "states",
    "activations",
    "buffers",
    "buckets",
    "kept",
    "other",
    "rest",
    "cache",
)
"""Kinds of memory, in the order in which they are shown."""

_SCHEMA_VERSION = 1


class Row(msgspec.Struct, array_like=True, frozen=True):
    """Memory of one module, by kind, device and data type."""

    model: str
    module: str
    kind: str
    device: str
    dtype: str
    size_bytes: int
    tensors: int
    elements: int


class State(msgspec.Struct, frozen=True):
    """One instant."""

    step: int
    point: str
    time_ns: int
    rows: tuple[Row, ...]

    @property
    def name(self) -> str:
        """Step and point in words."""
        when = "before the first step" if self.step < 0 else f"step {self.step}"
        return when if self.point == "set_up" else f"{when}, {_POINTS.get(self.point, self.point)}"

    def bytes_of(self, *kinds: str) -> int:
        """Return the bytes of `kinds`, of all if there are none."""
        return sum(row.size_bytes for row in self.rows if not kinds or row.kind in kinds)


_POINTS = {
    "forward": "after forward",
    "backward": "after backward",
    "optimizer": "after the optimizer",
}


class Layers(msgspec.Struct, frozen=True):
    """All instants of one rank, in order of time."""

    schema_version: int
    states: tuple[State, ...]
    models: dict[str, dict[str, str]]
    """Class of each module, by model and path."""


def read(path: Path) -> Layers:
    """Return the record at `path`; raises `InputError` if it is damaged or of another version."""
    try:
        layers = msgspec.json.decode(path.read_bytes(), type=Layers)
    except msgspec.MsgspecError as error:
        raise InputError(f"{path}: not a record of layers: {error}", hint="capture again") from None
    if layers.schema_version != _SCHEMA_VERSION:
        raise InputError(
            f"{path}: a record of version {layers.schema_version}, not {_SCHEMA_VERSION}",
            hint="capture again",
        )
    return layers


def table(layers: Layers, raw: Raw) -> pa.Table:
    """Return the table `layers` of one rank and repeat."""
    rows = list(_rows(layers))
    columns: Mapping[str, list[object]] = {
        name: [row[name] for row in rows] for name in schema.TABLES["layers"].names[2:]
    }
    where = {"rank": [raw.rank] * len(rows), "repeat": [raw.repeat] * len(rows)}
    return schema.table("layers", {**where, **columns})


def _rows(layers: Layers) -> Iterator[dict[str, object]]:
    for state in layers.states:
        instant = {"step": state.step, "point": state.point, "time_ns": state.time_ns}
        for row in state.rows:
            classes = layers.models.get(row.model, {})
            yield {
                **instant,
                **msgspec.structs.asdict(row),
                "module_class": classes.get(row.module, ""),
            }
