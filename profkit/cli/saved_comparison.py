"""Comparisons that are kept in ``results/comparisons``, to be shown again."""

from pathlib import Path

import msgspec

from profkit.cli.comparison import Comparison, document
from profkit.cli.comparison_section import section
from profkit.core.atomic_write import write_atomically
from profkit.core.errors import InputError
from profkit.core.saved_results import comparison_file


class _Kept(msgspec.Struct):
    """The part of a comparison that is shown again."""

    text: tuple[str, ...]


def keep(name: str, comparison: Comparison) -> Path:
    """Keep a comparison under a name, and return its file."""
    path = comparison_file(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    content = document(comparison) | {"section": section(comparison)}
    write_atomically(path, msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n")
    return path


def kept_text(path: Path) -> tuple[str, ...]:
    """Return the lines of a comparison that was kept; raises `InputError`."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Kept).text
    except msgspec.MsgspecError as error:
        raise InputError(f"{path}: no comparison: {error}", hint="compare again") from None
