"""A Python for Snakemake and profkit: forks of a process that has loaded what they need.

Loading what Snakemake, Hydra and pandas are takes a second of each ``python -m``. profkit is not
among what is loaded: each tree of a test has its own. All else that it is asked for is Python's.
"""

import importlib
import os
import runpy
import subprocess
import sys
import traceback
from pathlib import Path

from profkit.process import job_server
from tests import warm_ranks

_LOADED = ("snakemake.cli", "hydra", "omegaconf", "pandas", "pyarrow.parquet", "pydantic")
_ROOT = Path(__file__).parents[1]


def run(module, *arguments, cwd, env):
    """Return what `subprocess.run` does of ``python -m module``, with the output as text."""
    program = warm_ranks.program("tests.warm", only=("-m snakemake", "-m profkit"))
    command = [program, "-m", module, *map(str, arguments)]
    streams = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
    return subprocess.run(command, cwd=cwd, env=env, check=False, **streams)


def _serve(listening_fd: int) -> None:
    """Fork for each command; in the fork, become ``python -m`` with its arguments."""
    own_path = [entry for entry in sys.path if entry not in ("", str(_ROOT))]
    for name in _LOADED:
        importlib.import_module(name)
    job_server.serve(listening_fd)
    folders = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:] = [str(Path.cwd()), *folders, *own_path]
    for package in ("profkit", "tests"):
        warm_ranks.forget(package)
    sys.argv[:] = sys.argv[2:]
    status = 1
    try:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        status = 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:  # noqa: BLE001 - printed, as Python does
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    # Taking down all that is loaded would take longer than most commands.
    os._exit(status)


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
