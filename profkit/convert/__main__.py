"""``profkit convert TOOL``: the raw files of all captures of one tool become its tables."""

import argparse
import errno
import json
import shutil
import sys
import tempfile
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from profkit.convert import HOSTS, STEPS, converter, has_converter, produced
from profkit.convert._captured_files import Note, good_captures, raw_files
from profkit.convert._gone_files import apart, parts_of
from profkit.convert._harness_tables import hosts_table, rank_of, steps_table
from profkit.convert._join_parts import Part, file_label, join, referenced_rows, with_unique_ids
from profkit.convert._parquet import write
from profkit.convert._part_tables import write_tables
from profkit.convert._parts_of_ranks import FILES, copy_files, read_parts, write_parts
from profkit.convert.base import Raw
from profkit.core import job_usage, progress_events, registry, run_settings
from profkit.core.atomic_write import write_atomically
from profkit.core.capture_record import damaged_files, imported_files, untouched_files
from profkit.core.checksums import checksum, sha256
from profkit.core.errors import InputError, ProfkitError
from profkit.core.fingerprint import provenance
from profkit.core.job_record import CONVERSION, Status
from profkit.core.rank_spans import EVERY_RANK, RankSpan
from profkit.core.result import Provenance
from profkit.core.run_settings import RunSettings
from profkit.core.sealed_json import sealed
from profkit.process import helpers, malloc

_LARGE_BYTES = 64 << 20
"""Smaller files are converted before another process could help."""
_SMALL_BYTES = 8 << 20
"""Of smaller files that will be joined the tables take as much room as the file, for a while."""
_DISK_IS_FULL = (errno.ENOSPC, errno.EDQUOT)
_NOT_READ = "Not read: "


def main(argv: Sequence[str]) -> None:
    """Convert the captures that `argv` names; raises `ProfkitError` if none can be read."""
    parser = _parser()
    options = parser.parse_args(argv)
    if not (options.batch or (options.tables and options.files)):
        parser.error("give --tables and --files, or --batch")
    malloc.keep_freed()
    run = _run(options.batch.parent if options.batch else options.tables)
    about = {"stage": "convert", "run": run, "name": options.tool}
    progress_events.emit("started", **about)
    how: dict[str, Any] = {
        "attempt": options.attempt,
        "cores": options.cores,
        "block_bytes": options.run_settings.trace_block_mb << 20,
    }
    try:
        with job_usage.recorded(options.usage):
            if options.batch:
                convert_batch(options.tool, options.captures, options.batch, options.ranks, **how)
            else:
                where = options.tables, options.files
                convert(options.tool, options.captures, *where, batches=options.batches, **how)
    except BaseException as error:
        progress_events.emit("failed", **about, reason=str(error))
        raise
    progress_events.emit("finished", **about)


def convert(  # noqa: PLR0913 - the arguments of the job
    tool: str,
    captures: Sequence[Path],
    tables: Path,
    files: Path,
    *,
    batches: Sequence[Path] = (),
    attempt: int = 1,
    cores: int = 1,
    block_bytes: int = RunSettings.trace_block_mb << 20,
) -> None:
    """Leave the tables of `tool` and ``convert.json`` in `tables`, and files to open in `files`.

    They are made of what other jobs left in `batches`, or of the raw files where there are none.
    Memory is bounded by what one raw file needs in each process, which for a trace follows
    `block_bytes`: the parts are joined a row group of each of `cores` tables at a time.
    """
    for folder in (tables, files):
        folder.mkdir(parents=True, exist_ok=True)
    good, notes = _good(tool, captures)
    raws = _shared_out([*raw_files(tool, good, EVERY_RANK, notes)], cores, block_bytes)
    place = {raw.path: number for number, raw in enumerate(raws)}
    raws, gone = apart(raws, good)
    with (
        tempfile.TemporaryDirectory(dir=tables, prefix=".parts-") as scratch,
        _helping(tool, () if batches else raws, cores) as pool,
        ThreadPoolExecutor(1) as beside,
    ):
        # Hashing takes as long as a tenth of the reading, and can be done at the same time.
        proven = beside.submit(_provenance, tool, captures, batches)
        damaged = beside.submit(_damaged_files, captures)
        if cores <= 1:
            damaged.result()
        if batches:
            parts = read_parts(raws, batches)
            copy_files(batches, files)
        else:
            parts = convert_files(tool, raws, files, Path(scratch), pool)
        parts = [*parts, *parts_of(tool, gone, good, files)]
        parts.sort(key=lambda part: place[part.raw.path])
        parts = [_unless_damaged(part, damaged.result()) for part in parts]
        unread: list[Note] = []
        steps = _harness_steps(good, damaged.result(), unread)
        recorded = {STEPS: steps, HOSTS: map(hosts_table, good.values())}
        parts = join_tables(tool, parts, tables, recorded, cores)
        notes += [*_notes_on(parts), *unread]
        made_of = proven.result()
    status, reason = _outcome(parts, damaged.result())
    record = {
        "schema_version": 1,
        "tool": tool,
        "attempt": attempt,
        "status": status,
        "reason": reason,
        "notes": [asdict(note) for note in (*notes, *_edited(captures, made_of.inputs))],
        "gpus": _gpus(tool, tables),
        "tables": {name: asdict(checksum(tables / f"{name}.parquet")) for name in produced(tool)},
        "provenance": asdict(made_of),
    }
    write_atomically(tables / CONVERSION, sealed(json.dumps(record, indent=1).encode() + b"\n"))


def convert_batch(  # noqa: PLR0913 - the arguments of the job
    tool: str,
    captures: Sequence[Path],
    batch: Path,
    ranks: RankSpan,
    *,
    attempt: int = 1,
    cores: int = 1,
    block_bytes: int = RunSettings.trace_block_mb << 20,
) -> None:
    """Leave in the folder `batch` what the files of some `ranks` become, for `convert` to join."""
    files = batch / FILES
    shutil.rmtree(batch, ignore_errors=True)  # of an attempt that was broken off
    files.mkdir(parents=True)
    good, _ = _good(tool, captures)
    raws = _shared_out([*raw_files(tool, good, ranks, [])], cores, block_bytes)
    raws, _ = apart(raws, good)
    with _helping(tool, raws, cores) as pool:
        parts = convert_files(tool, raws, files, batch, pool)
    made_of = provenance("profkit.convert", registry.converter_module(tool), {}, {})
    write_parts(batch, parts, made_of, attempt)


def _good(tool: str, captures: Sequence[Path]) -> tuple[dict[Path, dict[str, Any]], list[Note]]:
    return good_captures(captures, after_oom=has_converter(tool) and converter(tool).after_oom)


def _shared_out(raws: Sequence[Raw], cores: int, block_bytes: int) -> list[Raw]:
    """Return the raw files with what each may take: all cores if it is the only one."""
    own = cores if len(raws) == 1 else 1
    return [replace(raw, cores=own, block_bytes=block_bytes) for raw in raws]


def join_tables(
    tool: str,
    parts: Sequence[Part],
    tables: Path,
    recorded: Mapping[str, Iterable[pa.Table]],
    cores: int = 1,
) -> list[Part]:
    """Leave the tables that `parts` make together in `tables`; return the parts as they were used.

    `recorded` are tables that the files need not hold, by name. Raises `InputError` if no part
    could be read.
    """
    if parts and all(part.folder is None for part in parts):
        why = parts[0].notes[0].removeprefix(_NOT_READ).removesuffix(".")
        if len(parts) == 1:
            raise InputError(why)
        folder = parts[0].raw.path.parent
        raise InputError(
            f"none of the {len(parts)} files of {tool} could be read; the first: {why}",
            hint=f"look at what is in {folder}, or capture again",
        )
    used = with_unique_ids(parts, whole=has_converter(tool) and converter(tool).whole)
    own = converter(tool).produces if has_converter(tool) else ()
    with ThreadPoolExecutor(max(cores, 1)) as joining:
        list(joining.map(lambda name: join(tables / f"{name}.parquet", name, used), own))
    for name in produced(tool):
        if name not in own:
            write(tables / f"{name}.parquet", name, recorded.get(name, ()))
    return used


def _gpus(tool: str, tables: Path) -> list[str]:
    """Return the name of each kind of GPU that the files describe, in the order of the devices."""
    if "devices" not in produced(tool):
        return []
    with pq.ParquetFile(tables / "devices.parquet") as file:  # `read_table` would load pandas
        return [*filter(None, dict.fromkeys(file.read(columns=["name"])["name"].to_pylist()))]


def _damaged_files(captures: Iterable[Path]) -> dict[Path, str]:
    """Return how files of the captures differ from what was captured."""
    records = (folder / "capture.json" for folder in captures)
    return {file: text for record in records for file, text in damaged_files(record).items()}


def _unless_damaged(part: Part, damaged: Mapping[Path, str]) -> Part:
    """Return `part`, without its rows if its file, or its steps, are not as they were captured."""
    steps = part.raw.path.with_name(f"{part.raw.label}.steps.json")
    own = [text for file, text in damaged.items() if file.parent == part.folder]
    found = damaged.get(part.raw.path) or damaged.get(steps) or next(iter(own), "")
    note = f"{_NOT_READ}{part.raw.path} {found}."
    return Part(raw=part.raw, folder=None, notes=(note,)) if found else part


def _outcome(parts: Sequence[Part], damaged: Mapping[Path, str]) -> tuple[Status, str]:
    """Return status and reason of a conversion that left tables."""
    if damaged:
        file, text = next(iter(damaged.items()))
        more = f" (and {len(damaged) - 1} more)" if len(damaged) > 1 else ""
        again = f"restore it, or delete {file.parent}/capture.json to capture again"
        return "damaged", f"{file} {text}{more}; {again}"
    unread = [part for part in parts if part.folder is None]
    if not unread:
        return "ok", ""
    first = f"{file_label(unread[0].raw.path)}: {' '.join(unread[0].notes)}"
    return "partial", f"{len(unread)} of {len(parts)} files could not be read: {first}"


def _read_from(captures: Iterable[Path]) -> list[Path]:
    """Return the files whose change makes the conversion stale."""
    records = [folder / "capture.json" for folder in captures]
    imported = [file for record in records for file in imported_files(record)]
    return [*records, *filter(Path.is_file, imported)]


def _provenance(tool: str, captures: Sequence[Path], batches: Iterable[Path]) -> Provenance:
    """Return the provenance of the tables; files unchanged since their import are not hashed."""
    records = [untouched_files(folder / "capture.json") for folder in captures]
    known = {file: digest for record in records for file, digest in record.items()}
    others = [file for file in _read_from(captures) if file not in known]
    inputs = {str(file): sha256(file) for file in others}
    inputs |= {str(batch): sha256(batch / CONVERSION) for batch in batches}
    inputs |= {str(file): known[file] for file in known}
    return provenance("profkit.convert", registry.converter_module(tool), {}, inputs)


def _edited(captures: Iterable[Path], hashes: Mapping[str, str]) -> list[Note]:
    """Return a note on each imported file that was edited after the import."""
    return [
        Note(file=file_label(file), text="It was edited after it was imported: import it again.")
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
    parser.add_argument("--tables", type=Path, help="folder for the tables")
    parser.add_argument("--files", type=Path, help="folder for files to open")
    parser.add_argument("--batch", type=Path, help="folder for a part of the tables instead")
    parser.add_argument(
        "--ranks", type=RankSpan.parsed, default=EVERY_RANK, help="ranks of that part, as in 0:128"
    )
    parser.add_argument(
        "--batches", type=Path, nargs="+", default=[], help="parts to join, of all ranks"
    )
    parser.add_argument("--cores", type=int, default=1, help="processes to use")
    job_usage.add_argument(parser)
    parser.add_argument("--attempt", type=int, default=1, help="how often this was tried, from 1")
    run_settings.add_argument(parser)
    return parser


def _run(tables: Path) -> str:
    """Return the name of the run, from ``results/runs/<run>/tables/<tool>``, or ``parts`` there."""
    return tables.resolve().parent.parent.name


@contextmanager
def _helping(tool: str, raws: Sequence[Raw], cores: int) -> Iterator[Executor | None]:
    """Start processes for the files, or for the only one if it is large; None for none."""
    count = min(cores, len(raws))
    if len(raws) == 1 and raws[0].path.stat().st_size >= _LARGE_BYTES:
        count = cores - 1
    elif count == 1:
        count = 0
    with ExitStack() as stack:
        started = helpers.started(count, registry.converter_module(tool)) if count else None
        yield stack.enter_context(started) if started else None


def convert_files(
    tool: str, raws: Sequence[Raw], files: Path, scratch: Path, pool: Executor | None = None
) -> list[Part]:
    """Convert each raw file, in `pool` if it is there, and return the parts in order."""
    shared = pool if len(raws) == 1 else None
    jobs = [
        (
            tool,
            replace(raw, helpers=shared, scratch=scratch),
            files,
            scratch / str(number),
            len(raws) > 1 and raw.path.stat().st_size < _SMALL_BYTES,
        )
        for number, raw in enumerate(raws)
    ]
    if len(jobs) <= 1 or not pool:
        return [_convert_one(*job) for job in jobs]
    try:
        return list(pool.map(_convert_one, *zip(*jobs, strict=True)))
    except BrokenProcessPool:
        raise ProfkitError(
            f"a process that converted files of {tool} was killed, most likely for its memory",
            hint="convert with fewer --cores",
        ) from None


def _notes_on(parts: Iterable[Part]) -> Iterator[Note]:
    for part in parts:
        yield from (Note(file=file_label(part.raw.path), text=text) for text in part.notes)


def _convert_one(tool: str, raw: Raw, files: Path, folder: Path, is_small: bool) -> Part:
    """Convert one raw file to a file in `folder` for each table that has rows.

    Whatever is wrong with the file is a note, and the others are converted.
    """
    try:
        return _converted(tool, raw, files, folder, is_small)
    except Exception as error:
        if isinstance(error, MemoryError) or getattr(error, "errno", 0) in _DISK_IS_FULL:
            raise
        is_known = isinstance(error, ProfkitError | OSError)
        if not is_known:
            traceback.print_exc()  # to the log of the job
        # A note is one line of the report.
        reason = str(error) if is_known else f"{raw.path}: {error!r}"
        reason = reason.replace("\n  hint: ", "; ")
        return Part(raw=raw, folder=None, notes=(f"{_NOT_READ}{reason.removesuffix('.')}.",))


def _converted(tool: str, raw: Raw, files: Path, folder: Path, is_small: bool) -> Part:
    converted = converter(tool).run(raw, files)
    folder.mkdir()
    behind = raw.cores > 1
    rows, ranks = write_tables(folder, converted.tables, is_small=is_small, behind=behind)
    return Part(
        raw=raw,
        folder=folder,
        rows=referenced_rows(rows),
        found_ranks=ranks,
        notes=tuple(converted.notes),
    )


def _harness_steps(
    good: Mapping[Path, dict[str, Any]], damaged: Mapping[Path, str], notes: list[Note]
) -> Iterator[pa.Table]:
    """Yield the steps that the capture harness timed on each rank."""
    for folder, record in good.items():
        paths = sorted(folder.glob("*.steps.json"), key=lambda path: rank_of(path.name))
        if not paths and "imported" not in record.get("workload", {}):
            text = "The harness left no steps: this repeat gives none."
            notes.append(Note(file=f"{folder.name}/capture.json", text=text))
        for path in paths:
            if path in damaged:
                notes.append(Note(file=file_label(path), text=f"{_NOT_READ}it {damaged[path]}."))
                continue
            try:
                yield steps_table(json.loads(path.read_bytes()), record["repeat"])
            except (ValueError, TypeError, KeyError, pa.ArrowException) as error:
                notes.append(Note(file=file_label(path), text=f"{_NOT_READ}{error!r}"))


if __name__ == "__main__":
    # By its own name: worker processes cannot look functions up in a module called "__main__".
    from profkit.convert.__main__ import main as edge

    try:
        edge(sys.argv[1:])
    except ProfkitError as error:
        sys.exit(str(error))
