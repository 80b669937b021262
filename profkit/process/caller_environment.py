"""Carry past Snakemake the environment of who called it: it sets variables for its jobs.

Its thread variables would give each rank of a workload as many threads as the job has cores.
Signals that the caller ignores, as below ``nohup`` or behind ``&`` in a script, go with it.
"""

import os
import shlex
import signal
from collections.abc import Iterable, Mapping

LOADED_LAUNCHER = "PROFKIT_LOADED_LAUNCHER"
"""Environment variable of a capture: the socket of the process that has loaded launchers."""

_PREFIX = "PROFKIT_CALLER_"
_IGNORED = f"{_PREFIX}IGNORED_SIGNALS"
_OF_JOBS = {_IGNORED, LOADED_LAUNCHER}
_OF_TERMINALS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
_PATH = "PATH"
# What `snakemake.shell` sets, and bash. A test compares a capture with a bare run.
_REPLACED = (
    *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS"),
    *("NUMEXPR_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"),
    *("TMPDIR", "TMP", "TEMPDIR", "TEMP", "SHLVL"),
)


def kept(environment: Mapping[str, str] = os.environ) -> str:
    """Return assignments, for ``export`` in the shell of a job, of values that a job loses."""
    replaced = {f"{_PREFIX}{name}": environment[name] for name in _REPLACED if name in environment}
    values = replaced | ignored_signals(environment)
    words = [f"{name}={shlex.quote(value)}" for name, value in values.items()]
    # As it is in that shell: an environment of conda has been activated there.
    return " ".join([f"{_PREFIX}{_PATH}=${_PATH}", *words])


def ignored_signals(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variable for jobs that names the signals which the caller ignores.

    Those that a process above this one has found, or else those that this one ignores.
    """
    own = [str(int(number)) for number in _OF_TERMINALS if not heeded([number])]
    return {_IGNORED: environment.get(_IGNORED, " ".join(own))}


def heeded(signums: Iterable[int]) -> list[int]:
    """Return those of `signums` that this process was not started to ignore."""
    return [number for number in signums if signal.getsignal(number) is not signal.SIG_IGN]


def ignore_as_caller(environment: Mapping[str, str] = os.environ) -> None:
    """Have this process, and what it becomes, ignore the signals that the caller ignores."""
    for number in environment.get(_IGNORED, "").split():
        signal.signal(int(number), signal.SIG_IGN)


def restored(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return `environment` of a job as the caller's was; no change where there was no Snakemake."""
    values = {
        name.removeprefix(_PREFIX): value
        for name, value in environment.items()
        if name.startswith(_PREFIX) and name not in _OF_JOBS
    }
    if not values:
        return {name: environment[name] for name in environment if name not in _OF_JOBS}
    changed = {*_REPLACED, _PATH, *_OF_JOBS, *(f"{_PREFIX}{name}" for name in values)}
    return {name: environment[name] for name in environment if name not in changed} | values
