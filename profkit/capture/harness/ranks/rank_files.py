"""File names of ranks: given at the start of a capture, and corrected at its end.

Tools name their files before the program has set up its process groups. So each rank writes its
coordinates when it ends, and its files are then renamed, before they are in the record.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from profkit.capture.base import Rank
from profkit.capture.harness.ranks.coordinates import LocatedRank

_COORDINATES = ".coordinates.json"


def write_coordinates(out: Path, start: Rank, located: LocatedRank) -> None:
    """Write the coordinates of a rank, whose files are named after `start`."""
    path = out / f"{start.label}{_COORDINATES}"
    temporary = path.with_suffix(".part")
    temporary.write_text(json.dumps(asdict(located)))
    # Ranks that wait for this file must not read half of it.
    temporary.replace(path)


def has_finished(out: Path, start: Rank) -> bool:
    """Say whether the rank with files named after `start` has ended."""
    return (out / f"{start.label}{_COORDINATES}").exists()


def rename_files(out: Path, ranks: Sequence[Rank]) -> tuple[list[Rank], list[str]]:
    """Rename the files of `ranks` in `out` by the coordinates that each has written.

    Return the ranks with these, and their sources. A rank that was killed keeps its first name.
    """
    located_ranks = [pop_coordinates(out, start) for start in ranks]
    for start, located in zip(ranks, located_ranks, strict=True):
        if located.rank.label != start.label:
            rename(out, start.label, located.rank.label)
    sources = {located.source for located in located_ranks if located.source}
    return [located.rank for located in located_ranks], sorted(sources)


def pop_coordinates(out: Path, start: Rank) -> LocatedRank:
    """Return the coordinates of the rank with files named after `start`, and remove their file."""
    path = out / f"{start.label}{_COORDINATES}"
    if not path.is_file():
        return LocatedRank(rank=start, source="")
    values = json.loads(path.read_text())
    path.unlink()
    return LocatedRank(**{**values, "rank": Rank(**values["rank"])})


def rename(out: Path, old: str, new: str) -> None:
    """Rename the files in `out` whose names begin with the label `old`."""
    for path in out.glob(f"{old}.*"):
        path.rename(path.with_name(new + path.name.removeprefix(old)))
