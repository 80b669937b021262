"""Pickles from others, opened so that nothing in them can run.

A memory snapshot holds plain data only, so an unpickler that knows no class at all reads every
real one, and refuses what would import or call something before it does.
"""

import pickle
from pathlib import Path
from typing import Any

from profkit.convert.memory_snapshot.plain_data import PlainData, Refused, beyond_limits
from profkit.core.errors import InputError

_HINT = "give the pickle that torch.cuda.memory._dump_snapshot wrote"


def load(path: Path) -> Any:
    """Return the plain data in the pickle at `path`.

    Raises `InputError` for a pickle that would import or call anything, one that needs far more
    memory or time than its size explains, a truncated or damaged one, and a file of another kind.
    """
    if limit := beyond_limits(path):
        raise InputError(
            f"{path}: refused: reading its {path.stat().st_size:,} bytes takes {limit}", hint=_HINT
        )
    try:
        with path.open("rb") as file:
            return PlainData(file).load()
    except Refused as refused:
        raise InputError(
            f"{path}: refused: it would load {refused}; a memory snapshot holds plain data only",
            hint="do not open this file with pickle: it can run any command",
        ) from None
    except (EOFError, pickle.UnpicklingError) as error:
        raise InputError(f"{path}: {_reason(path, error)}", hint=_HINT) from None
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError) as error:
        raise InputError(f"{path}: a damaged pickle: {error}", hint=_HINT) from None
    except MemoryError:
        raise InputError(f"{path}: a pickle larger than memory", hint=_HINT) from None


def stated_rank(path: Path) -> int:
    """Return -1: a snapshot states no rank. Raises `InputError` if the file is no pickle."""
    if other := _other_kind(path):
        raise InputError(f"{path}: {other}", hint=_HINT)
    return -1


def _other_kind(path: Path) -> str:
    """Return the kind of a file that is plainly no pickle, or ""."""
    with path.open("rb") as file:
        head = file.read(16)
    if not head:
        return "an empty file"
    if head.lstrip()[:1] in (b"{", b"["):
        return "JSON, not the pickle of a memory snapshot"
    if head.startswith(b"PK"):
        return "a zip file, as torch.save writes them, not the pickle of a memory snapshot"
    return "a gzip file; unpack it first" if head.startswith(b"\x1f\x8b") else ""


def _reason(path: Path, error: Exception) -> str:
    """Return why the unpickler could not read the file."""
    if other := _other_kind(path):
        return other
    if isinstance(error, EOFError) or "truncated" in str(error):
        size = path.stat().st_size
        return f"cut off after {size:,} bytes: the process may have died while it wrote"
    return f"not a pickle, or a damaged one: {error}"
