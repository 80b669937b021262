"""Reading ``manifest.json``: what made a run."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from profkit.core.sealed_json import is_damaged


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
    content = path.read_bytes()
    try:
        facts = msgspec.json.decode(content, type=dict[str, Any])
        made = msgspec.convert({**facts, "facts": facts}, Manifest)
    except msgspec.MsgspecError:
        return None
    return None if is_damaged(content) else made
