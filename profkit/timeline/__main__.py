"""``profkit timeline RUN``: one trace of all ranks for Perfetto, cut to a few steps."""

import argparse
import gzip
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import pyarrow.compute as pc
import pyarrow.parquet as pq

from profkit.core import job_record, job_usage, progress_events
from profkit.core.atomic_write import write_atomically
from profkit.core.checksums import Checksum, checksum, sha256
from profkit.core.errors import InputError
from profkit.core.fingerprint import TIMELINE_CODE, provenance
from profkit.core.sealed_json import sealed
from profkit.timeline.merge_ranks import (
    TABLES,
    Timeline,
    clocks_of,
    few_steps,
    timeline,
    timelines_by_rank,
)
from profkit.timeline.perfetto_archive import archive

RUNS = Path("results/runs")
_PYTHON = "python_calls"
_STEPS = re.compile(r"(\d+)(?:-(\d+))?$")
_COORDINATE = re.compile(r"([a-z]+)(\d+)")


def main(argv: Sequence[str]) -> None:
    """Write the timeline of a run, and say where."""
    args = _parser().parse_args(argv)
    about = {"stage": "timeline", "run": args.run, "name": args.tool}
    progress_events.emit("started", **about)
    with job_usage.recorded(args.usage):
        _run(args)
    progress_events.emit("finished", **about)


def _run(args: argparse.Namespace) -> None:
    folder = RUNS / args.run
    tables, hashes = _tables(folder, args.tool, args.repeat, python=args.python)
    capture = _capture(folder, args.tool, args.repeat)
    steps = (
        _step_numbers(args.steps) if args.steps else few_steps(tables, args.skip_first, args.count)
    )
    how: dict[str, Any] = {
        "steps": steps,
        "labels": _labels(capture),
        "max_events": args.max_events,
    }
    drawn = timeline(tables, **how)
    if args.steps and not drawn.slices:
        raise InputError(
            f"{folder}: nothing was recorded in steps {args.steps}", hint=_recorded_steps(tables)
        )
    out = args.out or folder / "timeline.json.gz"
    out.parent.mkdir(parents=True, exist_ok=True)
    if out.suffix == ".tar":
        ranks = timelines_by_rank(tables, **how)
        write_atomically(out, archive(ranks, clocks_of(tables)[0], args.run))
    else:
        write_atomically(out, gzip.compress(drawn.document(), compresslevel=6, mtime=0))
    if args.record:
        inputs = {str(capture): sha256(capture), **hashes}
        write_atomically(args.record, sealed(_record(drawn, inputs, args.attempt, checksum(out))))
    for note in drawn.notes:
        sys.stderr.write(f"{note}\n")
    sys.stderr.write(f"{out}: {len(drawn.encoded)} events; open it at https://ui.perfetto.dev\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="profkit timeline", description=__doc__)
    parser.add_argument("run", help="a run: the name of its folder in results/runs")
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


def _tables(
    folder: Path, tool: str, repeat: int, *, python: bool
) -> tuple[dict[str, pd.DataFrame], dict[str, str]]:
    """Read the rows of one repeat of each table that is drawn; return the hashes of them too."""
    found, hashes = {}, {}
    for name in (*TABLES, *((_PYTHON,) if python else ())):
        path = _table(folder, tool, name)
        try:
            hashes[str(path)] = job_record.verified(path)
            rows = pq.read_table(path, filters=pc.field("repeat") == repeat)
            found[name] = rows.to_pandas(split_blocks=True, self_destruct=True)
        except FileNotFoundError:
            known = ", ".join(sorted(folder.name for folder in RUNS.glob("*"))) or "none"
            hint = f"the runs in {RUNS}: {known}"
            raise InputError(f"{path}: no such table", hint=hint) from None
    return found, hashes


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
        "events": len(drawn.encoded),
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


def _recorded_steps(tables: dict[str, pd.DataFrame]) -> str:
    steps = sorted({int(step) for name in TABLES for step in tables[name]["step"].unique()})
    return f"the steps recorded: {', '.join(str(step) for step in steps if step >= 0) or 'none'}"
