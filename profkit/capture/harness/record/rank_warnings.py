"""Notes of ranks about their capture, which become warnings in ``capture.json``."""

from pathlib import Path

from profkit.capture.base import Rank

_NOTES = ".notes.txt"


def add(out: Path, rank: Rank, text: str) -> None:
    """Add one note, in a line of its own."""
    with (out / f"{rank.label}{_NOTES}").open(
        "a", encoding="utf-8", errors="backslashreplace"
    ) as file:
        file.write(" ".join(text.split()) + "\n")


def collect(out: Path) -> list[str]:
    """Return the notes in `out`, equal ones of several ranks once, and remove their files."""
    texts = []
    for path in sorted(out.glob(f"*{_NOTES}")):
        texts += path.read_text(encoding="utf-8").splitlines()
        path.unlink()
    return list(dict.fromkeys(texts))
