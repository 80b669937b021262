"""Comparisons that are kept in ``results/comparisons``, to be shown again."""

from pathlib import Path

import msgspec

from profkit.cli.comparison import Comparison, document
from profkit.cli.comparison_section import section
from profkit.core.atomic_write import write_atomically
from profkit.core.errors import InputError
from profkit.core.saved_results import COMPARISONS, comparison_file


class KeptComparison(msgspec.Struct):
    """The part of a comparison that is shown again, its two runs, and what a gate asks of it."""

    text: tuple[str, ...]
    a: str
    b: str
    confidence: float = 0.95
    """Confidence of its intervals; 95 % in files of earlier versions."""


def keep(name: str, comparison: Comparison) -> Path:
    """Keep a comparison under a name, and return its file."""
    path = comparison_file(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    content = document(comparison) | {"section": section(comparison)}
    write_atomically(path, msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n")
    return path


def kept_text(path: Path) -> tuple[str, ...]:
    """Return the lines of a comparison that was kept; raises `InputError`."""
    return _kept(path).text


def kept_comparison(name: str | None) -> KeptComparison:
    """Return a comparison, the newest one if none is named.

    Raises `InputError` if there is none, or none of that name.
    """
    if name is None:
        found = max(COMPARISONS.glob("*.json"), key=lambda path: path.stat().st_mtime, default=None)
    else:
        found = comparison_file(name)
    if found is None or not found.is_file():
        what = "no comparison was kept" if name is None else f"no comparison is called {name!r}"
        hint = "profkit compare --a ... --b ... makes one; --against NAME names a baseline"
        raise InputError(what, hint=hint)
    return _kept(found)


def _kept(path: Path) -> KeptComparison:
    try:
        return msgspec.json.decode(path.read_bytes(), type=KeptComparison)
    except msgspec.MsgspecError as error:
        raise InputError(f"{path}: no comparison: {error}", hint="compare again") from None
