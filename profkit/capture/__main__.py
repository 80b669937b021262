"""``profkit capture TOOL``: run the workload once under one tool."""

import argparse
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path

from profkit import events
from profkit.capture.harness import record, spread
from profkit.capture.harness.run import run
from profkit.capture.harness.spec import Spec
from profkit.errors import ProfkitError
from profkit.settings import from_json


def main(argv: Sequence[str]) -> None:
    """Make the capture that `argv` describes; one that fails is recorded, and no error here."""
    options = _parser().parse_args(argv)
    spec = Spec(
        token=uuid.uuid4().hex,
        tool=options.tool,
        out=str(options.out.resolve()),
        repeat=options.repeat,
        attempt=options.attempt,
        settings=from_json("--settings", options.settings),
        workload=from_json("--workload", options.workload),
    )
    log = str(options.out / record.LOG)
    about = {"stage": "capture", "run": spec.run, "name": spec.tool, "repeat": spec.repeat}
    events.emit("started", **about, log=log)
    if across := spread.asked(spec):
        spread.start(spec, across, argv, options.timeout)
        return
    outcome = run(spec, options.timeout)
    event = "finished" if outcome.status == "ok" else "failed"
    events.emit(event, **about, log=log, status=outcome.status, reason=outcome.reason)
    if outcome.reason:
        print(f"{spec.tool}: {outcome.status}: {outcome.reason}", file=sys.stderr)  # noqa: T201


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="profkit capture", description=__doc__)
    parser.add_argument("tool", help="what to capture with; see `profkit list tools`")
    parser.add_argument("--out", type=Path, required=True, help="folder of this capture")
    parser.add_argument("--repeat", type=int, default=0, help="number of the repeat, from 0")
    parser.add_argument("--attempt", type=int, default=1, help="how often this was tried, from 1")
    parser.add_argument("--settings", default="{}", help="settings of the tool, as JSON")
    parser.add_argument("--workload", default="{}", help="what to run, as JSON")
    parser.add_argument("--timeout", type=float, default=1800.0, help="seconds until it is killed")
    return parser


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ProfkitError as error:
        sys.exit(str(error))
