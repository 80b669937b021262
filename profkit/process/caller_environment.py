"""Carry past Snakemake the environment of who called it: it sets variables for its jobs.

Its thread variables would give each rank of a workload as many threads as the job has cores.
"""

import os
import shlex
from collections.abc import Mapping

_PREFIX = "PROFKIT_CALLER_"
_PATH = "PATH"
# What `snakemake.shell` sets, and bash. A test compares a capture with a bare run.
_REPLACED = (
    *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS"),
    *("NUMEXPR_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"),
    *("TMPDIR", "TMP", "TEMPDIR", "TEMP", "SHLVL"),
)


def kept(environment: Mapping[str, str] = os.environ) -> str:
    """Return assignments, for ``export`` in the shell of a job, of values that a job loses."""
    values = {name: environment[name] for name in _REPLACED if name in environment}
    words = [f"{_PREFIX}{name}={shlex.quote(value)}" for name, value in values.items()]
    # As it is in that shell: an environment of conda has been activated there.
    return " ".join([f"{_PREFIX}{_PATH}=${_PATH}", *words])


def restored(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return `environment` of a job as the caller's was; no change where there was no Snakemake."""
    values = {
        name.removeprefix(_PREFIX): value
        for name, value in environment.items()
        if name.startswith(_PREFIX)
    }
    if not values:
        return dict(environment)
    changed = {*_REPLACED, _PATH, *(f"{_PREFIX}{name}" for name in values)}
    return {name: environment[name] for name in environment if name not in changed} | values
