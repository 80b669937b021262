"""``profkit timeline RUN``: one trace of all ranks for Perfetto, cut to a few steps."""

import argparse
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from profkit.core import job_record, job_usage, progress_events
from profkit.core.atomic_write import write_atomically
from profkit.core.checksums import Checksum, checksum, sha256
from profkit.core.errors import InputError
from profkit.core.fingerprint import TIMELINE_CODE, provenance
from profkit.core.formatting import counted
from profkit.core.sealed_json import sealed
from profkit.process import malloc
from profkit.timeline.longest_rows import PYTHON, RowsOfRun
from profkit.timeline.merge_ranks import (
    TABLES,
    Timeline,
    clocks_of,
    few_steps,
    timeline,
    timelines_by_rank,
)
from profkit.timeline.perfetto_archive import archive

_GZIP = 16 + zlib.MAX_WBITS
_STEPS = re.compile(r"(\d+)(?:-(\d+))?$")
_COORDINATE = re.compile(r"([a-z]+)(\d+)")


def main(argv: Sequence[str], folder_of: Callable[[str], Path]) -> None:
    """Write the timeline of the run that `folder_of` finds by its name, and say where."""
    args = _parser().parse_args(argv)
    folder = folder_of(args.run)
    about = {"stage": "timeline", "run": folder.name, "name": args.tool}
    progress_events.emit("started", **about)
    with job_usage.recorded(args.usage):
        _run(folder, args)
    progress_events.emit("finished", **about)


def _run(folder: Path, args: argparse.Namespace) -> None:
    malloc.keep_freed()
    # Arrow's own allocator keeps half as much as the tables take.
    pa.set_memory_pool(pa.system_memory_pool())
    files = {name: _table(folder, args.tool, name) for name in TABLES}
    if args.python:
        files[PYTHON] = _table(folder, args.tool, PYTHON)
    hashes = {str(path): _verified(path) for path in files.values()}
    rows = RowsOfRun(files=files, repeat=args.repeat)
    capture = _capture(folder, args.tool, args.repeat)
    steps = (
        _step_numbers(args.steps) if args.steps else few_steps(rows, args.skip_first, args.count)
    )
    how: dict[str, Any] = {
        "steps": steps,
        "labels": _labels(capture),
        "max_events": args.max_events,
    }
    drawn = timeline(rows, **how)
    if args.steps and not drawn.slices:
        raise InputError(
            f"{folder}: nothing was recorded in steps {args.steps}", hint=_recorded_steps(rows)
        )
    out = args.out or folder / "timeline.json.gz"
    out.parent.mkdir(parents=True, exist_ok=True)
    if out.suffix == ".tar":
        ranks = timelines_by_rank(rows, **how)
        write_atomically(out, archive(ranks, clocks_of(rows)[0], folder.name))
    else:
        write_atomically(out, _compressed(drawn.document()))
    if args.record:
        inputs = {str(capture): sha256(capture), **hashes}
        write_atomically(args.record, sealed(_record(drawn, inputs, args.attempt, checksum(out))))
    for note in drawn.notes:
        sys.stderr.write(f"{note}\n")
    sys.stderr.write(
        f"{out}: {counted(drawn.count, 'event')}; open it at https://ui.perfetto.dev\n"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="profkit timeline", description=__doc__)
    parser.add_argument("run", help="name of a run, or how it begins, or its folder")
    parser.add_argument("--steps", help="such as 5 or 3-5; left out, a few after the warm-up")
    parser.add_argument("--skip-first", type=int, default=3, help="steps of the warm-up")
    parser.add_argument("--count", type=int, default=3, help="steps drawn if none are named")
    parser.add_argument("--python", action="store_true", help="with calls of Python functions")
    parser.add_argument("--tool", default="torch_profiler", help="whose tables are drawn")
    parser.add_argument("--repeat", type=int, default=0, help="repeat of the capture")
    parser.add_argument(
        "--max-events", type=int, default=300_000, help="more than some make browsers slow"
    )
    parser.add_argument("--record", type=Path, help="file for what it was made of, as JSON")
    parser.add_argument("--attempt", type=int, default=1, help="how often this was tried, from 1")
    parser.add_argument(
        "--out",
        type=Path,
        help="left out, timeline.json.gz in the run's folder; FILE.tar has a trace for each rank"
        " and the manifest by which Perfetto puts them on one clock",
    )
    job_usage.add_argument(parser)
    return parser


def _step_numbers(steps: str) -> list[int]:
    if not (found := _STEPS.match(steps)):
        raise InputError(f"--steps {steps}: not a step or a range", hint="such as 5 or 3-5")
    first, last = int(found[1]), int(found[2] or found[1])
    return list(range(first, last + 1))


def _verified(path: Path) -> str:
    """Return the hash of a table that is as it was made."""
    try:
        return job_record.verified(path)
    except FileNotFoundError:
        tools = ", ".join(sorted(tool.name for tool in path.parents[1].glob("*"))) or "none"
        raise InputError(f"{path}: no such table", hint=f"tools with tables: {tools}") from None


def _compressed(parts: Iterable[bytes]) -> bytes:
    """Return what `gzip.compress` makes of all parts together, without a time."""
    gzip = zlib.compressobj(level=6, wbits=_GZIP)
    return b"".join([*map(gzip.compress, parts), gzip.flush()])


def _capture(folder: Path, tool: str, repeat: int) -> Path:
    return folder / "capture" / tool / f"rep{repeat}" / "capture.json"


def _table(folder: Path, tool: str, name: str) -> Path:
    return folder / "tables" / tool / f"{name}.parquet"


def _record(drawn: Timeline, inputs: Mapping[str, str], attempt: int, trace: Checksum) -> bytes:
    """Return steps, notes and provenance of a timeline as JSON."""
    record = {
        "schema_version": 1,
        "attempt": attempt,
        "steps": drawn.steps,
        "events": drawn.count,
        "notes": [{"file": "", "text": note} for note in drawn.notes],
        "trace": trace,
        "provenance": asdict(provenance(*TIMELINE_CODE, {}, inputs)),
    }
    return msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n"


def _labels(path: Path) -> dict[int, str]:
    """Return the readable name of each rank: ``rank 3 (dp1 tp1 pp0)``.

    Empty for imported files, which do not state the coordinates.
    """
    if not path.is_file():
        return {}
    record = msgspec.json.decode(path.read_bytes())
    if "imported" in record.get("workload", {}):
        return {}
    found = {}
    for label in record.get("ranks", []):
        coordinates = dict(_COORDINATE.findall(label))
        rank = coordinates.pop("rank", "-1")
        rest = " ".join(f"{name}{number}" for name, number in coordinates.items())
        found[int(rank)] = f"rank {rank} ({rest})" if rest else f"rank {rank}"
    return found


def _recorded_steps(rows: RowsOfRun) -> str:
    steps = sorted({step for name in TABLES for step in rows.known(name, "step") if step >= 0})
    return f"the steps recorded: {', '.join(map(str, steps)) or 'none'}"
