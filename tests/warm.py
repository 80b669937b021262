"""A server that runs modules in forks of itself, in which large packages are loaded already.

Loading what Snakemake, Hydra and pandas are takes a second of each ``python -m``. profkit is not
among what is loaded: each tree of a test has its own.
"""

import gc
import importlib
import json
import os
import runpy
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

_LOADED = ("snakemake.cli", "hydra", "omegaconf", "pandas", "pyarrow.parquet", "pydantic")
_ROOT = Path(__file__).parents[1]


class WarmPython:
    """Runs modules as ``python -m`` does, one after the other."""

    def __init__(self):
        self._start()

    def _start(self):
        code = f"import sys; sys.path[:0] = [{str(_ROOT)!r}]; from tests.warm import serve; serve()"
        self._server = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, module, *arguments, cwd, env):
        """Return what `subprocess.run` does, with the output as text."""
        # A capture in the process of another test ends all that this process has started.
        if self._server.poll() is not None:
            self._start()
        with tempfile.TemporaryDirectory() as folder:
            files = [f"{folder}/stdout", f"{folder}/stderr"]
            job = [module, [*map(str, arguments)], str(cwd), env, files]
            self._server.stdin.write(json.dumps(job) + "\n")
            self._server.stdin.flush()
            status = int(self._server.stdout.readline())
            texts = [Path(file).read_text() for file in files]
        return subprocess.CompletedProcess([module, *arguments], status, *texts)


def serve():
    """Run what is asked for on standard input, and print the exit status of each."""
    for name in _LOADED:
        importlib.import_module(name)
    gc.freeze()
    for line in sys.stdin:
        if not (child := os.fork()):
            _run(*json.loads(line))
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def _run(module, arguments, cwd, env, files):
    """Become ``python -m module arguments``."""
    for descriptor, file in enumerate(["/dev/null", *files]):
        flags = os.O_RDWR | os.O_CREAT
        os.dup2(os.open(file, flags), descriptor)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    own = [entry for entry in sys.path if entry != str(_ROOT)]
    sys.path[:] = [cwd, *env.get("PYTHONPATH", "").split(os.pathsep), *own]
    sys.argv[1:] = arguments
    for name in [name for name in sys.modules if name.partition(".")[0] in ("profkit", "tests")]:
        del sys.modules[name]
    status = 1
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        status = 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:  # noqa: BLE001 - printed, as Python does
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
