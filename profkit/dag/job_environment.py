"""What the jobs of this machine run in: their shell, and the server of which they are forks."""

import os
import shlex
import sys
from collections.abc import Iterable

from profkit.capture.harness import loaded_launcher
from profkit.planning.model import Run
from profkit.process import caller_environment, job_server, parent_watch

_FOLDER = os.path.dirname(sys.executable)  # noqa: PTH120 - no resolving of links


def variables() -> dict[str, str]:
    """Return what makes ``profkit`` in a job the one of this interpreter.

    A job also gets the process that it must not outlive, the Snakemake that parses this.
    """
    path = f"{_FOLDER}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return {"PATH": path, parent_watch.VARIABLE: parent_watch.identity()}


def shell_prefix() -> str:
    """Return shell text that sets the `variables`, and those that a capture gives its workload."""
    workflow = shlex.quote(parent_watch.identity())
    # As PATH is in that shell: an environment of conda has been activated there.
    own = f"PATH={shlex.quote(_FOLDER)}:$PATH {parent_watch.VARIABLE}={workflow}"
    return f"set -euo pipefail; export {own} {caller_environment.kept()}; "


def start_job_server(analyses: Iterable[str]) -> None:
    """Start the process that runs jobs of this machine in forks of itself, if there is none yet.

    It loads the `analyses` that there are jobs of.
    """
    if job_server.address() is None:
        job_server.start("profkit.cli.job_server", *analyses)


def start_loaded_launchers(runs: Iterable[Run]) -> None:
    """Start the process that loads what the captures of `runs` start with."""
    loaded_launcher.serve(run.behaviour for run in runs)
