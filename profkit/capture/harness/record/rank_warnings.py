"""What a rank has to say about its capture, on its way to the warnings in ``capture.json``."""

from pathlib import Path

from profkit.capture.base import Rank

_NOTES = ".notes.txt"


def leave(out: Path, rank: Rank, text: str) -> None:
    """Leave one note, in a line of its own."""
    with (out / f"{rank.label}{_NOTES}").open("a") as file:
        file.write(" ".join(text.split()) + "\n")


def collect(out: Path) -> list[str]:
    """Return the notes in `out`, what several ranks say once, and remove their files."""
    texts = []
    for path in sorted(out.glob(f"*{_NOTES}")):
        texts += path.read_text().splitlines()
        path.unlink()
    return list(dict.fromkeys(texts))
