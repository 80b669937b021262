"""``profkit failed STAGE NAME``: leave the record of a job that failed in place of its results."""

import argparse
import gzip
import signal
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import msgspec
import pyarrow.parquet as pq

from profkit.core.atomic_write import write_atomically
from profkit.core.job_record import NOTHING
from profkit.core.result import SCHEMA_VERSION, Result
from profkit.process import parent_watch
from profkit.tables import schema

_SIGNALS = 128
"""What a shell adds to the number of the signal that ended a job."""

_WITHOUT_RESULT = 125
"""What the rules end with for a job that ended well without a result, as ``os._exit(0)`` does."""

_STOPPED = tuple(_SIGNALS + number for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM))


def main(argv: Sequence[str]) -> int:
    """Write what readers of the results of STAGE need; a job that was stopped leaves nothing."""
    parser = argparse.ArgumentParser(prog="profkit failed", description=__doc__)
    parser.add_argument("stage", choices=("convert", "analyze", "timeline"))
    parser.add_argument("name", help="the tool or the analysis")
    parser.add_argument("--status", type=int, required=True, help="exit status of the job")
    parser.add_argument("--log", type=Path, required=True, help="what the job said")
    parser.add_argument("--attempt", type=int, required=True, help="how often this was tried")
    parser.add_argument("--out", type=Path, nargs="+", required=True, help="outputs of the job")
    args = parser.parse_args(argv)
    if args.status in _STOPPED or parent_watch.has_workflow_ended():
        return int(args.status)
    failure = {
        "schema_version": SCHEMA_VERSION,
        "attempt": args.attempt,
        "status": "failed",
        "reason": reason(args.status, args.log.read_text(errors="replace")),
        "provenance": asdict(NOTHING),
    }
    about = {
        "convert": {"tool": args.name, "notes": []},
        "analyze": {"analysis": args.name, "title": args.name, "summary": "", "result": Result()},
        "timeline": {"steps": [], "events": 0, "notes": []},
    }
    content = msgspec.json.format(msgspec.json.encode({**about[args.stage], **failure}), indent=1)
    for path in args.out:
        _leave(path, content)
    return 0


def _leave(path: Path, record: bytes) -> None:
    """Write the output at `path`: the record, or something empty."""
    if not path.suffix:
        path.mkdir(parents=True, exist_ok=True)
    elif path.suffix == ".parquet":
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(schema.TABLES[path.stem].empty_table(), path)
    else:
        is_record = path.suffix == ".json"
        write_atomically(path, record if is_record else gzip.compress(b"[]", mtime=0))


def reason(status: int, log: str) -> str:
    """Return why a job with this exit `status` and `log` failed, as one line."""
    if status > _SIGNALS:
        return f"the job was ended by signal {status - _SIGNALS}"
    if status == _WITHOUT_RESULT:
        return "the job ended with exit status 0, without its result"
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    own = [number for number, line in enumerate(lines) if line.startswith("profkit: ")]
    # An error of profkit's own may have several lines; of a traceback, the last one says it.
    said = lines[own[-1] :] if own else lines[-1:]
    return "; ".join(said).removeprefix("profkit: ") or f"the job ended with exit status {status}"
