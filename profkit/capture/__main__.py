"""``profkit capture TOOL``: run the workload once under one tool."""

import argparse
import json
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from profkit import events
from profkit.capture.harness import record
from profkit.capture.harness.run import run
from profkit.capture.harness.spec import Spec
from profkit.errors import ConfigError, ProfkitError


def main(argv: Sequence[str]) -> None:
    """Make the capture that `argv` describes; one that fails is recorded, and no error here."""
    options = _parser().parse_args(argv)
    spec = Spec(
        token=uuid.uuid4().hex,
        tool=options.tool,
        out=str(options.out.resolve()),
        repeat=options.repeat,
        attempt=options.attempt,
        settings=_object("--settings", options.settings),
        workload=_object("--workload", options.workload),
    )
    log = str(options.out / record.LOG)
    about = {"stage": "capture", "run": spec.run, "name": spec.tool, "repeat": spec.repeat}
    events.emit("started", **about, log=log)
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


def _object(flag: str, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{flag} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{flag} must be a JSON object, got {text}")
    return value


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ProfkitError as error:
        sys.exit(str(error))
