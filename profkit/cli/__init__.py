"""``profkit``: one command for people (run, plan, list, why) and one for each job of the DAG."""

import difflib
import errno
import importlib
import io
import sys
from collections.abc import Sequence
from pathlib import Path

from profkit import __version__
from profkit.cli.printed_text import printed_text
from profkit.core.errors import ProfkitError
from profkit.process import computing
from profkit.process.malloc import uncollected

JOBS_TITLE = "Jobs of the workflow"

# Module of each command; its ``main(argv)`` returns an exit status, or None for success. Imported
# late: a capture must not load pandas, and no job should load Hydra without need.
GROUPS = {
    "What people type first": {
        "profile": ("profkit.cli.profile", "run any command as typed, and say what is slow in it"),
        "show": (
            "profkit.cli.show",
            "print what limits a run, or a recording that was not imported",
        ),
        "open": (
            "profkit.cli.open_report",
            "open the report in a browser, at a run, or a trace in Perfetto",
        ),
        "ls": ("profkit.cli.list_runs", "list the runs: when, status, step time, size"),
    },
    "Captures and reports": {
        "run": ("profkit.cli.run", "capture, convert, analyze and report what overrides select"),
        "import": (
            "profkit.cli.import_files",
            "make a run of files that a profiler left elsewhere",
        ),
        "plan": ("profkit.cli.plan", "print the runs that overrides select, and what is stale"),
        "compare": (
            "profkit.cli.compare",
            "say by how much one run differs from another, and how sure that is",
        ),
        "what-if": ("profkit.cli.what_if", "predict the step time if a cause took less"),
        "baseline": ("profkit.cli.baseline", "keep the numbers of a run under a name"),
        "history": ("profkit.cli.history", "say when a run's numbers changed over saved results"),
        "gate": ("profkit.cli.gate", "fail if a run is worse than a baseline, for CI"),
        "bisect": ("profkit.cli.bisect", "find the commit that changed the step time"),
        "why": ("profkit.cli.why", "say why a result is stale, or that it is fresh"),
        "query": ("profkit.cli.query", "ask the tables of all runs with SQL"),
        "reproduce": (
            "profkit.cli.reproduce",
            "print what makes a run again, or make it and compare",
        ),
        "export": (
            "profkit.cli.export",
            "copy recordings to a folder, named by run, tool and rank",
        ),
        "clean": ("profkit.cli.clean", "say what takes room in results/, and remove it on request"),
    },
    "This machine, and what there is": {
        "list": ("profkit.cli.list_options", "print what there is: tools, analyses, models, ..."),
        "doctor": ("profkit.cli.doctor", "say which tools work on this machine, and what to do"),
        "hardware": ("profkit.cli.hardware", "measure the peaks of this machine's CPU"),
        "init": (
            "profkit.cli.init",
            "write a starting point: a conf/ of one's own with an example",
        ),
        "new": ("profkit.cli.new", "write the files of a plugin: an analysis, a tool or a model"),
        "completion": (
            "profkit.cli.completion",
            "print what makes bash, zsh or fish complete words",
        ),
    },
    JOBS_TITLE: {
        "capture": ("profkit.capture.__main__", "run a workload under one tool"),
        "manifest": ("profkit.cli.manifest", "write what makes a run reproducible"),
        "convert": ("profkit.convert.__main__", "raw files of one tool to tables"),
        "analyze": ("profkit.analyze.__main__", "tables to a result"),
        "timeline": ("profkit.cli.timeline", "one trace of all ranks, to open in Perfetto"),
        "failed": ("profkit.cli.failed", "a record of a job that failed, in place of its results"),
        "report": ("profkit.report.__main__", "results to one HTML file"),
        "kubernetes-job": (
            "profkit.cli.kubernetes_job",
            "print the Job of Kubernetes that runs a job of the workflow",
        ),
    },
}
COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}

_COMPUTING = ("convert", "analyze", "report", "show")
"""Commands that compute in this process."""

# Jobs that have to end when their Snakemake is killed; a capture watches for that itself.
_ENDED_WITH_SNAKEMAKE = ("manifest", "convert", "analyze", "report")


FULL_DISK = "make room on that disk, which may also have no inodes left, and run again"
_READ_ONLY = "run in a folder that can be written, or make results/ one"
_IN_THE_WAY = "a file lies where a folder must, or a link that leads nowhere: move it away"
# What to do about errors of the file system.
_HINTS = {
    errno.ENOSPC: FULL_DISK,
    errno.EDQUOT: FULL_DISK,
    errno.EROFS: _READ_ONLY,
    errno.EACCES: _READ_ONLY,
    errno.EPERM: _READ_ONLY,
    errno.ENOTDIR: _IN_THE_WAY,
    errno.EEXIST: _IN_THE_WAY,
    errno.ELOOP: _IN_THE_WAY,
    errno.ENAMETOOLONG: "names of files have at most 255 bytes; a command follows `--`",
    errno.EFBIG: "files may be larger with `ulimit -f unlimited`, or on another disk",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Names of files may hold what no encoding can.
        sys.stdout.reconfigure(errors="backslashreplace")
    with printed_text():
        return _commanded(argv)


def _commanded(argv: Sequence[str] | None) -> int:
    command, *rest = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    if command == "help" and rest:
        command, rest = rest[0], ["--help"]
    if command in ("-h", "--help", "help"):
        sys.stdout.write(_usage())
        return 0
    if command in ("-V", "--version"):
        sys.stdout.write(f"profkit {__version__}\n")
        return 0
    if command not in COMMANDS:
        sys.stderr.write(f"profkit: no command named {command!r}\n  hint: {_instead(command)}\n")
        return 2
    return _run(command, rest)


def _run(command: str, argv: Sequence[str]) -> int:
    if command in _COMPUTING:
        computing.prepare()
    if command in _ENDED_WITH_SNAKEMAKE:
        importlib.import_module("profkit.process.parent_watch").end_with_workflow()
    try:
        name = COMMANDS[command][0]
        # pandas alone makes so many objects that collecting takes a fifth of the time to import it,
        # and looking through them again a twentieth of six analyses.
        with uncollected(keeps=name not in sys.modules), computing.prepared():
            module = importlib.import_module(name)
        # Help shows it, and marks of literals are for documentation.
        module.__doc__ = (module.__doc__ or "").replace("``", "")
        return module.main(argv) or 0
    except ProfkitError as error:
        sys.stderr.write(f"profkit: {error}\n")
        return 1
    except OSError as error:
        if _is_folder_gone():
            gone = "profkit: the folder where it was started is no longer there\n"
            sys.stderr.write(f"{gone}  hint: cd into one that is\n")
            return 1
        if error.errno not in _HINTS:
            raise
        sys.stderr.write(f"profkit: {error}\n  hint: {_HINTS[error.errno]}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("profkit: interrupted\n")
        return 130


def _is_folder_gone() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False


def _instead(command: str) -> str:
    """Return what one who typed `command` may have meant."""
    if close := difflib.get_close_matches(command, COMMANDS, n=1):
        return f"did you mean {close[0]!r}?"
    return "profkit --help lists all; your own program: profkit profile -- python train.py"


def _usage() -> str:
    lines = ["usage: profkit COMMAND ...      profkit COMMAND --help says more"]
    for title, commands in GROUPS.items():
        lines += ["", f"{title}:"]
        lines += [f"  {name:10} {about}" for name, (_, about) in commands.items()]
    return "\n".join([*lines, ""])
