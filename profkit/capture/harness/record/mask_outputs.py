"""Secrets in what a capture leaves: masked in texts, and named where a tool keeps them."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from profkit.capture.base import Tool
from profkit.core.secret_masking import Masker, is_secret_name

_TEXTS = ("capture.log", "*.error.txt")
# Without what was masked in these, a capture cannot be made again.
_ASKED = ("command", "settings", "workload")


def guard(out: Path, tool: Tool) -> list[str]:
    """Mask secrets in the texts of a capture, and return warnings about them and other files."""
    masker = Masker()
    for path in (each for pattern in _TEXTS for each in sorted(out.glob(pattern))):
        masker.file(path, path.name)
    return [*masker.warnings(), *_kept(out, tool)]


def masked(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a capture without secrets; a warning says where one was asked for."""
    asked, told = Masker(), Masker()
    shown = {
        key: (asked if key in _ASKED else told).document(value, key)
        for key, value in record.items()
    }
    shown["command"] = asked.command(record["command"], "command")
    return shown | {"warnings": [*shown["warnings"], *asked.warnings()]}


def _kept(out: Path, tool: Tool, environment: Mapping[str, str] = os.environ) -> Iterator[str]:
    """Yield a warning if there are files in which the tool keeps the environment."""
    paths = {path for pattern in tool.files_with_environment for path in out.rglob(pattern)}
    if paths:
        names = ", ".join(sorted(str(path.relative_to(out)) for path in paths))
        secret = ", ".join(sorted(name for name in environment if is_secret_name(name)))
        told = f", {secret} among them" if secret else ""
        yield f"{names}: holds all environment variables of the run{told}; mind whom you give it to"
