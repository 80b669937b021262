"""A run of files that were never imported: made in this process, and gone at its end."""

import shlex
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import pyarrow as pa

from profkit.analyze import analysis
from profkit.analyze.__main__ import result_of
from profkit.analyze.base import Analysis
from profkit.capture.base import Rank
from profkit.cli.answer import ANALYSES
from profkit.convert import HOSTS
from profkit.convert.__main__ import convert_files, join_tables
from profkit.convert.base import Raw
from profkit.core import result
from profkit.core.formatting import counted
from profkit.core.hardware import AUTO
from profkit.core.job_record import CONVERSION, NOTHING, JobRecord
from profkit.planning.imported_runs import (
    ImportedFile,
    files_at,
    find,
    kind_of,
    kinds_in,
    plain_name,
    run_behaviour,
)
from profkit.planning.requirements import missing_requirement
from profkit.tables import schema

_MOST_NAMED = 4


@contextmanager
def unkept_run(paths: Sequence[Path]) -> Iterator[tuple[Path, str, list[Path]]]:
    """Convert the files at `paths` and make the analyses of the answer, by default settings.

    Yields the folder of the run, which is removed afterwards, what they are for ``profkit import``,
    and those of the `paths` that hold such. Analyses that the files cannot give are left out;
    raises `InputError` for files that are no recording.
    """
    tool, kind = kind_of(paths[0])
    files = find(paths, kind)
    size = max(file.rank for file in files) + 1
    with tempfile.TemporaryDirectory(prefix="profkit-show-") as scratch:
        run = Path(scratch, "results", "runs", _name(paths[0]))
        tables = run / "tables" / tool
        opened = run / "convert" / tool
        for folder in (tables, opened):
            folder.mkdir(parents=True)
        raws = [
            Raw(
                path=file.path,
                label=Rank(rank=file.rank, world_size=size, dp=file.rank).label,
                rank=file.rank,
                repeat=0,
                scratch=Path(scratch),
            )
            for file in files
        ]
        parts = convert_files(tool, raws, opened, Path(scratch))
        used = join_tables(tool, parts, tables, {HOSTS: [_hosts(files)]})
        notes = [{"file": file.path.name, "text": file.unlike} for file in files if file.unlike]
        notes += [{"file": part.raw.path.name, "text": t} for part in used for t in part.notes]
        left_out = (sentence.partition(": ") for file in files for sentence in file.left_out)
        notes += [{"file": name, "text": text} for name, _, text in left_out]
        record = JobRecord(provenance=NOTHING, notes=tuple(notes))
        (tables / CONVERSION).write_bytes(msgspec.json.encode(record))
        behaviour = run_behaviour(run.name, kind, size)
        with pd.option_context("mode.string_storage", "python"):
            _analyze(run, tool, {"hardware": {"name": AUTO}, "behaviour": behaviour})
        read = {part.raw.path for part in used if part.folder is not None}
        yield run, kind.word, [path for path in paths if {path, *files_at(path, kind)} & read]


def other_kinds(paths: Sequence[Path], word: str) -> Iterator[str]:
    """Yield which files of the folders in `paths` are not shown, as they are of other kinds."""
    for folder in filter(Path.is_dir, paths):
        for other in (kind for _, kind in kinds_in(folder) if kind.word != word):
            files = files_at(folder, other)
            shows = shlex.join(["profkit", "show", *map(str, files)])
            if len(files) > _MOST_NAMED:
                shows = shlex.join(["profkit", "import", other.word, str(folder)])
            yield f"{counted(len(files), 'file')} of kind {other.word} ({shows})"


def _hosts(files: Sequence[ImportedFile]) -> pa.Table:
    """Return where the ranks ran whose files say it."""
    stated = [file for file in files if file.host]
    columns = {"rank": [file.rank for file in stated], "host": [file.host for file in stated]}
    return schema.table(HOSTS, columns | {"repeat": [0] * len(stated)})


def _name(path: Path) -> str:
    return plain_name(path.resolve().name.partition(".")[0])


def _analyze(run: Path, tool: str, sections: dict[str, dict[str, Any]]) -> None:
    """Leave the results of the analyses of the answer, and of those that they read, in `run`."""
    needed: dict[str, Analysis] = {}
    for name in ANALYSES:
        _add(name, needed)
    tables = sorted((run / "tables" / tool).glob("*.parquet"))
    folder = run / "analyze"
    folder.mkdir()
    for name, one in needed.items():
        if missing_requirement(name, (tool,), needed):
            continue
        read = {section: sections[section] for section in one.run_parameters}
        results = [folder / f"{other}.json" for other in (*one.results, *one.results_if_there)]
        made = result_of(one, one.config(), read, tables, list(filter(Path.is_file, results)))
        result.write(
            folder / f"{name}.json",
            result.Document(
                analysis=name, title=one.title, summary="", result=made, provenance=NOTHING
            ),
        )


def _add(name: str, needed: dict[str, Analysis]) -> None:
    """Add an analysis to those `needed`, after the others whose results it reads."""
    if name not in needed:
        one = analysis(name)
        for other in (*one.results, *one.results_if_there):
            _add(other, needed)
        needed[name] = one
