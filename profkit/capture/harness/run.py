"""Make one capture: check it, start it, wait, judge it, and leave its record."""

import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

from profkit.capture.base import Tool
from profkit.capture.harness import clock, facts, outcome, record, secrecy, source
from profkit.capture.harness.launch import Ended, launch
from profkit.capture.harness.outcome import Outcome
from profkit.capture.harness.rank import PROGRAM
from profkit.capture.harness.spec import Spec, exported
from profkit.errors import ConfigError


def run(spec: Spec, timeout_s: float) -> Outcome:
    """Capture what `spec` says and write ``capture.json``; a failure is an outcome like others.

    Raises `ConfigError` for settings that do not fit, and SystemExit when told to stop; then
    there is no record.
    """
    tool, launcher = spec.load_tool(), spec.load_launcher()
    ranks = spec.ranks()
    unfit = tool.check(spec.steps) if spec.steps > 0 else ""
    if reason := launcher.check(len(ranks)) or unfit:
        raise ConfigError(f"{spec.tool}: {reason}")
    spec.folder.mkdir(parents=True, exist_ok=True)
    started, before_s = datetime.now(UTC), time.monotonic()
    command = launcher.command(PROGRAM, len(ranks))
    warnings = record.earlier_warning(spec.folder)
    ended, result = None, Outcome(status="unavailable", reason=tool.unavailable())
    if not result.reason:
        ended, result = _captured(spec, tool, command, timeout_s)
        warnings += secrecy.guard(spec.folder, tool)
        warnings += [f"process {pid} could not be killed" for pid in ended.survivors]
    about = {
        **_asked(spec, tool),
        **asdict(result),
        "command": command,
        "started": started.isoformat(),
        "ended": datetime.now(UTC).isoformat(),
        "elapsed_s": round(time.monotonic() - before_s, 3),
        "exit_code": None if ended is None else ended.exit_code,
        "ranks": [rank.label for rank in ranks],
        "files": record.files(spec.folder),
        "warnings": warnings,
        "machine": facts.machine(),
        "versions": facts.versions(tool),
        "environment": facts.environment(),
        **source.described(spec.workload),
    }
    if result.status != "ok":
        about["log_tail"] = record.tail(spec.folder / record.LOG)
    record.write(spec.folder, secrecy.masked(about))
    return result


def _captured(
    spec: Spec, tool: Tool, command: Sequence[str], timeout_s: float
) -> tuple[Ended, Outcome]:
    """Run the command and judge what it left."""
    record.clear(spec.folder)
    # Without buffers, what a killed process printed is in the log.
    spec = replace(spec, deadline_s=time.time() + timeout_s)
    environment = {**exported(spec), "PYTHONUNBUFFERED": "1"}
    log = spec.folder / record.LOG
    ended = launch(command, environment, log, timeout_s, spec.token)
    clock.collect(spec.folder)
    labels = [rank.label for rank in spec.ranks()]
    missing = outcome.missing_files(tool, spec.folder, labels)
    error, text = outcome.first_error(spec.folder), "\n".join(record.tail(log))
    return ended, outcome.judged(ended, timeout_s, error, text, missing)


def _asked(spec: Spec, tool: Tool) -> dict[str, Any]:
    return {
        "tool": spec.tool,
        "repeat": spec.repeat,
        "attempt": spec.attempt,
        "settings": asdict(tool),
        "workload": spec.workload,
    }
