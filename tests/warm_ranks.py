"""A Python for ranks: forks of a process that has loaded torch, which takes seconds each time.

It is given to captures as the setting ``launcher.python``. What it runs is as real as any, but a
child of the server: tests of processes, of their memory and of their signals take Python itself.
"""

import importlib
import os
import runpy
import socket
import subprocess
import sys
import tempfile
import types
from functools import cache
from pathlib import Path

from filelock import FileLock

from profkit.process import job_server

_TORCH = (
    *("torch", "torch._dynamo", "torch.distributed.run", "torch.profiler", "torch.utils.data"),
    # What DeepSpeed and sharded optimizers load.
    *("torch._inductor.compile_fx", "torch.distributed.optim"),
)
_PROFKIT = ("harness.rank", "harness.ranks.module_ranges", "baseline", "torch_profiler")
_LAUNCHERS = ("accelerate.", "deepspeed.launcher.")
_ROOT = Path(__file__).parents[1]
_CLIENT = Path(__file__).with_name("warm_rank_client.py")


def warm_rank_python() -> str:
    """Return the path of the program."""
    return program("tests.warm_ranks")


@cache
def program(module: str, only: tuple[str, ...] = ()) -> str:
    """Return the path of a Python that hands what it runs to the server ``python -m module``.

    The workers of pytest-xdist have one server in common. If arguments are named that it runs
    `only`, all others are for Python itself.
    """
    name = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    folder = Path(tempfile.gettempdir()) / f"profkit-{module}-{name}"
    with FileLock(f"{folder}.lock"):
        if not folder.is_dir():
            _start(folder, module, only)
        # The server ends when no worker holds this open any more.
        os.open(folder / "users", os.O_WRONLY)
    return str(folder / "python")


def _start(folder: Path, module: str, only: tuple[str, ...]) -> None:
    folder.mkdir()
    program, address, users = folder / "python", folder / "socket", folder / "users"
    accepted = "|".join(f'"{words}"' for words in only) or "*"
    program.write_text(
        f'#!/bin/sh\ncase "$1 $2" in {accepted}) set -- -IS {_CLIENT} {address} "$@";; esac\n'
        f'exec {sys.executable} "$@"\n'
    )
    program.chmod(0o755)
    os.mkfifo(users)
    reading = os.open(users, os.O_RDONLY | os.O_NONBLOCK)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(address))
        listening.listen(64)
        command = [sys.executable, "-m", module, str(listening.fileno()), str(program)]
        streams = {"stdin": reading, "pass_fds": [listening.fileno()]}
        # No child of this process: tests of the harness end all that it has.
        subprocess.run(["setsid", "--fork", *command], cwd=_ROOT, check=True, **streams)
    os.close(reading)


def _serve(listening_fd: int, program: str) -> None:
    """Fork for each rank; in the fork, become ``python`` with the arguments of the client."""
    own_path = [entry for entry in sys.path if entry not in ("", str(_ROOT))]
    for name in (*_TORCH, *(f"profkit.capture.{module}" for module in _PROFKIT)):
        importlib.import_module(name)
    job_server.serve(listening_fd)
    # The ranks that torchrun starts are forks as well.
    os.environ["PYTHON_EXEC"] = program
    folders = [str(Path.cwd()), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    sys.path[:] = [*folders, *own_path]
    forget("tests")
    if any(Path(folder, "profkit").is_dir() and folder != str(_ROOT) for folder in folders):
        forget("profkit")
    sys.modules["__main__"] = sys.modules["__mp_main__"] = types.ModuleType("__main__")
    arguments = sys.argv[1:]
    if arguments[0] == "-u":
        del arguments[0]
    if arguments[0] == "-m":
        sys.argv[:] = arguments[1:]
        sys.modules.pop(sys.argv[0], None)
        if sys.argv[0].startswith(_LAUNCHERS):
            # What they start their ranks with.
            sys.executable = program
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    elif arguments[0] == "-c":
        sys.argv[:] = ["-c", *arguments[2:]]
        exec(compile(arguments[1], "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102
    else:
        sys.argv[:] = arguments
        sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
        runpy.run_path(sys.argv[0], run_name="__main__")


def forget(package: str) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        del sys.modules[name]


if __name__ == "__main__":
    _serve(int(sys.argv[1]), sys.argv[2])
