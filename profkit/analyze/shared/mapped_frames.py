"""What the map of an analysis makes of a batch of ranks, as a file between two jobs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import pandas as pd

from profkit.core.atomic_write import write_atomically
from profkit.core.errors import InputError, PluginError
from profkit.core.result import Provenance
from profkit.core.sealed_json import is_damaged, sealed

Frames = Mapping[str, pd.DataFrame]
"""Frames by name; their columns are of numbers, booleans or text."""

_AGAIN = "the next `profkit run` makes it again"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Column:
    kind: str
    """Its dtype."""

    values: list[Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class MapDocument:
    """The JSON file that a map leaves of some ranks."""

    provenance: Provenance
    parts: tuple[dict[str, dict[str, _Column]], ...] = ()
    """What it made of each part of the ranks: the columns of each frame."""

    attempt: int = 1
    status: Literal["ok", "failed"] = "ok"
    reason: str = ""


def write(path: Path, parts: Iterable[Frames], provenance: Provenance, attempt: int) -> None:
    """Leave what a map made at `path`; raises `PluginError` for frames that hold something else."""
    columns = tuple({name: _columns(name, part[name]) for name in part} for part in parts)
    made = MapDocument(provenance=provenance, parts=columns, attempt=attempt)
    write_atomically(path, sealed(msgspec.json.encode(made)))


def _columns(name: str, frame: pd.DataFrame) -> dict[str, _Column]:
    return {str(key): _column(f"{name}.{key}", frame[key]) for key in frame}


def _column(name: str, values: "pd.Series[Any]") -> _Column:
    kind = values.dtype
    if not isinstance(kind, np.dtype | pd.StringDtype) or kind.kind not in "biufO":
        raise PluginError(
            f"column {name} of a map is of {kind}", hint="make it numbers, booleans or text"
        )
    if kind.kind == "f" and np.isinf(values).any():
        raise PluginError(f"column {name} of a map is infinite somewhere")
    return _Column(kind=str(kind), values=values.tolist())


def read(paths: Sequence[Path]) -> dict[str, dict[str, pd.DataFrame]]:
    """Return the frames of each part in the files at `paths`, in order; by a name of the part."""
    return {
        f"{path.stem}.{number}": part for path in paths for number, part in enumerate(_parts(path))
    }


def _parts(path: Path) -> Iterator[dict[str, pd.DataFrame]]:
    content = path.read_bytes()
    try:
        made = msgspec.json.decode(content, type=MapDocument)
    except msgspec.MsgspecError as error:
        raise InputError(f"{path}: not what a map leaves: {error}", hint=_AGAIN) from None
    if made.status != "ok" or is_damaged(content):
        raise InputError(f"{path}: {made.reason or 'is damaged or was edited'}", hint=_AGAIN)
    for frames in made.parts:
        yield {name: _frame(columns) for name, columns in frames.items()}


def _frame(columns: Mapping[str, _Column]) -> pd.DataFrame:
    return pd.DataFrame(
        {name: pd.Series(one.values, dtype=one.kind) for name, one in columns.items()}
    )
