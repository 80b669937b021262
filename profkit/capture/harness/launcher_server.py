"""The process that has loaded launchers of ranks: it forks for each capture.

See `profkit.capture.harness.loaded_launcher`, which starts it.
"""

import importlib
import os
import runpy
import signal
import sys
from collections.abc import Sequence
from functools import partial
from typing import NoReturn

from profkit.capture.harness import forked_ranks
from profkit.capture.harness.forked_ranks import Loaded
from profkit.process import caller_environment, forked, job_server, process_tree


def main() -> None:
    """Load the modules that the arguments name, and serve; in a fork, be the guard of a launcher.

    The guard ends all that its launcher has started, once that has ended, or itself is to end.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _, listening_fd, launchers, *ranks = sys.argv
    loaded = Loaded.of(*map(str.split, ranks))
    for module in launchers.split():
        importlib.import_module(module)
    own_path = sys.path[1:]
    job_server.serve(int(listening_fd))
    process_tree.adopt_orphans()
    pid = os.fork()
    if not pid:
        forked.end_with(partial(_launch, own_path, loaded), keeps_exit_functions=True)
    _, status = os.waitpid(pid, 0)
    process_tree.kill_all()
    _end_as(os.waitstatus_to_exitcode(status))


def _end_as(exit_code: int) -> NoReturn:
    """End as a process that ended with `exit_code`, which is negative for a signal."""
    if exit_code < 0:
        if exit_code != -signal.SIGKILL:
            signal.signal(-exit_code, signal.SIG_DFL)
        os.kill(os.getpid(), -exit_code)
    os._exit(exit_code)


def _launch(own_path: Sequence[str], loaded: Loaded | None) -> None:
    """Be ``python -m module`` with the arguments of this job."""
    os.setsid()
    process_tree.die_with_parent()
    # That of the guard, which holds on to what it belongs to.
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    caller_environment.ignore_as_caller()
    environment = caller_environment.restored()
    os.environ.clear()
    os.environ.update(environment)
    _, cwd, sys.executable, _, module, *words = sys.argv
    os.chdir(cwd or ".")
    folders = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:] = [os.getcwd(), *folders, *own_path]  # noqa: PTH109 - as Python has it
    sys.argv[:] = [module, *words]
    del sys.modules[module]
    if loaded:
        forked_ranks.fork_ranks(loaded)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
