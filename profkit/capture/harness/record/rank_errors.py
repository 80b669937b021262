"""Errors that end ranks, each in a file of its own until the capture has been judged."""

from pathlib import Path

from profkit.capture.base import Rank
from profkit.core.formatting import cut, without_styles
from profkit.core.secret_masking import Masker

SUFFIX = ".error.txt"
_SUMMARY_LENGTH = 2000
_DETAILS_LENGTH = 100_000
_TRACEBACK = "Traceback (most recent call last):"


def write_error(out: Path, rank: Rank, summary: str, details: str) -> None:
    """Write the error that ended a rank, for `first_failure` and for people."""
    # What to do stands on a line of its own in profkit's errors.
    text = without_styles(_without_frames(summary)).replace("\n  hint:", ";")
    masked = Masker().text
    line = cut(" ".join(text.split()), _SUMMARY_LENGTH, masked)
    text = f"{line}\n\n{cut(details, _DETAILS_LENGTH, masked)}"
    # Texts of errors may hold what no encoding can: half of a pair of surrogates.
    path = out / f"{rank.label}{SUFFIX}"
    path.write_text(text, encoding="utf-8", errors="backslashreplace")


def _without_frames(text: str) -> str:
    """Return `text` without the frames of the tracebacks of other processes within it."""
    if _TRACEBACK not in text:
        return text
    lines = [line for line in text.splitlines() if _TRACEBACK not in line]
    return "\n".join(line for line in lines if not line.startswith((" ", "\t")))


def has_failed(out: Path) -> bool:
    """Say whether some rank has written an error."""
    return any(out.glob(f"*{SUFFIX}"))
