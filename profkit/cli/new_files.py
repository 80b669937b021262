"""Writing files for a user to change: all of them or none, and never over another."""

import sys
from collections.abc import Mapping
from pathlib import Path

from profkit.core.errors import InputError


def write(files: Mapping[Path, str]) -> None:
    """Write each text to its path and print the path; raises `InputError` if one is there."""
    if there := [str(path) for path in files if path.exists()]:
        raise InputError(
            f"{', '.join(there)}: there already, nothing is written",
            hint="remove it, or name another folder",
        )
    for path, text in files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}", hint="name another folder") from None
        sys.stdout.write(f"{path}\n")
