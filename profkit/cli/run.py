"""``profkit run [OVERRIDES] [-- SNAKEMAKE OPTIONS]``: make the report of a selection."""

import argparse
import errno
import json
import os
import re
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from profkit.cli import FULL_DISK, before_change, cluster, program_end
from profkit.cli import job_server as forked_server
from profkit.cli.answer import fastest
from profkit.cli.live import View
from profkit.cli.loudness import add_loudness
from profkit.cli.program_link import ProgramLink
from profkit.cli.run_folders import RUNS, RunFolder, run_named
from profkit.cli.show import of_others, of_run
from profkit.cli.snakemake_process import Snakemake
from profkit.core import progress_events, resources
from profkit.core.capture_record import read_capture
from profkit.core.errors import ConfigError
from profkit.core.usable_cores import usable_cores
from profkit.dag import completed
from profkit.dag.failures import damages, failed_captures, failures
from profkit.dag.inputs import REPORT, Dag
from profkit.dag.job_notes import notes_on_jobs
from profkit.dag.overrides import save_selection
from profkit.planning.cache import load
from profkit.planning.model import Plan
from profkit.process import caller_environment, job_server, parent_watch
from profkit.process.forked import Forked

_FOLDERS = ("results/runs", "results/selection", "results/logs", ".snakemake")
_PERIOD_S = 0.2
_TAIL = 30
_DEFAULTS = (
    "note: no overrides are given, so profkit's example is run; your own program: profkit profile"
    " -- python train.py\n"
)
_SIGNALS = 128
"""What a shell adds to the number of the signal that ended a command."""
_TOTAL = re.compile(r"^total\s+(\d+)$")
_CAPTURES = re.compile(r"^capture_\w+\s+(\d+)$")
_FRAMES = ("Traceback (most recent call last)", "--- Logging error ---", "Call stack:")
"""What frames follow, in errors of Snakemake's own and in those of its messages."""

_NO_SPACE = re.compile(r"no space (?:is )?left", re.IGNORECASE)
# Around an error that a file of the workflow raises, Snakemake says where that stands in it.
_IN_WORKFLOW = re.compile(
    r"^\w+ in file .+, line \d+:$|^ *File \".+\", line \d+, in |^Using workflow specific profile "
    r"|^Message: |^Arguments: "
)
_RECORDED_BEFORE = "note: all of this was recorded before; --again records it anew\n"
_KILLED = "killed before it wrote a word; the same command makes it again"
_FAILED_LOG = re.compile(r"^\s+log: (.+?) \(check log file")
# With these options Snakemake makes no report: its own output is the result.
_PRINTING = {
    *("-n", "--dry-run", "--dryrun", "--unlock", "--lint", "--dag", "--rulegraph", "--filegraph"),
    *("--summary", "-S", "--detailed-summary", "-D", "--list-rules", "--list", "-l", "--touch"),
    *("-h", "--help", "-v", "--version", "--delete-all-output", "--cleanup-metadata"),
}


@dataclass
class SnakemakeOutput:
    """The parts of Snakemake's output so far that the view and the error messages need."""

    total: int = 0
    captures: int = 0
    failed_logs: list[Path] = field(default_factory=list)
    last_lines: list[str] = field(default_factory=list)
    _is_in_frames: bool = False

    def read_line(self, line: str) -> None:
        """Take in one line."""
        if match := _TOTAL.match(line):
            self.total = int(match[1])
        elif match := _CAPTURES.match(line):
            self.captures += int(match[1])
        elif match := _FAILED_LOG.match(line):
            self.failed_logs += [Path(path) for path in match[1].split(", ")]
        # Of a traceback of Snakemake's own, only the error is of use to people.
        is_frame = self._is_in_frames and (not line.strip() or line.startswith(" "))
        self._is_in_frames = is_frame or line.startswith(_FRAMES)
        if not (self._is_in_frames or _IN_WORKFLOW.match(line)):
            self.last_lines = [*self.last_lines[-_TAIL:], line]


def main(argv: Sequence[str]) -> int:
    """Plan, run Snakemake, show the jobs, and report failures."""
    own, extra = split(argv)
    parser = argparse.ArgumentParser(prog="profkit run", description=__doc__)
    parser.add_argument("overrides", nargs="*", help="Hydra overrides and sweeps")
    add_cores(parser)
    about = "profile of the cluster that captures and conversions run on: a folder of profiles/"
    parser.add_argument("--on", default="", metavar="PROFILE", help=about)
    add_again(parser)
    add_loudness(parser)
    args = parser.parse_intermixed_args(own)
    where = cluster.options(args.on, args.cores) if args.on else ()
    if not (args.overrides or args.quiet or Path("conf").is_dir()):
        sys.stderr.write(_DEFAULTS)
    return produce(args.overrides, extra, args, where=where)


def add_cores(parser: argparse.ArgumentParser) -> None:
    """Add the option that says how many cores jobs may take together."""
    about = "CPU cores that jobs may take together; all if left out"
    parser.add_argument("--cores", type=number_of_cores, default=usable_cores(), help=about)


def add_again(parser: argparse.ArgumentParser) -> None:
    """Let a user record what was recorded before."""
    about = "record all of it anew, and compare with the numbers of before"
    parser.add_argument("--again", action="store_true", help=about)


def number_of_cores(text: str) -> int:
    """Return the value of ``--cores``."""
    if not text.isdigit() or not int(text):
        raise ConfigError(f"--cores: must be at least 1, got {text}")
    return int(text)


def split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words before and behind the first ``--``."""
    words = list(argv)
    where = words.index("--") if "--" in words else len(words)
    return words[:where], words[where + 1 :]


def produce(
    overrides: Sequence[str],
    extra: Sequence[str],
    args: argparse.Namespace,
    link: ProgramLink | None = None,
    where: Sequence[str] = (),
) -> int:
    """Make the report of what `overrides` select, with `extra` options of Snakemake.

    `args` say how many cores to use, how much to print, and whether to record all anew; a `link`,
    that a person waits for the program that is run, and wants its exit status; `where`, the options
    that take the jobs to a cluster instead.
    """
    with Snakemake(works_here=not (where or extra)) as snakemake:
        dag = Dag(load(overrides, meanwhile=snakemake.load))
        if not (extra or args.verbose or args.again) and completed.is_unchanged(dag):
            save_selection(dag.plan.overrides, [run.name for run in dag.plan.runs])
            answer = [REPORT] if args.quiet else _answer(dag)
            sys.stdout.writelines(f"{line}\n" for line in answer)
            if link and not args.quiet:
                sys.stderr.write(_RECORDED_BEFORE)
            return _status_of_program(dag) if link else 0
        notes = [] if args.quiet else [*notes_on_jobs(dag, is_again=args.again), *damages(dag)]
        sys.stderr.writelines(f"note: {note}\n" for note in notes)
        words = [*_words(dag.plan, where or _here(args), [str(REPORT)]), *extra]
        if args.again:
            words += ["--forcerun", *_capturing(dag)]
        if _PRINTING & {word.partition("=")[0] for word in extra}:
            command = [sys.executable, "-m", "snakemake", *words]
            return subprocess.run(command, check=False).returncode
        before_change.keep_numbers(dag, is_again=args.again)
        view = View(verbose=args.verbose, quiet=args.quiet, link=link)
        output, status, failed = _work_off(dag, words, view, snakemake)
    if not (status or failed or (link and link.ended_by)):
        completed.remember(dag)
    if not status:
        answer = [REPORT] if args.quiet else _answer(dag)
        sys.stdout.writelines(f"{line}\n" for line in answer)
    if link and not (args.quiet or status or output.captures):
        sys.stderr.write(_RECORDED_BEFORE)
    if link and link.ended_by:
        return _SIGNALS + link.ended_by
    if link and (of_program := _status_of_program(dag)):
        return of_program
    return 1 if status or failed else 0


def _capturing(dag: Dag) -> list[str]:
    """Return the names of the rules that capture; raises `ConfigError` if none does."""
    rules = [rule.name for rule in dag.capture_rules]
    if not rules:
        raise ConfigError("--again: imported runs are not recorded", hint="import the files again")
    return rules


def _status_of_program(dag: Dag) -> int:
    """Return what the command that was run ended with, of several runs the first that is not 0."""
    paths = (path for run in dag.plan.runs for path in dag.captures_of(run))
    return program_end.exit_status([read_capture(path) for path in paths if path.is_file()])


def make(dag: Dag, targets: Sequence[str], args: argparse.Namespace) -> bool:
    """Make the files `targets`, print what failed, and say whether nothing did.

    `args` say how many cores to use, and how much to print.
    """
    view = View(verbose=args.verbose, quiet=args.quiet)
    words = _words(dag.plan, _here(args), targets)
    _, status, failed = _work_off(dag, words, view, Snakemake())
    return not (status or failed)


def _work_off(
    dag: Dag, words: Sequence[str], view: View, snakemake: Snakemake
) -> tuple[SnakemakeOutput, int, list[str]]:
    """Run Snakemake with `words` and print what failed; return its exit status and that as well."""
    about = Path(dag.selection())
    variables = {parent_watch.INVOCATION: uuid.uuid4().hex}
    output = SnakemakeOutput()
    with _job_server(dag.plan):
        status = _run_snakemake(snakemake, words, output, view, variables)
        if status and not about.is_file():
            # A program removed results/: there is a report on that all the same. No capture that
            # has failed is tried again in this invocation.
            dag.selection()
            output = SnakemakeOutput()
            status = _run_snakemake(snakemake, words, output, view, variables)
    failed = list(failures(dag))
    told = _told_by_answer(dag, view) if not status else set()
    shown = [line for line in failed if line not in told]
    _print_outcome(status, output, shown, works_here=snakemake.works_here)
    return output, status, failed


def _told_by_answer(dag: Dag, view: View) -> set[str]:
    """Return the failures of which the answer to a person says more, as of nothing else."""
    names = [run.name for run in dag.plan.runs]
    is_answered = bool(view.link) and not view.is_quiet and len(names) == 1
    is_answered = is_answered and bool(RunFolder(RUNS / names[0]).failure)
    return set(failed_captures(dag)) if is_answered else set()


@contextmanager
def _job_server(plan: Plan) -> Iterator[None]:
    """Serve the jobs of `plan` in a fork, which loads what they need while Snakemake is loaded."""
    forked_server.fork(plan.analyses)
    try:
        yield
    finally:
        job_server.stop()


def _here(args: argparse.Namespace) -> list[str]:
    return ["--cores", str(args.cores)]


def _words(plan: Plan, where: Sequence[str], targets: Sequence[str]) -> list[str]:
    """Return the words of a command line behind ``snakemake``."""
    words = ["--snakefile", str(resources.SNAKEFILE)]
    words += ["--workflow-profile", str(resources.PROFILE), *where]
    # JSON, because Snakemake reads the value as YAML, which would eat quotes and colons. Those of
    # the plan, which hold no secret.
    return [*words, *targets, "--config", f"overrides={json.dumps(plan.overrides)}"]


def _run_snakemake(
    snakemake: Snakemake,
    words: Sequence[str],
    output: SnakemakeOutput,
    view: View,
    variables: Mapping[str, str],
) -> int:
    """Run Snakemake with `variables` to its end and return its exit status."""
    for folder in map(Path, _FOLDERS):
        if folder.exists() and not folder.is_dir():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(folder))
    # A file of its own: another run in this folder, which Snakemake refuses, must not disturb.
    log = Path(f"results/.profkit/events-{os.getpid()}.jsonl").resolve()
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(b"")
    added = {
        progress_events.VARIABLE: str(log),
        **caller_environment.ignored_signals(),
        **variables,
        **(view.link.variables if view.link else {}),
    }
    try:
        with snakemake.running(words, added) as process:
            read = (process, output, view.is_verbose)
            reader = threading.Thread(target=_read, args=read, daemon=True)
            reader.start()
            with view:
                while (status := process.wait(_PERIOD_S)) is None:
                    view.show(log, output)
                # A job that outlives Snakemake holds its output open: do not wait for that.
                reader.join(timeout=1)
                if not reader.is_alive():
                    process.output.close()
                view.show(log, output)
            return status
    finally:
        log.unlink(missing_ok=True)


def _read(process: Forked, output: SnakemakeOutput, verbose: bool) -> None:
    for line in process.output:
        output.read_line(line.rstrip("\n"))
        if verbose:
            sys.stderr.write(line)


def _print_outcome(
    status: int, output: SnakemakeOutput, failed: Sequence[str], *, works_here: bool
) -> None:
    """Print what failed, with the end of its log; of a full disk, that and what to do, first.

    A process of this machine that says nothing was killed: Snakemake knows no more of it.
    """
    has_failed = bool(status or failed)
    if is_full := has_failed and any(map(_NO_SPACE.search, [*output.last_lines, *failed])):
        sys.stderr.write(f"profkit: no space is left on the disk\n  hint: {FULL_DISK}\n")
    for path in dict.fromkeys(output.failed_logs):
        sys.stderr.write(f"failed: {path}\n")
        if path.is_file():
            lines = path.read_text(errors="replace").splitlines()[-_TAIL:]
            lines = [_KILLED] if works_here and not lines else lines
            sys.stderr.writelines(f"  | {line}\n" for line in lines)
    # What a cluster refuses to start has written nothing of its own.
    logs = [path for path in output.failed_logs if path.is_file()]
    is_told = any(works_here or path.stat().st_size for path in logs)
    if status and not (is_told or is_full):
        sys.stderr.writelines(f"{line}\n" for line in _as_said(output.last_lines))
        if any("--unlock" in line for line in output.last_lines):
            sys.stderr.write(
                "a Snakemake that profkit did not start works in this folder, or was killed in it;"
                " once none does: profkit run -- --unlock\n"
            )
    sys.stderr.writelines(f"{line}\n" for line in failed)


def _as_said(lines: Sequence[str]) -> Sequence[str]:
    """Return what Snakemake has said last, an error of profkit's own as all of these are."""
    if [line.startswith("  hint: ") for line in lines] == [False, True]:
        return [f"profkit: {lines[0]}", lines[1]]
    return [f"  | {line}" for line in lines]


def _answer(dag: Dag) -> Iterator[str]:
    """Yield what was found, of several runs in the fastest one, and where the report lies."""
    names = [run.name for run in dag.plan.runs]
    shown = run_named(fastest(names))
    yield from of_run(shown)
    yield from before_change.compared_with_before(shown)
    yield from of_others(names)
