"""``profkit manifest``: what makes a run reproducible, gathered from its captures."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from profkit.core import progress_events
from profkit.core.atomic_write import write_atomically
from profkit.core.capture_record import read_capture
from profkit.core.sealed_json import sealed

# Facts that captures made at other times, or on other machines, may not share.
_MERGED = ("machine", "versions", "packages", "environment", "script", "git")
_CAPTURE_FACTS = (
    *("tool", "repeat", "attempt", "status", "reason"),
    *("started", "ended", "elapsed_s", "exit_code", "command", "tool_commands"),
)


def main(argv: Sequence[str]) -> None:
    """Write ``manifest.json`` and ``config.yaml`` of one run."""
    parser = argparse.ArgumentParser(prog="profkit manifest", description=__doc__)
    parser.add_argument("--about", type=json.loads, required=True, help="JSON: the run's plan")
    parser.add_argument("--attempt", type=int, default=1, help="how often this was tried, from 1")
    parser.add_argument("--captures", type=Path, nargs="+", help="capture.json files")
    parser.add_argument("--out", type=Path, required=True, help="manifest to write")
    parser.add_argument("--config", type=Path, required=True, help="configuration to write")
    args = parser.parse_args(argv)
    about = {"stage": "manifest", "run": args.about["run"], "name": ""}
    progress_events.emit("started", **about)
    manifest = _manifest({**args.about, "attempt": args.attempt}, args.captures)
    write_atomically(args.out, sealed(json.dumps(manifest, indent=1).encode() + b"\n"))
    config = {key: args.about[key] for key in ("behaviour", "hardware", "tools")}
    text = f"# {args.about['command']}\n{yaml.safe_dump(config, sort_keys=False)}"
    write_atomically(args.config, text.encode())
    progress_events.emit("finished", **about)


def _manifest(about: dict[str, Any], captures: Sequence[Path]) -> dict[str, Any]:
    records = [read_capture(path) for path in captures]
    merged = {name: _shared(name, [record.get(name, {}) for record in records]) for name in _MERGED}
    return {
        "schema_version": 1,
        **about,
        "started": min(
            (record["started"] for record in records if "started" in record), default=""
        ),
        "ended": max((record["ended"] for record in records if "ended" in record), default=""),
        "cwd": str(Path.cwd()),
        **merged,
        "captures": [{key: record.get(key) for key in _CAPTURE_FACTS} for record in records],
    }


def _shared(kind: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the facts that all captures share; where they differ, the list of values.

    What a capture does not state, as the version of another tool, is no difference; a variable
    that one of them had not is.
    """
    merged: dict[str, Any] = {}
    for name in dict.fromkeys(name for part in parts for name in part):
        stating = [part for part in parts if name in part or kind == "environment"]
        values = [part.get(name) for part in stating]
        distinct = [value for index, value in enumerate(values) if value not in values[:index]]
        merged[name] = distinct[0] if len(distinct) == 1 else distinct
    return merged
