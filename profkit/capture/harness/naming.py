"""The names of ranks in a capture: given at the start, and corrected at its end.

Tools name their files before the program has set up its process groups. So each rank leaves its
coordinates when it ends, and the files get their names then, before there is a record of them.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from profkit.capture.base import Rank

_PLACE = ".place.json"


def leave(out: Path, start: Rank, rank: Rank, source: str) -> None:
    """Leave the coordinates of `rank`, which was named as `start`, and who said so."""
    path = out / f"{start.label}{_PLACE}"
    temporary = path.with_suffix(".part")
    temporary.write_text(json.dumps({"rank": asdict(rank), "source": source}))
    # Whoever waits for it must not read half of it.
    temporary.replace(path)


def has_left(out: Path, start: Rank) -> bool:
    """Say whether the rank that was named as `start` has come to its end."""
    return (out / f"{start.label}{_PLACE}").exists()


def settle(out: Path, ranks: Sequence[Rank]) -> tuple[list[Rank], list[str]]:
    """Rename the files of `ranks` in `out` by the coordinates that each has left.

    Return the ranks with these, and who said so. A rank that was killed keeps its first name.
    """
    settled, sources = [], set()
    for start in ranks:
        path = out / f"{start.label}{_PLACE}"
        rank = start
        if path.is_file():
            left = json.loads(path.read_text())
            rank = Rank(**left["rank"])
            sources.add(left["source"])
            path.unlink()
        if rank.label != start.label:
            _rename(out, start.label, rank.label)
        settled.append(rank)
    return settled, sorted(sources)


def _rename(out: Path, old: str, new: str) -> None:
    for path in out.glob(f"{old}.*"):
        path.rename(path.with_name(new + path.name.removeprefix(old)))
