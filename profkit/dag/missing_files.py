"""Files that are gone although what was made of them is there.

Snakemake makes an intermediate file again only if something asks for it. So what is gone is
counted, the count is among the params of the job that asks for it or makes it, and a changed
count makes that job stale. Counts only grow: what was made again stays fresh.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from profkit.core.atomic_write import write_atomically

COUNTS = Path("results/.profkit/missing.json")


def counted(groups: Mapping[str, tuple[str, Iterable[str]]]) -> dict[str, int]:
    """Return how often each group was found with files gone, this time included.

    A group is a file that was made last and the files that have to be there with it.
    """
    counts: dict[str, int] = json.loads(COUNTS.read_bytes()) if COUNTS.is_file() else {}
    gone = [
        name
        for name, (last, files) in groups.items()
        if Path(last).exists() and not all(Path(each).exists() for each in files)
    ]
    if gone:
        counts |= {name: counts.get(name, 0) + 1 for name in gone}
        write_atomically(COUNTS, json.dumps(counts, sort_keys=True).encode())
    return {name: counts.get(name, 0) for name in groups}
