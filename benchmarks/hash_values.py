"""Hash every column of every table, and every result, that captures of a folder become.

    python benchmarks/hash_values.py [FOLDER] > after.txt; diff before.txt after.txt

FOLDER holds what ``profkit import`` takes: traces, memory snapshots, reports of nsys and ncu; left
out, it is `$PROFKIT_REAL_DATA` (or ``../shared/data``). Run it before and after a change that
should change no number, and compare what is printed: one line for each column (by value: equal
text has an equal hash, however it is encoded) and for each result.
"""

import argparse
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parents[1]))
from profkit.core.errors import InputError
from profkit.planning.imported_runs import add_run, find, import_kinds
from tests.stages import report_of

_KINDS = {
    "trace": ("*.json", "*.json.gz"),
    "snapshot": ("*.pickle",),
    "nsys": ("*.sqlite.gz", "*.nsys-rep"),
    "ncu": ("*.ncu-rep", "*.raw.csv", "*.details.csv"),
}


def main(argv: Sequence[str]) -> None:
    """Import, convert and analyse each capture, and print the hashes of what comes out."""
    parser = argparse.ArgumentParser(description=__doc__)
    default = os.environ.get("PROFKIT_REAL_DATA", Path(__file__).parents[2] / "shared/data")
    parser.add_argument("folder", type=Path, nargs="?", default=default)
    folder = parser.parse_args(argv).folder.resolve()
    for kind, name, paths in _captures(folder):
        # A result tree each: one holds a lock for as long as this process lives.
        with tempfile.TemporaryDirectory() as scratch:
            os.chdir(scratch)
            for line in _hashes(kind, name, paths):
                print(f"{kind} {paths[0].relative_to(folder)}: {line}", flush=True)
            os.chdir(folder)


def _captures(folder: Path) -> Iterator[tuple[str, str, list[Path]]]:
    """Yield each file by itself, and files of several ranks that lie together as one capture."""
    count = 0
    for kind, patterns in _KINDS.items():
        files = sorted({path for pattern in patterns for path in folder.rglob(pattern)})
        together = {path.parent for path in files if kind == "trace" and "rank" in path.parent.name}
        for path in [*files, *sorted(together)]:
            count += 1
            yield kind, f"capture{count}", [path]


def _hashes(kind: str, name: str, paths: list[Path]) -> Iterator[str]:
    tool, rules = import_kinds()[kind]
    try:
        run = add_run(find(paths, rules), tool, rules, name=name, command="profkit import")
        report_of(f"imports=[{run}]")  # type: ignore[no-untyped-call]
    except InputError as error:
        yield f"refused: {str(error).splitlines()[0].replace(str(paths[0].parent), '')}"
        return
    for table in sorted(Path("results/runs").rglob("*.parquet")):
        rows = pq.read_table(table)
        for column in rows.column_names:
            yield f"{table.stem}.{column} {len(rows)} {_of_column(rows[column])}"
    for result in sorted(Path("results/runs").rglob("analyze/*.json")):
        text = json.dumps(json.loads(result.read_bytes())["result"], sort_keys=True)
        yield f"{result.name} {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _of_column(column: pa.ChunkedArray) -> str:
    if pa.types.is_dictionary(column.type):
        # Numbered anew by first occurrence: how a file numbers its texts is no value.
        text = column.cast(column.type.value_type).combine_chunks().dictionary_encode()
        parts = [text.indices.to_numpy(), json.dumps(text.dictionary.to_pylist()).encode()]
    else:
        parts = [column.to_numpy()]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()[:16]


if __name__ == "__main__":
    main(sys.argv[1:])
