"""Count intermediate files that are missing although the files made of them exist.

Snakemake makes an intermediate file again only if a job asks for it. So missing files are counted,
the count is among the params of the job that reads or makes them, and a changed count makes that
job stale. Counts only grow: a file that was made again stays fresh.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from profkit.core.atomic_write import write_atomically

COUNTS = Path("results/.profkit/missing.json")


def count_missing(groups: Mapping[str, tuple[str, Iterable[str]]]) -> dict[str, int]:
    """Return how often each group was found with missing files, this time included.

    A group is the file that was made last and the files that must exist with it.
    """
    counts: dict[str, int] = json.loads(COUNTS.read_bytes()) if COUNTS.is_file() else {}
    missing = [
        name
        for name, (last, files) in groups.items()
        if Path(last).exists() and not all(Path(file).exists() for file in files)
    ]
    if missing:
        counts |= {name: counts.get(name, 0) + 1 for name in missing}
        write_atomically(COUNTS, json.dumps(counts, sort_keys=True).encode())
    return {name: counts.get(name, 0) for name in groups}
