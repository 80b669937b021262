"""The process that asked for a job, Snakemake for one: a job does not outlive it."""

import os
import threading
import time
from collections.abc import Mapping

VARIABLE = "PROFKIT_OWNER"
"""Environment variable with the number of that process."""

_LOOK_S = 0.5


def is_gone(environment: Mapping[str, str] = os.environ) -> bool:
    """Say whether the process that asked for this job, if one said so, has ended."""
    # Half of all jobs are over before anybody looks, and do not wait for this.
    import psutil  # noqa: PLC0415

    owner = environment.get(VARIABLE)
    try:
        # One that is dead and not yet buried, as in containers without an init, is gone as well.
        return owner is not None and psutil.Process(int(owner)).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def end_with_it() -> None:
    """Have this process and all that it starts end soon after the one that asked for it."""
    if VARIABLE in os.environ:
        threading.Thread(target=_wait_for_its_end, daemon=True).start()


def _wait_for_its_end() -> None:
    time.sleep(_LOOK_S)
    while not is_gone():
        time.sleep(_LOOK_S)
    from profkit.process import process_tree  # noqa: PLC0415 - as above

    process_tree.end_all()
    os._exit(1)
