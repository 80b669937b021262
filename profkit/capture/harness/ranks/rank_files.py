"""The names of ranks in a capture: given at the start, and corrected at its end.

Tools name their files before the program has set up its process groups. So each rank leaves its
coordinates when it ends, and the files get their names then, before there is a record of them.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from profkit.capture.base import Rank
from profkit.capture.harness.ranks.coordinates import Told

_PLACE = ".place.json"


def leave(out: Path, start: Rank, told: Told) -> None:
    """Leave the coordinates of a rank, which was named as `start`."""
    path = out / f"{start.label}{_PLACE}"
    temporary = path.with_suffix(".part")
    temporary.write_text(json.dumps(asdict(told)))
    # Whoever waits for it must not read half of it.
    temporary.replace(path)


def has_left(out: Path, start: Rank) -> bool:
    """Say whether the rank that was named as `start` has come to its end."""
    return (out / f"{start.label}{_PLACE}").exists()


def settle(out: Path, ranks: Sequence[Rank]) -> tuple[list[Rank], list[str]]:
    """Rename the files of `ranks` in `out` by the coordinates that each has left.

    Return the ranks with these, and who said so. A rank that was killed keeps its first name.
    """
    left = [_left(out, start) for start in ranks]
    for start, told in zip(ranks, left, strict=True):
        if told.rank.label != start.label:
            _rename(out, start.label, told.rank.label)
    sources = {told.source for told in left if told.source}
    return [told.rank for told in left], sorted(sources)


def _left(out: Path, start: Rank) -> Told:
    """Return what the rank that was named as `start` has left, and remove it."""
    path = out / f"{start.label}{_PLACE}"
    if not path.is_file():
        return Told(rank=start, source="")
    values = json.loads(path.read_text())
    path.unlink()
    return Told(**{**values, "rank": Rank(**values["rank"])})


def _rename(out: Path, old: str, new: str) -> None:
    for path in out.glob(f"{old}.*"):
        path.rename(path.with_name(new + path.name.removeprefix(old)))
