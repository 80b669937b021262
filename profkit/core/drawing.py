"""Drawings of results: data that a module of the report's page draws, as no table or chart can."""

import base64
import gzip
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec


@dataclass(frozen=True, kw_only=True, slots=True)
class Detail:
    """A part of a drawing that is only unpacked when the reader asks for it."""

    name: str
    """What the reader asks for, for example "step 4, the slowest"."""

    packed: str
    """Its data: JSON, compressed by gzip, as base64."""

    @classmethod
    def of(cls, name: str, data: Any) -> "Detail":
        """Return the detail called `name` with `data`, which has to be plain."""
        # Without the time of packing, equal data are equal files.
        content = gzip.compress(msgspec.json.encode(data), compresslevel=6, mtime=0)
        return cls(name=name, packed=base64.b64encode(content).decode())

    def data(self) -> Any:
        """Return what was packed."""
        return msgspec.json.decode(gzip.decompress(base64.b64decode(self.packed)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Drawing:
    """Something to look at that is neither a table nor a chart: a timeline, a flame graph."""

    kind: str
    """Which module of the report's page draws it, for example ``flame``."""

    title: str
    """Title of the drawing."""

    data: Mapping[str, Any] = field(default_factory=dict)
    """What is drawn at once: plain and small, columns rather than rows, units in the keys."""

    details: tuple[Detail, ...] = ()
    """What is drawn when asked for, the most important first: the report leaves out the last ones
    if there is no room for all."""
