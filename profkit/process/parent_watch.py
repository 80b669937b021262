"""End a job when the workflow that started it has ended, although a shell lies between them."""

import os
import threading
import time
from collections.abc import Mapping

VARIABLE = "PROFKIT_WORKFLOW_PID"
"""Environment variable with the process id of the workflow, which is Snakemake's."""

INVOCATION = "PROFKIT_INVOCATION"
"""Environment variable with the name of one invocation of the workflow, on all hosts."""

_PERIOD_S = 0.5


def has_workflow_ended(environment: Mapping[str, str] = os.environ) -> bool:
    """Say whether the workflow that started this job, if there is one, has ended."""
    # Half of all jobs end before the first look, and are spared this import.
    import psutil  # noqa: PLC0415

    pid = environment.get(VARIABLE)
    try:
        # In containers without an init, a process that has ended may stay a zombie.
        return pid is not None and psutil.Process(int(pid)).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def end_with_workflow() -> None:
    """End this process and all that it starts soon after the workflow."""
    if VARIABLE in os.environ:
        threading.Thread(target=_wait_for_workflow, daemon=True).start()


def _wait_for_workflow() -> None:
    time.sleep(_PERIOD_S)
    while not has_workflow_ended():
        time.sleep(_PERIOD_S)
    from profkit.process import process_tree  # noqa: PLC0415 - as above

    process_tree.kill_all()
    os._exit(1)
