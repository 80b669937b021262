"""Reading ``manifest.json``: what made a run."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec


@dataclass(frozen=True, kw_only=True, slots=True)
class ManifestCapture:
    """One capture of the run."""

    tool: str
    repeat: int
    started: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """The fields of a manifest that profkit itself reads again."""

    run: str
    command: str
    behaviour: dict[str, Any]
    tools: dict[str, Any]
    captures: tuple[ManifestCapture, ...]
    attempt: int = 1
    facts: dict[str, Any] = field(default_factory=dict)
    """All that it holds, by name."""


def read_manifest(path: Path) -> Manifest | None:
    """Return the manifest at `path`; None if it is damaged."""
    try:
        facts = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        return msgspec.convert({**facts, "facts": facts}, Manifest)
    except msgspec.MsgspecError:
        return None
