"""Make one capture: check it, start it, wait, judge it, and leave its record."""

import os
import socket
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from profkit.capture.base import Rank, Tool, Wrapper, executable
from profkit.capture.harness import container, tool_supervisor
from profkit.capture.harness.hosts import host_reports
from profkit.capture.harness.launch import Ended, launch
from profkit.capture.harness.machine import (
    conditions,
    disk_space,
    git_state,
    memory_guard,
    software_and_hardware,
)
from profkit.capture.harness.rank import PROGRAM
from profkit.capture.harness.ranks import clock, rank_files
from profkit.capture.harness.record import capture_json, mask_outputs, outcome, rank_warnings
from profkit.capture.harness.record.outcome import Outcome
from profkit.capture.harness.spec import Spec, exported
from profkit.capture.launchers.base import Node, RankLauncher
from profkit.core.errors import ConfigError
from profkit.core.run_settings import RunSettings
from profkit.process import process_tree

# How long a host may take longer to end than the first one: its tool may still write its files.
_OTHERS_S = 120.0
# After a failure they fail as well, or have never come.
_OTHERS_AFTER_FAILURE_S = 10.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One capture on this host."""

    spec: Spec
    tool: Tool
    launcher: RankLauncher
    node: Node
    run_settings: RunSettings

    @property
    def command(self) -> list[str]:
        """The command line that starts the ranks, as it is without a container."""
        ranks = self.spec.ranks()
        started = self.launcher.command(PROGRAM, len(ranks), self.node)
        if not isinstance(self.tool, Wrapper) or not self.tool.wraps_launcher:
            return started
        first = ranks[self.node.rank * len(ranks) // self.launcher.host_count]
        binary, *arguments = self.tool.command(started, self.spec.folder, first)
        if self.launcher.container.engine != "none":
            return [binary, *arguments]
        command = [executable(binary) or binary, *arguments]
        return tool_supervisor.supervised_command(self.tool, command, started)

    def profiled(self, ranks: Sequence[Rank]) -> list[str]:
        """Return the labels of those `ranks` that the tool leaves files of."""
        looked_at = [rank for rank in ranks if self.spec.records_rank(rank, self.tool)]
        if isinstance(self.tool, Wrapper) and self.tool.wraps_launcher:
            looked_at = list(ranks[:: max(len(ranks) // self.launcher.host_count, 1)])
        return [rank.label for rank in looked_at]

    def unavailable_reason(self) -> str:
        """Return why the tool cannot run; what an image holds shows when it runs."""
        inside = self.launcher.container.engine != "none"
        return "" if inside else self.tool.unavailable_reason()


@dataclass(frozen=True, kw_only=True, slots=True)
class Left:
    """What the ranks of all hosts left."""

    ended: Ended
    outcome: Outcome
    ranks: list[Rank]
    named_by: list[str]
    reports: list[host_reports.Report]
    conditions: dict[str, Any]
    dropped: list[str]
    """Files that were removed because the disk was full."""
    finishing_notes: list[str]
    """What the tool had left unfinished, and what became of it."""


def prepared(spec: Spec, run_settings: RunSettings) -> Job:
    """Return the capture that `spec` says; raises `ConfigError` for settings that do not fit."""
    tool, launcher = spec.load_tool(), spec.load_launcher()
    unfit = tool.check(spec.steps) if spec.steps > 0 else ""
    if reason := launcher.check(len(spec.ranks())) or unfit:
        raise ConfigError(f"{spec.tool}: {reason}")
    node = host_reports.here(os.environ, launcher.host_count)
    return Job(spec=spec, tool=tool, launcher=launcher, node=node, run_settings=run_settings)


def run(job: Job) -> Outcome:
    """Capture, and write ``capture.json``; a failure is an outcome like others.

    On hosts but the first, start this host's ranks and leave a report for the first. Raises
    SystemExit when told to stop; then there is no record.
    """
    job.spec.folder.mkdir(parents=True, exist_ok=True)
    return _assist(job) if job.node.rank else _captured(job)


def _captured(job: Job) -> Outcome:
    """Capture, and write the record."""
    started, before_s = datetime.now(UTC), time.monotonic()
    out = job.spec.folder
    warnings = [*capture_json.earlier_warning(out), *job.launcher.warnings(), *job.tool.warnings()]
    left, result = None, Outcome(status="unavailable", reason=job.unavailable_reason())
    if not result.reason:
        capture_json.clear(out)
        with host_reports.beginning(out):
            left = _left(job)
        result = left.outcome
        warnings += _warnings(job, left)
    about = {
        **asdict(result),
        "started": started.isoformat(),
        "elapsed_s": round(time.monotonic() - before_s, 3),
        "exit_code": None if left is None else left.ended.exit_code,
        "ranks_named_by": [] if left is None else left.named_by,
        "nodes": [] if left is None else [asdict(each) for each in left.reports],
        "warnings": warnings,
        "conditions": {} if left is None else left.conditions,
    }
    _leave(job, about, job.spec.ranks() if left is None else left.ranks)
    return result


def lost(job: Job, signum: int, started: datetime) -> Outcome:
    """Clean up after a capture whose process was killed by `signum`, and write its record."""
    spec = job.spec
    survivors = process_tree.kill_all(spec.token, ())
    spec.folder.mkdir(parents=True, exist_ok=True)
    disk_space.release(spec.folder)
    host_reports.forget(spec.folder)
    ranks, named_by = rank_files.settle(spec.folder, spec.ranks())
    clock.collect(spec.folder)
    reason = f"the process that captures was killed by signal {signum}; the ranks were ended"
    result = Outcome(status="error", reason=reason)
    about = {
        **asdict(result),
        "started": started.isoformat(),
        "elapsed_s": round((datetime.now(UTC) - started).total_seconds(), 3),
        "exit_code": -signum,
        "ranks_named_by": named_by,
        "nodes": [],
        "warnings": [
            *rank_warnings.collect(spec.folder),
            *mask_outputs.guard(spec.folder, job.tool),
            *(f"process {pid} could not be killed" for pid in survivors),
        ],
        "conditions": {},
    }
    _leave(job, about, ranks)
    return result


def _leave(job: Job, about: dict[str, Any], ranks: Sequence[Rank]) -> None:
    """Write the record, with what is the same for every capture added to what `about` says."""
    out = job.spec.folder
    if about["status"] != "ok":
        about["log_tail"] = capture_json.tail(out / capture_json.LOG)
    same = {
        "command": container.command_inside(job.command, job.launcher, job.spec, job.node),
        "ended": datetime.now(UTC).isoformat(),
        "ranks": [rank.label for rank in ranks],
        "profiled": job.profiled(ranks),
        "files": capture_json.files(out),
        "machine": software_and_hardware.machine(),
        "versions": software_and_hardware.versions(job.tool),
        "environment": software_and_hardware.environment(),
        **git_state.described(job.spec.workload),
    }
    capture_json.write(out, mask_outputs.masked({**_asked(job), **about, **same}))


def _left(job: Job) -> Left:
    """Run the command, gather what the hosts left, and judge it."""
    spec, out = job.spec, job.spec.folder
    ended, readings, is_full = _started(job)
    within_s = _OTHERS_AFTER_FAILURE_S if ended.exit_code else _OTHERS_S
    reports, absent = host_reports.gathered(out, job.launcher.host_count, spec.attempt, within_s)
    ranks, named_by = rank_files.settle(out, spec.ranks())
    dropped = disk_space.drop_unfinished(out, [rank.label for rank in ranks]) if is_full else []
    clock.collect(out)
    finishing_notes = job.tool.finish(out)
    profiled = job.profiled(ranks)
    labels = {rank.label: rank.label in profiled for rank in ranks}
    missing = outcome.missing_files(job.tool, out, labels)
    error, text = outcome.first_error(out), "\n".join(capture_json.tail(out / capture_json.LOG))
    worst = max([ended, *(_as_ended(each) for each in reports)], key=_severity)
    refusal = outcome.refused_option(out / capture_json.LOG) if worst.exit_code else ""
    result = outcome.judged(
        worst, job.run_settings.timeout_s, error or absent or refusal, text, missing
    )
    if is_full:
        result = Outcome(status="error", reason=f"no space is left on the disk of {out}")
    return Left(
        ended=ended,
        outcome=result,
        ranks=ranks,
        named_by=named_by,
        reports=reports,
        conditions=readings,
        dropped=dropped,
        finishing_notes=finishing_notes,
    )


def _started(job: Job) -> tuple[Ended, dict[str, Any], bool]:
    """Start this host's ranks and wait; return the end, the conditions, and if the disk is full."""
    # Without buffers, what a killed process printed is in the log.
    spec = replace(job.spec, deadline_s=time.time() + job.run_settings.timeout_s)
    given = {**job.tool.environment_variables, **job.launcher.environment_variables}
    environment = {**given, **exported(spec), "PYTHONUNBUFFERED": "1"}
    out, cwd = spec.folder, job.launcher.cwd
    log = host_reports.log(out, out / capture_json.LOG, job.node.rank)
    limit = memory_guard.Limit(
        limit_mb=job.run_settings.memory_limit_mb, at_first=memory_guard.available()
    )
    with (
        disk_space.kept(out),
        conditions.watched() as machine,
        container.ended_at_exit(job.launcher, spec, job.node),
    ):

        def watch() -> str:
            machine.look()
            return limit.exceeded(memory_guard.available())

        command = container.command_inside(job.command, job.launcher, spec, job.node)
        ended = launch(
            command, environment, log, job.run_settings.timeout_s, spec.token, cwd, watch
        )
        is_full, readings = disk_space.is_full(out), machine.summary()
    earlier = [each["conditions"] for each in capture_json.siblings(out)]
    readings["warnings"] = conditions.warnings(readings, earlier)
    return ended, readings, is_full


def _warnings(job: Job, left: Left) -> list[str]:
    """Return what a reader of the capture has to know."""
    out = job.spec.folder
    killing = [f"process {pid} could not be killed" for pid in _survivors(left)]
    removed = [
        f"removed, as the disk was full when it was written: {name}" for name in left.dropped
    ]
    told = [*rank_warnings.collect(out), *left.finishing_notes, *mask_outputs.guard(out, job.tool)]
    return [*told, *killing, *removed]


def _assist(job: Job) -> Outcome:
    """Start this host's ranks, and leave a report for the first host."""
    reason = job.unavailable_reason()
    if not reason and not host_reports.has_begun(job.spec.folder, job.run_settings.timeout_s):
        reason = f"the first host has not begun within {job.run_settings.timeout_s:g} s"
    ended = Ended(exit_code=127) if reason else _started(job)[0]
    report = host_reports.Report(
        node=job.node.rank,
        attempt=job.spec.attempt,
        hostname=socket.gethostname(),
        **asdict(ended),
    )
    host_reports.leave(job.spec.folder, report)
    failed = reason or (f"exit status {ended.exit_code}" if ended.exit_code else "")
    return Outcome(status="error" if failed else "ok", reason=failed)


def _as_ended(report: host_reports.Report) -> Ended:
    return Ended(
        exit_code=report.exit_code,
        timed_out=report.timed_out,
        stopped=report.stopped,
        survivors=report.survivors,
    )


def _severity(ended: Ended) -> tuple[bool, bool]:
    return ended.timed_out, ended.exit_code != 0


def _survivors(left: Left) -> list[int]:
    theirs = [pid for each in left.reports for pid in each.survivors]
    return [*left.ended.survivors, *theirs]


def _asked(job: Job) -> dict[str, Any]:
    return {
        "tool": job.spec.tool,
        "repeat": job.spec.repeat,
        "attempt": job.spec.attempt,
        "settings": asdict(job.tool),
        "workload": job.spec.workload,
    }
