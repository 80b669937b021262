"""``profkit manifest``: what makes a run reproducible, gathered from its captures."""

import argparse
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from profkit import events
from profkit.files import write_atomically


def main(argv: Sequence[str]) -> None:
    """Write ``manifest.json`` and ``config.yaml`` of one run."""
    parser = argparse.ArgumentParser(prog="profkit manifest", description=__doc__)
    parser.add_argument("--about", type=json.loads, required=True, help="JSON: the run's plan")
    parser.add_argument("--captures", type=Path, nargs="+", help="capture.json files")
    parser.add_argument("--out", type=Path, required=True, help="manifest to write")
    parser.add_argument("--config", type=Path, required=True, help="configuration to write")
    args = parser.parse_args(argv)
    about = {"stage": "manifest", "run": args.about["run"], "name": ""}
    events.emit("started", **about)
    records = [json.loads(path.read_text()) for path in args.captures]
    manifest = _manifest(args.about, records)
    write_atomically(args.out, json.dumps(manifest, indent=1).encode() + b"\n")
    config = {key: args.about[key] for key in ("behaviour", "hardware", "tools")}
    text = f"# {args.about['command']}\n{yaml.safe_dump(config, sort_keys=False)}"
    write_atomically(args.config, text.encode())
    events.emit("finished", **about)


def _manifest(about: dict[str, Any], records: list[dict[str, Any]]) -> dict[str, Any]:
    facts = (
        "tool",
        "repeat",
        "attempt",
        "status",
        "reason",
        "started",
        "ended",
        "elapsed_s",
        "exit_code",
        "command",
    )
    return {
        "schema_version": 1,
        **about,
        "machine": _of_all(records, "machine"),
        "versions": _of_all(records, "versions"),
        "git": {"profkit": _git(Path(__file__).parent), "cwd": _git(Path.cwd())},
        "captures": [{key: record.get(key) for key in facts} for record in records],
    }


def _of_all(records: list[dict[str, Any]], key: str) -> dict[str, Any]:
    """Return the facts that all captures share; where they differ, the list of values."""
    merged: dict[str, Any] = {}
    for name in dict.fromkeys(name for record in records for name in record[key]):
        values = [record[key].get(name) for record in records]
        distinct = [value for index, value in enumerate(values) if value not in values[:index]]
        merged[name] = distinct[0] if len(distinct) == 1 else distinct
    return merged


def _git(folder: Path) -> dict[str, Any]:
    """Return commit and state of the work tree at `folder`; empty where there is none."""
    commit = _output("git", "-C", str(folder), "rev-parse", "HEAD")
    if not commit:
        return {}
    return {"commit": commit, "dirty": bool(_output("git", "-C", str(folder), "status", "-s"))}


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
