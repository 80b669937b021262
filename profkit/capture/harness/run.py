"""Make one capture: check it, start it, wait, judge it, and leave its record."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from profkit.capture.base import Tool
from profkit.capture.harness import (
    clock,
    conditions,
    facts,
    lifetime,
    memory,
    notes,
    outcome,
    record,
    space,
)
from profkit.capture.harness.launch import Ended, launch
from profkit.capture.harness.outcome import Outcome
from profkit.capture.harness.rank import PROGRAM
from profkit.capture.harness.spec import Spec, exported
from profkit.errors import ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class Left:
    """What a command left."""

    ended: Ended
    outcome: Outcome
    conditions: dict[str, Any]
    dropped: list[str]
    """Files that were removed because the disk was full."""


def run(spec: Spec, timeout_s: float) -> Outcome:
    """Capture what `spec` says and write ``capture.json``; a failure is an outcome like others.

    Raises `ConfigError` for settings that do not fit, and SystemExit when told to stop; then
    there is no record.
    """
    tool, launcher = spec.load_tool(), spec.load_launcher()
    steps = spec.steps
    unfit = tool.check(steps) if steps > 0 else ""
    if reason := launcher.check(len(spec.ranks())) or unfit:
        raise ConfigError(f"{spec.tool}: {reason}")
    spec.folder.mkdir(parents=True, exist_ok=True)
    started, before_s = datetime.now(UTC), time.monotonic()
    command = launcher.command(PROGRAM, len(spec.ranks()))
    warnings = record.earlier_warning(spec.folder)
    left, result = None, Outcome(status="unavailable", reason=tool.unavailable())
    if not result.reason:
        left = _captured(spec, tool, command, timeout_s)
        result = left.outcome
        warnings += _warnings(spec, left)
    about = {
        **asdict(result),
        "command": command,
        "started": started.isoformat(),
        "elapsed_s": round(time.monotonic() - before_s, 3),
        "exit_code": None if left is None else left.ended.exit_code,
        "warnings": warnings,
        "conditions": {} if left is None else left.conditions,
    }
    _leave(spec, tool, about)
    return result


def lost(spec: Spec, signum: int, started: datetime) -> Outcome:
    """Clean up after a capture whose process was killed by `signum`, and write its record."""
    survivors = lifetime.end_all(spec.token, ())
    tool, launcher = spec.load_tool(), spec.load_launcher()
    spec.folder.mkdir(parents=True, exist_ok=True)
    space.release(spec.folder)
    clock.collect(spec.folder)
    reason = f"the process that captures was killed by signal {signum}; the ranks were ended"
    result = Outcome(status="error", reason=reason)
    about = {
        **asdict(result),
        "command": launcher.command(PROGRAM, len(spec.ranks())),
        "started": started.isoformat(),
        "elapsed_s": round((datetime.now(UTC) - started).total_seconds(), 3),
        "exit_code": -signum,
        "warnings": [
            *notes.collect(spec.folder),
            *(f"process {pid} could not be killed" for pid in survivors),
        ],
        "conditions": {},
    }
    _leave(spec, tool, about)
    return result


def _leave(spec: Spec, tool: Tool, about: dict[str, Any]) -> None:
    """Write the record, with what is the same for every capture added to what `about` says."""
    if about["status"] != "ok":
        about["log_tail"] = record.tail(spec.folder / record.LOG)
    same = {
        "ended": datetime.now(UTC).isoformat(),
        "ranks": [rank.label for rank in spec.ranks()],
        "files": record.files(spec.folder),
        "machine": facts.machine(),
        "versions": facts.versions(),
    }
    record.write(spec.folder, {**_asked(spec, tool), **about, **same})


def _captured(spec: Spec, tool: Tool, command: Sequence[str], timeout_s: float) -> Left:
    """Run the command and judge what it left."""
    out = spec.folder
    record.clear(out)
    # Without buffers, what a killed process printed is in the log.
    spec = replace(spec, deadline_s=time.time() + timeout_s)
    environment = {**exported(spec), "PYTHONUNBUFFERED": "1"}
    limit = memory.Limit(limit_mb=spec.memory_limit_mb, at_first=memory.available())
    with space.kept(out), conditions.watched() as machine:

        def watch() -> str:
            machine.look()
            return limit.exceeded(memory.available())

        ended = launch(command, environment, out / record.LOG, timeout_s, spec.token, watch)
        is_full, readings = space.is_full(out), machine.summary()
    earlier = [each["conditions"] for each in record.siblings(out)]
    readings["warnings"] = conditions.warnings(readings, earlier)
    labels = [rank.label for rank in spec.ranks()]
    dropped = space.drop_unfinished(out, labels) if is_full else []
    clock.collect(out)
    missing = outcome.missing_files(tool, out, labels)
    error, text = outcome.first_error(out), "\n".join(record.tail(out / record.LOG))
    result = outcome.judged(ended, timeout_s, error, text, missing)
    if is_full:
        result = Outcome(status="error", reason=f"no space is left on the disk of {out}")
    return Left(ended=ended, outcome=result, conditions=readings, dropped=dropped)


def _warnings(spec: Spec, left: Left) -> list[str]:
    """Return what a reader of the capture has to know."""
    killing = [f"process {pid} could not be killed" for pid in left.ended.survivors]
    removed = [
        f"removed, as the disk was full when it was written: {name}" for name in left.dropped
    ]
    return [*notes.collect(spec.folder), *killing, *removed]


def _asked(spec: Spec, tool: Tool) -> dict[str, Any]:
    return {
        "tool": spec.tool,
        "repeat": spec.repeat,
        "attempt": spec.attempt,
        "settings": asdict(tool),
        "workload": spec.workload,
    }
