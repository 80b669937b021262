"""Ranks of profkit's own workloads as forks of their launcher, which has loaded PyTorch.

To load PyTorch, and what DDP loads with it, takes a rank three seconds of a core: more than all its
steps in most captures. Such a fork is as a program of its own that has loaded the same, with the
words, environment, session and streams that the launcher gives it, and as much memory. Any other
program is started, and so are ranks that would have loaded PyTorch in another environment.
"""

import gc
import importlib
import io
import json
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, Self

from profkit.capture.harness.rank import PROGRAM
from profkit.capture.harness.spec import VARIABLE
from profkit.process import forked, resident_pages
from profkit.process.resident_pages import Pages

_STARTER = "torch.distributed.elastic.multiprocessing.subprocess_handler.subprocess_handler"
"""Module of torchrun that starts the ranks by its `Popen`."""

_DEVICES = ("cuda", "hip", "xpu")
"""Kinds of devices that PyTorch can be built for."""

_NAME = Path("/proc/self/comm")
_THREADS = "OMP_NUM_THREADS"
_OF_LAUNCHERS = ("PROFKIT_", "TORCHELASTIC_", "GROUP_", "ROLE_", "LOCAL_")
_READ_LATER = {
    *("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCH_NCCL_ASYNC_ERROR_HANDLING"),
    *("PATH", "PWD", "OLDPWD", "SHLVL", "_"),
}
"""Variables that nothing reads while it is loaded, beside those `_OF_LAUNCHERS`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Loaded:
    """What this process has loaded for ranks."""

    workloads: Collection[str]
    """Workloads whose ranks may be forks."""

    environment: Mapping[str, str]
    """Variables that may have been read meanwhile."""

    added: Mapping[str, str]
    """Variables that were set meanwhile."""

    path: Sequence[str]
    """Folders of modules, behind the current one."""

    pages: Sequence[Pages]
    name: str
    """Of the process, as tools of the system show it."""

    @classmethod
    def of(cls, workloads: Collection[str], modules: Iterable[str]) -> Self | None:
        """Load `modules` for ranks of `workloads`; None where these cannot be forks."""
        if not workloads:
            return None
        # As torchrun gives each of several ranks.
        os.environ.setdefault(_THREADS, "1")
        before = {**os.environ}
        import torch

        # The libraries of a device may keep threads, and state that a fork cannot use.
        if any(getattr(torch.version, kind, None) for kind in _DEVICES):
            return None
        for module in modules:
            importlib.import_module(module)
        pages = resident_pages.resident()
        if not (pages and resident_pages.populate(pages)):
            return None
        return cls(
            workloads=workloads,
            environment=_read_early(before),
            added={name: os.environ[name] for name in os.environ.keys() - before.keys()},
            path=sys.path[1:],
            pages=pages,
            name=_NAME.read_text().strip(),
        )

    def can_be(self, command: Sequence[str], environment: Mapping[str, str]) -> bool:
        """Say whether a fork of this process can be `command` in `environment`."""
        if [*command] != [sys.executable, "-u", *PROGRAM]:
            return False
        workload = json.loads(environment[VARIABLE])["workload"]["workload"]["name"]
        return workload in self.workloads and _read_early(environment) == self.environment


def _read_early(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of `environment` that may be read while libraries are loaded."""
    return {
        name: value
        for name, value in environment.items()
        if name not in _READ_LATER and not name.startswith(_OF_LAUNCHERS)
    }


class ForkedRank:
    """A rank at work, with what torchrun needs of a `subprocess.Popen`."""

    def __init__(self, command: Sequence[str], work: Callable[[], None]) -> None:
        self.args = command
        self._fork = forked.in_session(work, keeps_exit_functions=True)
        self.pid = self._fork.pid

    def poll(self) -> int | None:
        """Return its exit status, negative for a signal; None while it works."""
        return self._fork.wait(0)

    def wait(self, timeout: float = float("inf")) -> int:
        """Return its exit status; raises `subprocess.TimeoutExpired` after `timeout` seconds."""
        if (status := self._fork.wait(timeout)) is None:
            raise subprocess.TimeoutExpired([*self.args], timeout)
        return status


def fork_ranks(loaded: Loaded) -> None:
    """Have torchrun, in this process, fork for ranks that can be forks of what is `loaded`."""
    starter: Any = sys.modules[_STARTER]
    start = starter.Popen

    def started(
        args: Sequence[str], env: Mapping[str, str], stdout: IO[str], stderr: IO[str], **how: bool
    ) -> Any:
        if loaded.can_be(args, env):
            return ForkedRank(args, partial(_be_rank, loaded, env, (stdout, stderr)))
        return start(args=args, env=env, stdout=stdout, stderr=stderr, **how)

    starter.Popen = started


def _be_rank(
    loaded: Loaded, environment: Mapping[str, str], streams: Sequence[IO[str] | None]
) -> None:
    """Be ``python -u -m profkit.capture.harness.rank``."""
    resident_pages.populate(loaded.pages)
    # Python's collector would find what is loaded in such a program.
    gc.unfreeze()
    _seed()
    for signum in signal.valid_signals():
        if callable(signal.getsignal(signum)):
            signal.signal(signum, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    _open_streams(streams)
    _NAME.write_text(loaded.name)
    os.environ.clear()
    os.environ.update({**loaded.added, **environment})
    sys.path[:] = [os.getcwd(), *loaded.path]  # noqa: PTH109 - as Python has it
    _, module = PROGRAM
    sys.argv[:] = [module]
    sys.modules.pop(module, None)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _seed() -> None:
    """Seed from the system what a program would when it loads them; Python does its own."""
    import numpy as np
    import torch

    torch.seed()
    np.random.seed()  # noqa: NPY002 - the one that others may use


def _open_streams(streams: Sequence[IO[str] | None]) -> None:
    """Have output and errors in `streams`, unbuffered, where there are some; close all else."""
    for number, stream in enumerate(streams, start=1):
        if stream is not None:
            os.dup2(stream.fileno(), number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(
            io.FileIO(number, "w", closefd=False), own.encoding, own.errors, write_through=True
        )
        for number, own in enumerate((sys.stdout, sys.stderr), start=1)
    )
