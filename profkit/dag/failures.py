"""What failed or is damaged of a plan, by the records that jobs leave beside their results."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from profkit.core import progress_events
from profkit.core.capture_record import read_capture
from profkit.core.formatting import counted
from profkit.core.job_record import JobRecord, damaged_outputs, read_analysis, read_job
from profkit.dag.inputs import ACROSS, Dag
from profkit.planning.model import Run


def failures(dag: Dag) -> Iterator[str]:
    """Yield a line for each job of the plan that failed, or could not read all of its files."""
    yield from failed_captures(dag)
    for job, path, made in _records(dag):
        if made.status != "ok":
            yield f"{job} {made.status}: {path}: {made.reason}"


def failed_captures(dag: Dag) -> Iterator[str]:
    """Yield those lines of them that are of captures."""
    for run in dag.plan.runs:
        yield from _failed_captures(dag, run)


def _failed_captures(dag: Dag, run: Run) -> Iterator[str]:
    """Yield a line for each capture of `run` that failed, and for what was not tried."""
    paths = [path for path in dag.captures_of(run) if path.is_file()]
    records = {path: read_capture(path) for path in paths}
    skipped = Counter(one["reason"] for one in records.values() if one["status"] == "skipped")
    for path, record in records.items():
        if record["status"] not in ("ok", "skipped"):
            yield f"capture failed: {path.parent}: {record['status']}: {record['reason']}"
    for reason, count in skipped.items():
        yield f"skipped: {counted(count, 'capture')} of {run.name}: {reason}"


def unreported_failures(dag: Dag) -> Iterator[str]:
    """Yield `failures`; nothing below `profkit run`, which prints them itself."""
    if progress_events.VARIABLE not in os.environ:
        yield from failures(dag)


def damages(dag: Dag) -> Iterator[str]:
    """Yield a line for each table and record of the plan that is damaged: it is made again."""
    for _, path, made in _records(dag):
        if made.status == "unreadable":
            yield f"{path}: {made.reason}; it is made again"
        else:
            for output, found in damaged_outputs(path, made).items():
                yield f"{output}: {found}; it is made again"


def _records(dag: Dag) -> Iterator[tuple[str, Path, JobRecord]]:
    """Yield each job after the captures that left a record, with its path and what it says."""
    for run in dag.plan.runs:
        folder = Path(f"results/runs/{run.name}")
        for tool in run.tools:
            yield from _record("conversion", folder / "tables" / tool / "convert.json")
            yield from _record("timeline", folder / "timeline" / f"{tool}.json")
        for name in run.analyses:
            yield from _record("analysis", folder / "analyze" / f"{name}.json")
    for name in dag.results_across():
        yield from _record("analysis", Path(f"{ACROSS}/analyze/{name}.json"))


def _record(job: str, path: Path) -> Iterator[tuple[str, Path, JobRecord]]:
    if path.is_file():
        yield job, path, read_analysis(path) if job == "analysis" else read_job(path)
