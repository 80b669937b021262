"""``profkit capture TOOL``: run the workload once under one tool."""

import argparse
import signal
import sys
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from profkit.capture.harness.crash_guard import run_guarded
from profkit.capture.harness.hosts import start_hosts
from profkit.capture.harness.job import Job, prepare
from profkit.capture.harness.launch import STOP_SIGNALS
from profkit.capture.harness.record import capture_json
from profkit.capture.harness.record.former_capture import KEPT
from profkit.capture.harness.record.outcome import Outcome
from profkit.capture.harness.run import record_lost, run
from profkit.capture.harness.spec import Spec
from profkit.core import progress_events, run_settings, secret_store
from profkit.core.capture_record import read_capture
from profkit.core.errors import ProfkitError
from profkit.core.formatting import cut
from profkit.core.secret_masking import Masker, forms
from profkit.core.settings import from_json
from profkit.process import parent_watch

_SAID_LENGTH = 2000


def main(argv: Sequence[str]) -> None:
    """Make the capture that `argv` describes; one that fails is recorded, and no error here.

    The arguments may hold references in the place of secrets.
    """
    options = _parser().parse_args(argv)
    spec = Spec(
        token=uuid.uuid4().hex,
        tool=options.tool,
        out=str(options.out.resolve()),
        repeat=options.repeat,
        attempt=options.attempt,
        settings=secret_store.resolved(from_json("--settings", options.settings)),
        reads=[str(path.resolve()) for path in options.reads],
        workload=secret_store.resolved(from_json("--workload", options.workload)),
        secrets=secret_store.secrets_of(options.settings, options.workload),
    )
    try:
        _capture(spec, options, argv)
    except ProfkitError as error:
        raise _masked(error, spec) from None


def _capture(spec: Spec, options: argparse.Namespace, argv: Sequence[str]) -> None:
    log = str(options.out / capture_json.LOG)
    about = {"stage": "capture", "run": spec.run, "name": spec.tool, "repeat": spec.repeat}
    across = () if options.lost else start_hosts.starting_command(spec)
    if across:
        start_hosts.start(spec, across, argv, options.run_settings.timeout_s)
        return
    job = prepare(spec, options.run_settings)
    if not job.node.rank:
        progress_events.emit("started", **about, log=log)
    outcome = _lost(job, options.lost) if options.lost else _captured(job)
    event = "finished" if outcome.status == "ok" else "failed"
    if not job.node.rank:
        progress_events.emit(event, **about, log=log, status=outcome.status, reason=outcome.reason)
    if outcome.reason:
        print(f"{spec.tool}: {outcome.status}: {outcome.reason}", file=sys.stderr)  # noqa: T201


def _captured(job: Job) -> Outcome:
    """Return the outcome of the capture; raises SystemExit if it left no record."""
    if job.node.rank:
        # The record is the first host's.
        return run(job)
    started = datetime.now(UTC)
    status = run_guarded(lambda: _made(job))
    if status < 0:
        reason = f"the process that captures was killed by signal {-status}; the ranks were ended"
        return record_lost(job, status, reason, started)
    if status > 0:
        sys.exit(status)
    made = read_capture(job.spec.folder / capture_json.NAME)
    if datetime.fromisoformat(made["started"]) < started:
        return Outcome(status="ok", reason=KEPT)
    return Outcome(status=made["status"], reason=made["reason"])


def _lost(job: Job, status: int) -> Outcome:
    """Write the record of a capture that ended with `status` and left none; stdin is its output.

    Raises SystemExit if it was asked to stop: then it is made when it is asked for again.
    """
    signum = status - 128
    if parent_watch.has_workflow_ended() or signum == signal.SIGINT:
        sys.exit(status)
    if signum in STOP_SIGNALS:
        name = signal.Signals(signum).name
        sys.exit(
            f"profkit: {name}, which another program or person sent, ended the capture: the same"
            " command captures it again"
        )
    said = _said(sys.stdin.read()) or f"exit status {status}"
    reason = f"the capture left no record: {said}"
    if signum in set(signal.Signals):
        reason = f"the process that guards the capture was killed by signal {signum}"
    return record_lost(job, status, reason, datetime.now(UTC))


def _said(log: str) -> str:
    """Return the last error of profkit's own in `log` as one line, or the last line of another."""
    lines = [line for line in log.splitlines() if line.strip() == line != ""]
    own = [number for number, line in enumerate(lines) if line.startswith("profkit: ")]
    said = "; ".join(lines[own[-1] :] if own else lines[-1:])
    return cut(said.removeprefix("profkit: ").replace(":; ", ": "), _SAID_LENGTH)


def _made(job: Job) -> None:
    try:
        run(job)
    except ProfkitError as error:
        sys.exit(f"profkit: {_masked(error, job.spec)}")


def _masked(error: ProfkitError, spec: Spec) -> ProfkitError:
    """Return an error whose text may be kept in the log of the job."""
    return ProfkitError(Masker(known=forms(spec.secrets)).text(str(error)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="profkit capture", description=__doc__)
    parser.add_argument("tool", help="what to capture with; see `profkit list tools`")
    parser.add_argument("--out", type=Path, required=True, help="folder of this capture")
    parser.add_argument("--repeat", type=int, default=0, help="number of the repeat, from 0")
    parser.add_argument("--attempt", type=int, default=1, help="how often this was tried, from 1")
    parser.add_argument("--settings", default="{}", help="settings of the tool, as JSON")
    parser.add_argument("--workload", default="{}", help="what to run, as JSON")
    parser.add_argument(
        "--reads", type=Path, nargs="*", default=[], help="results that the tool chooses by"
    )
    parser.add_argument(
        "--lost",
        type=int,
        metavar="STATUS",
        help="only write the record of this capture, which ended with STATUS and left none",
    )
    run_settings.add_argument(parser)
    return parser


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ProfkitError as error:
        sys.exit(str(error))
