"""``profkit run [OVERRIDES] [-- SNAKEMAKE OPTIONS]``: make the report of a selection."""

import argparse
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from profkit import events, resources
from profkit.cli.live import View
from profkit.dag import Dag
from profkit.plan import Plan, load

EVENTS = Path("results/.profkit/events.jsonl")
LOG = Path("results/logs/snakemake.log")
_TAIL = 30
_TOTAL = re.compile(r"^total\s+(\d+)$")
_FAILED_LOG = re.compile(r"^\s+log: (.+?) \(check log file")


@dataclass
class Heard:
    """What Snakemake has said so far, as far as it matters to the view."""

    total: int = 0
    failed_logs: list[Path] = field(default_factory=list)
    last_lines: list[str] = field(default_factory=list)

    def hear(self, line: str) -> None:
        """Take in one line."""
        if match := _TOTAL.match(line):
            self.total = int(match[1])
        elif match := _FAILED_LOG.match(line):
            self.failed_logs += [Path(each) for each in match[1].split(", ")]
        self.last_lines = [*self.last_lines[-_TAIL:], line]


def main(argv: Sequence[str]) -> int:
    """Plan, let Snakemake run, show what is going on, and say what failed."""
    own, extra = _split(argv)
    parser = argparse.ArgumentParser(prog="profkit run", description=__doc__)
    parser.add_argument("overrides", nargs="*", help="Hydra overrides and sweeps")
    parser.add_argument("--cores", type=int, default=os.cpu_count(), help="cores to use")
    parser.add_argument("--verbose", action="store_true", help="show what Snakemake says")
    args = parser.parse_intermixed_args(own)
    plan = load(args.overrides)
    for note in plan.notes:
        sys.stderr.write(f"note: {note}\n")
    heard = Heard()
    status = _snakemake(args, extra, heard)
    if status == 130:  # noqa: PLR2004 - the shell's number for an interrupt
        raise KeyboardInterrupt
    failures = list(_failures(plan))
    _tell(status, heard, failures)
    return 1 if status or failures else 0


def _split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    words = list(argv)
    where = words.index("--") if "--" in words else len(words)
    return words[:where], words[where + 1 :]


def _snakemake(args: argparse.Namespace, extra: Sequence[str], heard: Heard) -> int:
    """Run Snakemake to its end and return its exit status."""
    for path in (EVENTS, LOG):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(resources.SNAKEFILE)]
    command += ["--workflow-profile", str(resources.PROFILE), "--cores", str(args.cores)]
    command += ["results/report.html", "--config", f"overrides={shlex.join(args.overrides)}"]
    environment = os.environ | {events.VARIABLE: str(EVENTS.resolve())}
    process = subprocess.Popen(
        [*command, *extra],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        # Its own group, jobs included: an interrupt reaches them from us, once. Snakemake takes a
        # second one, from the terminal, as an order to leave its jobs behind.
        start_new_session=True,
    )
    reader = threading.Thread(target=_read, args=(process, heard, args.verbose), daemon=True)
    reader.start()
    try:
        with View(verbose=args.verbose) as view:
            while process.poll() is None:
                view.show(EVENTS, heard.total)
            reader.join()
            view.show(EVENTS, heard.total)
    except KeyboardInterrupt:
        os.killpg(process.pid, signal.SIGINT)
        process.wait()
        return 130
    return process.returncode


def _read(process: "subprocess.Popen[str]", heard: Heard, verbose: bool) -> None:
    assert process.stdout is not None  # noqa: S101 - it was opened as a pipe
    with LOG.open("a") as log:
        for line in process.stdout:
            log.write(line)
            log.flush()
            heard.hear(line.rstrip("\n"))
            if verbose:
                sys.stderr.write(line)


def _failures(plan: Plan) -> Iterator[str]:
    """Yield a line for each capture of the plan that is there but failed."""
    dag = Dag(plan)
    for run in plan.runs:
        for tool in run.tools:
            for pattern in dag.captures(tool):
                path = Path(pattern.format(run=run.name))
                if not path.is_file():
                    continue
                record = msgspec.json.decode(path.read_bytes())
                if record["status"] != "ok":
                    yield f"{path.parent}: {record['status']}: {record['reason']}"


def _tell(status: int, heard: Heard, failures: Sequence[str]) -> None:
    """Say what failed, with the end of its log, and where the report is."""
    for path in dict.fromkeys(heard.failed_logs):
        sys.stderr.write(f"failed: {path}\n")
        if path.is_file():
            lines = path.read_text(errors="replace").splitlines()[-_TAIL:]
            sys.stderr.writelines(f"  | {line}\n" for line in lines)
    if status and not heard.failed_logs:
        sys.stderr.writelines(f"  | {line}\n" for line in heard.last_lines)
        if any("--unlock" in line for line in heard.last_lines):
            sys.stderr.write("another run works in this folder; if not: profkit run -- --unlock\n")
    for line in failures:
        sys.stderr.write(f"capture failed: {line}\n")
    if not status:
        sys.stdout.write("results/report.html\n")
