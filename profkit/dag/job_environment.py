"""What the jobs of this machine run in: their shell, and the server of which they are forks."""

import os
import shlex
import sys
from collections.abc import Iterable

from profkit.process import caller_environment, job_client, job_server, parent_watch


def shell_prefix() -> str:
    """Return shell text that makes ``profkit`` in a job the one of this interpreter.

    A job also gets the process that it must not outlive, the Snakemake that parses this, and the
    variables that a capture gives back to its workload.
    """
    folder = shlex.quote(os.path.dirname(sys.executable))  # noqa: PTH120 - no resolving of links
    workflow = shlex.quote(parent_watch.identity())
    own = f"PATH={folder}:$PATH {parent_watch.VARIABLE}={workflow}"
    text = f"set -euo pipefail; export {own} {caller_environment.kept()}; "
    # Snakemake formats it.
    return text.replace("{", "{{").replace("}", "}}")


def start_job_server(analyses: Iterable[str]) -> None:
    """Start the process that runs jobs of this machine in forks of itself, if there is none yet.

    It loads the `analyses` that there are jobs of.
    """
    if job_client.VARIABLE not in os.environ:
        job_server.start("profkit.cli.job_server", *analyses)


def leave_job_server() -> None:
    """Let the jobs of another host alone with that of the host where the workflow was started."""
    os.environ.pop(job_client.VARIABLE, None)
