"""Mask secrets in the texts of a capture, and warn of files of tools that contain them."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from profkit.capture.base import Tool
from profkit.core.secret_masking import Masker, is_secret_name

_TEXTS = ("capture.log", "*.error.txt")
# With a masked secret in these, a capture cannot be repeated.
_REQUEST = ("command", "settings", "workload")


def mask_files(out: Path, tool: Tool) -> list[str]:
    """Mask secrets in the texts of a capture, and return warnings about them and other files."""
    masker = Masker()
    for pattern in _TEXTS:
        for path in sorted(out.glob(pattern)):
            masker.file(path, path.name)
    return [*masker.warnings(), *_environment_warning(out, tool)]


def mask_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a capture without secrets, with warnings on those of its request."""
    of_request, of_result = Masker(), Masker()
    shown = {
        key: (of_request if key in _REQUEST else of_result).document(value, key)
        for key, value in record.items()
    }
    shown["command"] = of_request.command(record["command"], "command")
    return shown | {"warnings": [*shown["warnings"], *of_request.warnings()]}


def _environment_warning(
    out: Path, tool: Tool, environment: Mapping[str, str] = os.environ
) -> Iterator[str]:
    """Yield a warning if files of the tool contain the environment variables."""
    paths = {path for pattern in tool.files_with_environment for path in out.rglob(pattern)}
    if paths:
        names = ", ".join(sorted(str(path.relative_to(out)) for path in paths))
        secret = ", ".join(sorted(name for name in environment if is_secret_name(name)))
        among = f", {secret} among them" if secret else ""
        yield (
            f"{names}: holds all environment variables of the run{among}; mind whom you give it to"
        )
