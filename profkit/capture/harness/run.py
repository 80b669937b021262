"""Make one capture: check it, start it, wait, judge it, and leave its record."""

import json
import os
import socket
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from profkit.capture.base import Rank, Wrapper
from profkit.capture.harness import container, early_stop, scratch
from profkit.capture.harness.followed import found_ranks, request
from profkit.capture.harness.followed.found_ranks import FoundRanks
from profkit.capture.harness.foreground import Foreground
from profkit.capture.harness.hosts import host_reports
from profkit.capture.harness.job import Job, counting_passes
from profkit.capture.harness.launch import ProcessEnd, launch
from profkit.capture.harness.machine import (
    conditions,
    disk_space,
    git_state,
    memory_guard,
    software_and_hardware,
)
from profkit.capture.harness.ranks import bytes_bound, clock, rank_files, sources
from profkit.capture.harness.record import (
    capture_json,
    first_failure,
    former_capture,
    last_words,
    outcome,
    rank_warnings,
)
from profkit.capture.harness.record.former_capture import KEPT
from profkit.capture.harness.record.outcome import Outcome
from profkit.core.capture_record import FAILED_AFTER
from profkit.core.formatting import cut
from profkit.process import process_tree

_LINE_LENGTH = 2000
# Other hosts may end later than the first one: their tools may still write files.
_OTHERS_S = 120.0
# After a failure they fail as well, or have never started.
_OTHERS_AFTER_FAILURE_S = 10.0


@dataclass(frozen=True, kw_only=True, slots=True)
class CollectedResult:
    """The end of the command, and the results of the ranks of all hosts."""

    ended: ProcessEnd
    outcome: Outcome
    ranks: list[Rank]
    named_by: list[str]
    reports: list[host_reports.Report]
    profiled: list[str]
    """Labels of the ranks that the tool has written files for."""
    conditions: dict[str, Any]
    dropped: list[str]
    """Files that were removed because the disk was full."""
    notes: list[str]
    """Notes on its ranks and of `Tool.finish`, for readers."""
    followed: dict[str, Any]
    """What was found out of a followed command: its launcher, its number of ranks, its end."""
    places: list[dict[str, Any]]
    """Host, number of the host and place on it of each rank that made a step."""
    taken: dict[str, Any]
    """Bytes that were predicted, allowed and taken."""


def run(job: Job) -> Outcome:
    """Capture, and write ``capture.json``; a failure is an outcome like others.

    On hosts but the first, start this host's ranks and write a report for the first. Raises
    SystemExit on a signal to stop; then there is no record.
    """
    job.spec.folder.mkdir(parents=True, exist_ok=True)
    try:
        return _run_on_other_host(job) if job.node.rank else _captured(job)
    except SystemExit:
        # What was printed until then stays.
        job.mask.files(job.spec.folder, job.tool)
        raise


def _captured(job: Job) -> Outcome:
    """Capture, and write the record."""
    started, before_s = datetime.now(UTC), time.monotonic()
    out = job.spec.folder
    losses = job.losses()
    warnings = [*capture_json.earlier_warning(out), *job.tool.warnings(), *losses]
    collected, result = None, Outcome(status="unavailable", reason=job.unavailable_reason())
    former = former_capture.found(out, job.mask.record({**job.requested, "warnings": []}))
    if not result.reason and (reason := scratch.problem(job)):
        result = Outcome(status="error", reason=reason, would_repeat=True)
    elif not result.reason and (reason := early_stop.reason(job.spec, job.tool)):
        result = Outcome(status="skipped", reason=reason)
    elif not result.reason and _foreground(job).is_to_end:
        if former.is_good:
            return Outcome(status="ok", reason=KEPT)
        result = Outcome(status="skipped", reason="interrupted before it began")
    elif not result.reason:
        with former.set_aside(), host_reports.announced_start(out, job.node):
            collected = _collect(job)
            if passes := found_ranks.only_passes(collected.followed, collected.ended.exit_code):
                capture_json.clear(out)
                collected = _collect(counting_passes(job))
                collected.followed[found_ranks.UNSTEPPED] = passes
                warnings.append(found_ranks.made_no_step(passes))
        has_nothing = collected.ended.interrupted and collected.outcome.status != "ok"
        if has_nothing and former.comes_back():
            return Outcome(status="ok", reason=KEPT)
        result = collected.outcome
        warnings += _warnings(job, collected)
    about = {
        **asdict(result),
        "started": started.isoformat(),
        "elapsed_s": round(time.monotonic() - before_s, 3),
        "exit_code": None if collected is None else collected.ended.exit_code,
        "ranks_named_by": [] if collected is None else collected.named_by,
        "nodes": [] if collected is None else [asdict(report) for report in collected.reports],
        "places": [] if collected is None else collected.places,
        "losses": losses,
        "warnings": warnings,
        "conditions": {} if collected is None else collected.conditions,
        "bytes": {} if collected is None else collected.taken,
        **({} if collected is None else {"profiled": collected.profiled, **collected.followed}),
    }
    former_capture.forget(out)
    _write_record(job, about, job.spec.ranks() if collected is None else collected.ranks)
    return result


def record_lost(job: Job, exit_code: int, reason: str, started: datetime) -> Outcome:
    """Clean up after a capture whose process has ended without a record, and write its record."""
    spec = job.spec
    # The token is of this attempt to write it; the folder is that of the capture.
    survivors = process_tree.kill_all(json.dumps({"out": spec.out})[1:-1], ())
    spec.folder.mkdir(parents=True, exist_ok=True)
    disk_space.release(spec.folder)
    host_reports.withdraw_start(spec.folder)
    former_capture.forget(spec.folder)
    scratch.remove(job)
    found = _found_ranks(job)
    places = clock.collect(spec.folder, found.ranks)
    result = Outcome(status="error", reason=reason)
    about = {
        **asdict(result),
        "started": started.isoformat(),
        "elapsed_s": round((datetime.now(UTC) - started).total_seconds(), 3),
        "exit_code": exit_code,
        "ranks_named_by": found.named_by,
        "nodes": [],
        "places": places,
        **found.facts,
        "warnings": [
            *found.notes,
            *rank_warnings.collect(spec.folder),
            *job.mask.files(spec.folder, job.tool),
            *(f"process {pid} could not be killed" for pid in survivors),
        ],
        "conditions": {},
    }
    _write_record(job, about, found.ranks)
    return result


def _write_record(job: Job, about: dict[str, Any], ranks: Sequence[Rank]) -> None:
    """Write the record: `about`, and the fields that are the same for every outcome."""
    out = job.spec.folder
    if about["status"] not in ("ok", "skipped"):
        tail = capture_json.tail(out / capture_json.LOG)
        about["log_tail"] = [cut(line, _LINE_LENGTH) for line in tail]
    asked = {**job.requested, "invocation": early_stop.invocation()}
    begun_ns = int(datetime.fromisoformat(about["started"]).timestamp() * 1e9)
    same = {
        "command": container.command_inside(job.command, job.launcher, job.spec, job.node),
        "tool_commands": job.tool_commands,
        "ended": datetime.now(UTC).isoformat(),
        "ranks": [rank.label for rank in ranks],
        "profiled": job.profiled(ranks),
        **({"raw": raw} if (raw := scratch.record(out)) else {}),
        **({"chosen_ranks": job.spec.chosen} if job.spec.chosen else {}),
        **sources.described(out, begun_ns, job.environment, job.added_variables),
        **software_and_hardware.described(job.tool, out, job.launcher),
        "files": capture_json.files(out),
        "environment_added": sorted(job.added_variables),
        **git_state.described(job.spec.workload),
    }
    capture_json.write(out, job.mask.record({**asked, **same, **about}))


def _collect(job: Job) -> CollectedResult:
    """Run the command, gather the results of all hosts, and judge them."""
    spec, out = job.spec, job.spec.folder
    ended, readings, problem = _started(job)
    within_s = _OTHERS_AFTER_FAILURE_S if ended.exit_code else _OTHERS_S
    hosts = job.launcher.host_count
    reports, absent = host_reports.gather_reports(out, hosts, spec.attempt, within_s)
    found = _found_ranks(job)
    ranks, named_by = found.ranks, found.named_by
    dropped = disk_space.drop_unfinished(out, [rank.label for rank in ranks]) if problem else []
    places = clock.collect(out, ranks)
    finishing_notes = job.tool.finish(out)
    profiled = job.profiled(ranks)
    if job.launcher.finds_ranks and isinstance(job.tool, Wrapper) and ranks:
        profiled = [one.label for one in job.tool.share_out(out, ranks[0], found.processes)]
    labels = {rank.label: rank.label in profiled for rank in ranks}
    raw = scratch.record(out)
    converted = [file["name"] for host in raw for file in host["files"]]
    missing = outcome.missing_files(job.tool, out, labels, converted)
    worst = max([ended, *map(_process_end, reports)], key=_severity)
    options = job.tool_options if worst.exit_code else ()
    refusal = first_failure.refused_option(out / capture_json.LOG, options)
    known = absent or host_reports.failures(reports) or refusal
    said = last_words.collect(out)
    status = first_failure.ExitStatus(worst.exit_code, is_of_program=found.have_ended)
    failure = first_failure.first_failure(out, ranks, status, known, said)
    timeout_s, smaller = job.run_settings.timeout_s, outcome.what_helps(job.tool)
    result = outcome.judge_capture(worst, timeout_s, failure, missing, smaller)
    if absent and worst.timed_out:
        result = replace(result, reason=f"{result.reason}; {absent}")
    if result.status == "ok" and found.lack:
        result = Outcome(status="error", reason=found.lack, would_repeat=not found.ranks)
    notes = [*found.notes, *finishing_notes, *scratch.note(job, raw)]
    taken = bytes_bound.collect(out, job.run_settings.max_bytes, scratch.raw_bytes(job, raw))
    notes += bytes_bound.note(taken, spec.tool)
    if job.launcher.finds_ranks and failure and outcome.is_kept(result, missing, ranks):
        notes.append(f"{FAILED_AFTER}{result.reason}")
        result = Outcome(status="ok")
    if problem:
        result = Outcome(status="error", **problem._asdict())
    return CollectedResult(
        ended=ended,
        outcome=result,
        ranks=ranks,
        profiled=profiled,
        named_by=named_by,
        reports=reports,
        conditions=readings,
        dropped=dropped,
        notes=notes,
        followed={**found.facts, "interrupted": ended.interrupted},
        places=places,
        taken=taken,
    )


def _found_ranks(job: Job) -> FoundRanks:
    """Return the ranks with the coordinates that they had, by which their files are named now."""
    out, spec = job.spec.folder, job.spec
    if job.launcher.finds_ranks:
        replacing = request.replacing_line(job.words, job.launcher.working_folder)
        named = int(spec.workload.get("world_size", 1))
        return found_ranks.settle(out, spec.parallel, named, replacing)
    lost = [rank.label for rank in spec.ranks() if not rank_files.has_finished(out, rank)]
    ranks, named_by = rank_files.rename_files(out, spec.ranks())
    # Whatever the exit status says: it is that of a launcher, or of a tool around the rank.
    lack = f"{', '.join(lost)}: the process ended before its program, and nothing says of what"
    return FoundRanks(ranks=ranks, named_by=named_by, lack=lack if lost else "")


def _started(job: Job) -> tuple[ProcessEnd, dict[str, Any], disk_space.Problem | None]:
    """Start this host's ranks and wait; return the end, the conditions, and any problem."""
    deadline_s = time.time() + job.run_settings.timeout_s
    spec = replace(job.spec, deadline_s=deadline_s, node=job.node.rank)
    job = replace(job, spec=spec)
    out, cwd = spec.folder, job.launcher.cwd
    log = host_reports.log(out, out / capture_json.LOG, job.node.rank)
    limit = memory_guard.Limit(
        limit_mb=job.run_settings.memory_limit_mb, at_start=memory_guard.available()
    )
    hosts = host_reports.OtherHosts(out, job.node.rank, job.launcher.host_count, job.spec.attempt)
    with (
        scratch.opened(job) as job,
        disk_space.reserved(out),
        conditions.monitored() as machine,
        container.stopped_on_exit(job.launcher, job.spec, job.node),
        closing(last_words.Listener(spec.token)) as listener,
    ):

        def watch() -> str:
            machine.sample()
            return limit.exceeded(memory_guard.available()) or hosts.reason_to_stop()

        command = container.command_inside(job.command, job.launcher, job.spec, job.node)
        ended = launch(
            command,
            job.environment,
            log,
            job.run_settings.timeout_s,
            spec.token,
            cwd,
            watch,
            _foreground(job),
        )
        if ended.stopped and ended.stopped == hosts.reason_to_stop():
            # Not for want of memory, as `stopped` says.
            ended = replace(ended, stopped="", exit_code=1)
        problem, readings = disk_space.problem(job.spec.raw_folder), machine.summary(ended.cpu_s)
        problem = disk_space.problem(out) or problem
        scratch.bring_back(job, is_good=not (ended.exit_code or problem))
        if ended.exit_code and not problem:
            listener.write(log)
    earlier = [record["conditions"] for record in capture_json.good_siblings(out)]
    readings["warnings"] = conditions.warnings(readings, earlier)
    return replace(ended, shortage=limit.shortage()), readings, problem


def _foreground(job: Job) -> Foreground:
    """Return what links the command to a terminal; ranks that profkit itself starts have none."""
    if not job.launcher.finds_ranks:
        return Foreground()
    return replace(Foreground.of(os.environ), folder=str(job.spec.folder))


def _warnings(job: Job, collected: CollectedResult) -> list[str]:
    """Return warnings for readers of the capture."""
    out = job.spec.folder
    killing = [f"process {pid} could not be killed" for pid in _survivors(collected)]
    removed = [
        f"removed, as the disk was full when it was written: {name}" for name in collected.dropped
    ]
    return [
        *rank_warnings.collect(out),
        *collected.notes,
        *job.notes(),
        *job.mask.files(out, job.tool),
        *killing,
        *removed,
    ]


def _run_on_other_host(job: Job) -> Outcome:
    """Start this host's ranks, and write a report for the first host."""
    out, timeout_s = job.spec.folder, job.run_settings.timeout_s
    reason, ended = job.unavailable_reason() or scratch.problem(job), ProcessEnd(exit_code=127)
    is_over = partial(early_stop.is_over, job.spec)
    node = None if reason else host_reports.meeting_place(out, job.node, timeout_s, is_over)
    if not reason and node is None:
        reason = "the first host tried nothing"
        reason = reason if is_over() else f"the first host has not begun within {timeout_s:g} s"
    try:
        if node is not None:
            job = replace(job, node=node)
            ended = _started(job)[0]
            reason = _host_failure(job, ended)
    except SystemExit as stop:
        reason = f"it was asked to end (exit status {stop})"
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise
    finally:
        report = host_reports.Report(
            node=job.node.rank,
            attempt=job.spec.attempt,
            hostname=socket.gethostname(),
            reason=reason,
            **asdict(ended),
        )
        host_reports.write_report(out, report)
    return Outcome(status="error" if reason else "ok", reason=reason)


def _host_failure(job: Job, ended: ProcessEnd) -> str:
    """Return how this host's ranks failed, with the last words of their log; "" if they did not."""
    if not ended.exit_code:
        return ""
    log = host_reports.log(job.spec.folder, job.spec.folder / capture_json.LOG, job.node.rank)
    last = next((line for line in reversed(capture_json.tail(log)) if line.strip()), "")
    return f"{ended.stopped or f'exit status {ended.exit_code}'}; {log.name} ends with: {last}"


def _process_end(report: host_reports.Report) -> ProcessEnd:
    return ProcessEnd(
        exit_code=report.exit_code,
        timed_out=report.timed_out,
        stopped=report.stopped,
        shortage=report.shortage,
        survivors=report.survivors,
        cpu_s=report.cpu_s,
    )


def _severity(ended: ProcessEnd) -> tuple[bool, bool]:
    return ended.timed_out, ended.exit_code != 0


def _survivors(collected: CollectedResult) -> list[int]:
    on_others = [pid for report in collected.reports for pid in report.survivors]
    return [*collected.ended.survivors, *on_others]
