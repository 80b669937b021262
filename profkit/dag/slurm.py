"""Slurm as it is where the workflow starts: what is missing, and which command tells of jobs."""

import re
import shutil
from collections.abc import Iterator, Sequence

from profkit.capture.base import Problem
from profkit.core.formatting import cut
from profkit.process import bounded_command

EXECUTOR = "slurm"
"""Name of Snakemake's plugin, as profiles have it."""

_PROGRAMS = ("sbatch", "squeue", "scancel", "srun", "sinfo")
_TIMEOUT_S = 20
_MOST_SAID = 300
# The plugin looks at most every 180 s.
_LEAST_JOB_AGE_S = 180
_JOB_AGE = re.compile(r"^MinJobAge\s*=\s*(\d+)", re.MULTILINE)


def status_command() -> str:
    """Return the command that tells what became of jobs: ``sacct`` needs accounting to be on."""
    status, _ = _said(["sacct", "--allocations", "--noheader", "--starttime=now"])
    return "squeue" if status else "sacct"


def problems() -> Iterator[Problem]:
    """Yield what keeps captures from running as jobs of Slurm."""
    if missing := [name for name in _PROGRAMS if not shutil.which(name)]:
        what = f"not on PATH: {', '.join(missing)}"
        advice = "start profkit on a login host of the cluster, with its Slurm module loaded"
        yield Problem(kind="missing", what=what, advice=advice)
        return
    status, answer = _said(["sinfo", "--noheader", "--format=%D %t"])
    if status:
        advice = "ask `scontrol ping` whether slurmctld runs"
        yield Problem(kind="missing", what=f"sinfo says: {answer}", advice=advice)
        return
    lines = answer.splitlines()
    if not any({word.strip("*") for word in line.split()[1:]} & _USABLE for line in lines):
        what = f"no node is up: {cut(', '.join(lines), _MOST_SAID) or 'sinfo names none'}"
        yield Problem(kind="missing", what=what, advice="ask `sinfo --list-reasons` why")
    yield from _of_status()


_USABLE = {"idle", "mix", "alloc", "comp", "resv", "plnd"}


def _of_status() -> Iterator[Problem]:
    if status_command() == "sacct":
        return
    age = _JOB_AGE.search(_said(["scontrol", "show", "config"])[1])
    if age and int(age[1]) < _LEAST_JOB_AGE_S:
        yield Problem(
            kind="incompatible",
            what=f"sacct has no accounting, and MinJobAge forgets jobs after {age[1]} s, maybe"
            " before squeue is asked",
            advice=f"set MinJobAge={_LEAST_JOB_AGE_S} or more in slurm.conf, or turn accounting on",
            stops=False,
        )


def _said(command: Sequence[str]) -> tuple[int, str]:
    """Return the exit status of `command`, not 0 if it was ended, and what it said."""
    answer = bounded_command.ask(command, timeout_s=_TIMEOUT_S)
    text = (answer.output + answer.errors).decode(errors="replace").strip()
    return answer.exit_code, answer.failure or text
