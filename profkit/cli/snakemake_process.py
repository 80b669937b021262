"""Snakemake in a fork of this process, which loads it while this one makes a plan."""

import gc
import importlib
import json
import os
import pkgutil
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Self

from profkit.process import forked, job_server, process_tree
from profkit.process.forked import Forked

_STOP_S = 20
_PROFILE = "SNAKEMAKE_PROFILE"
_CLUSTERS = "snakemake_executor_plugin_"
_LOADED_LATER = ("smart_open", "profkit.dag.job_environment", "profkit.dag.staleness")
"""Modules that Snakemake loads once it has read its words, or the Snakefile."""

_WITHOUT_CACHE = (
    *("--shared-fs-usage", "persistence", "input-output", "software-deployment", "sources"),
    "storage-local-copies",
)
"""All that Snakemake shares by default, but for the sources that it keeps in the home folder."""


class Snakemake:
    """A Snakemake, which may be loaded before it is known what it is for.

    One that `works_here` gets no option that names an executor: it needs no plugin for clusters.
    """

    def __init__(self, *, works_here: bool = True) -> None:
        self.works_here = works_here and os.environ.get(_PROFILE, "none") == "none"
        """Whether its jobs are processes of this machine."""
        self._loading: Forked | None = None
        self._orders = -1
        """Descriptor of the pipe that it gets its words through."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if process := self._loaded():
            os.close(self._orders)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(_STOP_S)

    def load(self) -> None:
        """Load it in a fork, while this process goes on."""
        reading, self._orders = os.pipe()
        load = partial(_load_and_wait, reading, self._orders, works_here=self.works_here)
        self._loading = forked.start(load, {})
        os.close(reading)

    @contextmanager
    def running(self, words: Sequence[str], variables: Mapping[str, str]) -> Iterator[Forked]:
        """Start it with `words` behind it and `variables` in its environment.

        However this ends, Snakemake and its jobs end with it.
        """
        for signum in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            if signal.getsignal(signum) is signal.SIG_DFL:
                signal.signal(signum, stop)
        # In a session of its own, jobs included: an interrupt reaches them from us, once. Snakemake
        # takes a second one, from the terminal, as an order to leave its jobs behind.
        process = self._started(words, variables)
        try:
            yield process
        finally:
            if process.wait(0) is None:
                _stop(process, _is_on_cluster(words))

    def _started(self, words: Sequence[str], variables: Mapping[str, str]) -> Forked:
        if not (process := self._loaded()):
            begin = partial(_begin, words, works_here=self.works_here)
            return forked.start(begin, variables)
        # One that could not be loaded has said why, and ended.
        with suppress(BrokenPipeError), os.fdopen(self._orders, "w") as pipe:
            # The whole environment: it was forked with that of loading libraries.
            order = (words, {**os.environ, **variables}, job_server.address())
            pipe.write(f"{json.dumps(order)}\n")
        return process

    def _loaded(self) -> Forked | None:
        process, self._loading = self._loading, None
        return process


def stop(signum: int, frame: FrameType | None = None) -> None:
    """End this process for a signal, as the handler of it, and what it has started."""
    del frame
    if signum == signal.SIGINT:
        raise KeyboardInterrupt
    with suppress(OSError):  # there may be no terminal any more
        sys.stderr.write(f"profkit: ended by {signal.Signals(signum).name}\n")
    sys.exit(128 + signum)


def _leave_out_clusters() -> None:
    """Hide plugins for clusters: Snakemake loads all that it finds, and one loads pandas.

    It looks for each kind of plugins in the whole environment, which is looked through once here.
    """
    find = pkgutil.iter_modules
    others = [module for module in find() if not module.name.startswith(_CLUSTERS)]

    def find_others(path: Any = None, prefix: str = "") -> Iterator[pkgutil.ModuleInfo]:
        return iter(others) if path is None else find(path, prefix)

    pkgutil.iter_modules = find_others


def _load_and_wait(reading: int, orders: int, *, works_here: bool) -> None:
    os.close(orders)
    process_tree.die_with_parent(signal.SIGKILL)
    if works_here:
        _leave_out_clusters()
    # The parser of its words loads plugins, which keep loaded.
    importlib.import_module("snakemake.cli").get_argument_parser()
    for module in _LOADED_LATER:
        importlib.import_module(module)
    gc.freeze()
    gc.enable()
    with os.fdopen(reading) as pipe:
        # Not to its end: other forks have it open too.
        words, environment, address = json.loads(pipe.readline())
    os.environ.clear()
    os.environ.update(environment)
    if address:
        job_server.use(address)
    _be_snakemake(words)


def _begin(words: Sequence[str], *, works_here: bool) -> None:
    if works_here:
        _leave_out_clusters()
    _be_snakemake(words)


def _be_snakemake(words: Sequence[str]) -> None:
    """Be ``snakemake``, with `words` behind it."""
    # Interrupted and not killed, it cancels its jobs on a cluster.
    process_tree.die_with_parent(signal.SIGINT if _is_on_cluster(words) else signal.SIGKILL)
    # asyncio takes over Python's own handler alone: it then cancels, and what it cancels may go on.
    signal.signal(signal.SIGINT, _interrupt)
    is_shared = _is_on_cluster(words) or _has_cache()
    sys.argv = ["snakemake", *words, *([] if is_shared else _WITHOUT_CACHE)]
    # Not in the process that plans: that takes as long as to plan.
    importlib.import_module("snakemake.cli").main()


def _has_cache() -> bool:
    """Tell whether Snakemake can keep sources in the home folder, which a container may lack."""
    folder = Path(importlib.import_module("snakemake.common").get_appdirs().user_cache_dir)
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    return os.access(folder, os.W_OK | os.X_OK)


def _interrupt(signum: int, frame: FrameType | None) -> None:
    del signum, frame
    raise KeyboardInterrupt


def _is_on_cluster(words: Sequence[str]) -> bool:
    return "--profile" in words


def _stop(process: Forked, is_on_cluster: bool) -> None:
    """Interrupt Snakemake and its jobs; kill them if they do not end."""
    # Jobs on a cluster are cancelled by Snakemake, which needs the programs that it has started.
    (os.kill if is_on_cluster else os.killpg)(process.pid, signal.SIGINT)
    job_server.signal_jobs(signal.SIGINT)
    if process.wait(_STOP_S) is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(_STOP_S)
