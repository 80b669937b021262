"""Comparisons that are kept in ``results/comparisons``, to be shown again."""

from pathlib import Path

import msgspec

from profkit.cli.comparison import Comparison, document
from profkit.cli.comparison_section import section
from profkit.core.atomic_write import write_atomically
from profkit.core.errors import InputError
from profkit.core.saved_results import COMPARISONS, comparison_file


class _Kept(msgspec.Struct):
    """The part of a comparison that is shown again, and its two runs."""

    text: tuple[str, ...]
    a: str
    b: str


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


def compared_names(name: str | None) -> tuple[str, str]:
    """Return the names of the runs of a comparison, the newest one if none is named.

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
    kept = _kept(found)
    return kept.a, kept.b


def _kept(path: Path) -> _Kept:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Kept)
    except msgspec.MsgspecError as error:
        raise InputError(f"{path}: no comparison: {error}", hint="compare again") from None
