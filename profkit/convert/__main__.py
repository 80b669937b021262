"""``profkit convert TOOL``: the raw files of all captures of one tool become its tables."""

import argparse
import json
import multiprocessing
import os
import re
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from profkit import events, registry, schema
from profkit.convert import STEPS, converter, has_converter
from profkit.convert.base import Raw
from profkit.errors import InputError, ProfkitError
from profkit.files import write_atomically
from profkit.fingerprint import provenance
from profkit.records import imported_files

_RANK = re.compile(r"rank(\d+)")
_NUMBERED = {
    **dict.fromkeys(("op", "parent", "forward"), "cpu_ops"),
    **dict.fromkeys(("call", "caller"), "python_calls"),
    "collective": "collectives",
    "kernel": "measured_kernels",
}
"""Columns that hold row numbers of a table, which count on over the files of a rank and repeat."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Note:
    """One thing that a reader of the tables should know about one file."""

    file: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """What one raw file became: a folder with one Parquet file per table."""

    raw: Raw
    folder: Path | None
    """None if the file could not be read."""
    rows: Mapping[str, int] = field(default_factory=dict)
    """Number of rows of each table that other rows refer to."""
    notes: tuple[str, ...] = ()


def main(argv: Sequence[str]) -> None:
    """Convert what `argv` describes; raises `ProfkitError` if nothing of it can be read."""
    options = _parser().parse_args(argv)
    about = {"stage": "convert", "run": _run(options.tables), "name": options.tool}
    events.emit("started", **about)
    try:
        convert(options.tool, options.captures, options.tables, options.files, options.cores)
    except ProfkitError as error:
        events.emit("failed", **about, reason=str(error))
        raise
    events.emit("finished", **about)


def convert(tool: str, captures: Sequence[Path], tables: Path, files: Path, cores: int) -> None:
    """Leave the tables of `tool` and ``convert.json`` in `tables`, and what people open in `files`.

    Memory is bounded by what one raw file needs in each process: the parts are joined a row group
    of as many tables as there are `cores` at a time.
    """
    for folder in (tables, files):
        folder.mkdir(parents=True, exist_ok=True)
    good, notes = _good(captures, after_oom=has_converter(tool) and converter(tool).after_oom)
    module = registry.module_names("profkit.convert").get(tool, "profkit.convert.__main__")
    with (
        tempfile.TemporaryDirectory(dir=tables, prefix=".parts-") as scratch,
        ThreadPoolExecutor(1) as beside,
    ):
        # Hashing takes as long as a tenth of the reading, and can be done at the same time.
        proven = beside.submit(provenance, "profkit.convert", module, {}, _read_from(captures))
        if cores <= 1:
            proven.result()
        parts = _parts(tool, list(_raws(tool, good, notes)), files, Path(scratch), cores)
        notes += [Note(file=_shown(part.raw.path), text=t) for part in parts for t in part.notes]
        if parts and all(part.folder is None for part in parts):
            raise InputError(
                f"none of the {len(parts)} files of {tool} could be read; the first: "
                f"{parts[0].notes[0]}",
                hint=f"look at them in {captures[0].parent}, or capture again",
            )
        own = converter(tool).produces if has_converter(tool) else ()
        with ThreadPoolExecutor(max(cores, 1)) as joining:
            list(joining.map(lambda name: _join(tables / f"{name}.parquet", name, parts), own))
        if STEPS not in own:
            _write(tables / f"{STEPS}.parquet", STEPS, _harness_steps(good, notes))
        made_of = proven.result()
    record = {
        "schema_version": 1,
        "tool": tool,
        "notes": [asdict(note) for note in (*notes, *_edited(captures, made_of.inputs))],
        "provenance": asdict(made_of),
    }
    write_atomically(tables / "convert.json", json.dumps(record, indent=1).encode() + b"\n")


def _read_from(captures: Iterable[Path]) -> list[Path]:
    """Return the files that tell whether converting again would give the same."""
    records = [each / "capture.json" for each in captures]
    imported = [file for record in records for file in imported_files(record)]
    return [*records, *filter(Path.is_file, imported)]


def _edited(captures: Iterable[Path], hashes: Mapping[str, str]) -> list[Note]:
    """Return a note on each imported file that is no longer what the run is named after."""
    return [
        Note(file=_shown(file), text="It was edited after it was imported: import it again.")
        for folder in captures
        for file, imported in imported_files(folder / "capture.json").items()
        if hashes.get(str(file), imported) != imported
    ]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="profkit convert", description=__doc__)
    parser.add_argument("tool", help="the tool that captured")
    parser.add_argument(
        "--captures", type=Path, nargs="+", required=True, help="folder of each repeat"
    )
    parser.add_argument("--tables", type=Path, required=True, help="folder for the tables")
    parser.add_argument("--files", type=Path, required=True, help="folder for files to open")
    parser.add_argument("--cores", type=int, default=1, help="processes to use")
    return parser


def _run(tables: Path) -> str:
    """Return the name of the run, from ``results/runs/<run>/tables/<tool>``."""
    return tables.resolve().parent.parent.name


def _shown(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def _good(
    captures: Iterable[Path], *, after_oom: bool
) -> tuple[dict[Path, dict[str, Any]], list[Note]]:
    """Return the record of each capture that gives rows, and a note on each that failed."""
    good, notes = {}, []
    for folder in captures:
        record = _record(folder / "capture.json")
        if record["status"] == "ok":
            good[folder] = record
            continue
        if after_oom and record["status"] == "oom":
            good[folder] = record
            text = f"The capture ran out of memory: {record.get('reason', '')}"
        else:
            text = f"The capture gives no rows: {record['status']}: {record.get('reason', '')}"
        notes.append(Note(file=f"{folder.name}/capture.json", text=text))
    return good, notes


def _record(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_bytes())
        if {"status", "repeat", "ranks"} <= set(record):
            return dict(record)
    except FileNotFoundError:
        raise InputError(
            f"{path}: missing", hint="--captures takes the folders that `profkit capture` left"
        ) from None
    except (ValueError, TypeError):
        pass
    raise InputError(f"{path}: not the record of a capture", hint="capture again")


def _raws(tool: str, good: Mapping[Path, dict[str, Any]], notes: list[Note]) -> Iterator[Raw]:
    """Yield the raw files of each capture by rank and name; note each rank that has none."""
    if not has_converter(tool):
        return
    pattern = converter(tool).pattern
    for folder, record in good.items():
        found = [path for path in sorted(folder.glob(pattern)) if path.is_file()]
        # Ranks that the tool was told to leave alone have nothing to be missed.
        for label in record.get("profiled", record["ranks"]):
            own = [path for path in found if path.name.startswith(f"{label}.")]
            for path in own:
                yield Raw(path=path, label=label, rank=_rank(label), repeat=record["repeat"])
            if not own:
                text = f"No file of {label} matches {pattern}: this rank gives no rows."
                notes.append(Note(file=f"{folder.name}/capture.json", text=text))


def _rank(label: str) -> int:
    found = _RANK.match(label)
    return int(found[1]) if found else -1


def _parts(tool: str, raws: Sequence[Raw], files: Path, scratch: Path, cores: int) -> list[Part]:
    """Convert each raw file, in up to `cores` processes, and return the parts in order."""
    shared = cores if len(raws) == 1 else 1
    jobs = [
        (tool, replace(raw, cores=shared, scratch=scratch), files, scratch / str(number))
        for number, raw in enumerate(raws)
    ]
    if min(cores, len(jobs)) <= 1:
        return [_convert_one(*job) for job in jobs]
    # A fork server: forking a process that has loaded Arrow's threads can hang, and spawning
    # imports everything again in each process.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([registry.module_names("profkit.convert")[tool]])
    try:
        with ProcessPoolExecutor(min(cores, len(jobs)), mp_context=context) as pool:
            return list(pool.map(_convert_one, *zip(*jobs, strict=True)))
    except BrokenProcessPool:
        raise ProfkitError(
            f"a process that converted files of {tool} was killed, most likely for its memory",
            hint="convert with fewer --cores",
        ) from None


def _convert_one(tool: str, raw: Raw, files: Path, folder: Path) -> Part:
    """Convert one raw file to a Parquet file per table in `folder`."""
    try:
        converted = converter(tool).run(raw, files)
    except (ProfkitError, OSError) as error:
        # A note is one line of the report.
        reason = str(error).replace("\n  hint: ", "; ")
        return Part(raw=raw, folder=None, notes=(f"Not read: {reason}",))
    folder.mkdir()
    rows = {
        name: _write(
            folder / f"{name}.parquet",
            name,
            [table] if isinstance(table, pa.Table) else table,
            behind=raw.cores > 1,
        )
        for name, table in converted.tables.items()
    }
    numbered = {name: rows[name] for name in rows if name in _NUMBERED.values()}
    return Part(raw=raw, folder=folder, rows=numbered, notes=tuple(converted.notes))


def _join(path: Path, name: str, parts: Sequence[Part]) -> None:
    """Make one file of table `name` from those of all parts."""
    if len(parts) == 1 and parts[0].folder:
        # Writing once more would take as long as half of the reading.
        (parts[0].folder / f"{name}.parquet").replace(path)
    else:
        _write(path, name, _joined(name, parts))


def _joined(name: str, parts: Sequence[Part]) -> Iterator[pa.Table]:
    """Yield the rows of all parts; row numbers count on over the files of one rank and repeat."""
    before: dict[tuple[int, int], Counter[str]] = defaultdict(Counter)
    for part in parts:
        if part.folder is None:
            continue
        offsets = Counter(before[part.raw.rank, part.raw.repeat])
        before[part.raw.rank, part.raw.repeat].update(part.rows)
        with pq.ParquetFile(part.folder / f"{name}.parquet") as file:
            for group in range(file.num_row_groups):
                yield _shifted(file.read_row_group(group), offsets)


def _shifted(rows: pa.Table, offsets: Mapping[str, int]) -> pa.Table:
    from pyarrow import compute as pc  # noqa: PLC0415 - takes 60 ms, and one file needs it not

    for column, counted in _NUMBERED.items():
        at = rows.schema.get_field_index(column)
        if at >= 0 and (offset := offsets[counted]):
            values = rows.column(at)
            moved = pc.if_else(pc.less(values, 0), values, pc.add(values, offset))
            rows = rows.set_column(at, rows.schema.field(at), moved)
    return rows


def _harness_steps(good: Mapping[Path, dict[str, Any]], notes: list[Note]) -> Iterator[pa.Table]:
    """Yield the steps that the capture harness timed on each rank."""
    for folder, record in good.items():
        paths = sorted(folder.glob("*.steps.json"), key=lambda path: _rank(path.name))
        if not paths:
            text = "The harness left no steps: this repeat gives none."
            notes.append(Note(file=f"{folder.name}/capture.json", text=text))
        for path in paths:
            try:
                yield _steps(json.loads(path.read_bytes()), record["repeat"])
            except (ValueError, TypeError, KeyError, pa.ArrowException) as error:
                notes.append(Note(file=_shown(path), text=f"Not read: {error!r}"))


def _steps(timed: Mapping[str, Any], repeat: int) -> pa.Table:
    starts, ends, samples, peaks = zip(*timed["steps"], strict=True) if timed["steps"] else [()] * 4
    count = len(starts)
    return schema.table(
        STEPS,
        {
            "rank": [timed["rank"]] * count,
            "repeat": [repeat] * count,
            "step": range(count),
            "start_ns": starts,
            "end_ns": ends,
            "samples": samples,
            "peak_memory_bytes": peaks,
        },
    )


def _write(path: Path, name: str, tables: Iterable[pa.Table], *, behind: bool = False) -> int:
    """Write a Parquet file that nobody ever sees half of, and return its number of rows.

    `behind`: on a thread, while the next of `tables` is made.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    columns = schema.TABLES[name]
    rows = 0
    with (
        pq.ParquetWriter(temporary, columns, compression="zstd", **_encoding(columns)) as writer,
        ThreadPoolExecutor(1) as thread,
    ):
        writing = thread.submit(lambda: None)
        for table in tables:
            writing.result()
            writing = thread.submit(writer.write_table, table)
            rows += len(table)
            if not behind:
                writing.result()
        writing.result()
    temporary.replace(path)
    return rows


def _encoding(columns: pa.Schema) -> dict[str, Any]:
    """Return how columns are written: texts as dictionaries, integers as differences.

    Numbers repeat little, so that dictionaries of them only take time; most of them, like times
    and rows, differ little from the one before, which halves the time of compressing them.
    """
    texts = [each.name for each in columns if pa.types.is_dictionary(each.type)]
    whole = [each.name for each in columns if pa.types.is_integer(each.type)]
    return {
        "use_dictionary": texts,
        "column_encoding": dict.fromkeys(whole, "DELTA_BINARY_PACKED"),
    }


if __name__ == "__main__":
    # By its own name: worker processes cannot look functions up in a module called "__main__".
    from profkit.convert.__main__ import main as edge

    try:
        edge(sys.argv[1:])
    except ProfkitError as error:
        sys.exit(str(error))
