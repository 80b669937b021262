"""The server of a workflow's jobs: loads what they have in common, then forks for each.

A job of the workflow is one ``profkit ...`` command; see `profkit.process.job_server`.
"""

import importlib
import signal
import sys
from collections.abc import Callable, Collection
from functools import partial

from profkit.core import fingerprint, registry, settings
from profkit.process import computing, job_server
from profkit.process.malloc import uncollected

_LOADED = (
    "profkit.convert.__main__",
    "profkit.process.process_tree",
    "profkit.process.parent_watch",
)

_LOADED_LATER = (
    "profkit.analyze.__main__",
    # Arrow loads them when the first table becomes a frame.
    "pyarrow.pandas_compat",
    "pyarrow.vendored.version",
)

_LOADED_LAST = ("profkit.report.__main__", "profkit.timeline.__main__")

_LOADED_FOR = {"hta.trace_analysis": {"hta", "critical_path"}}
"""Modules that are loaded only where there are jobs of several analyses, which all load them."""


def main() -> None:
    """Serve; in a fork, run its job."""
    # An interrupt of the terminal is for the workflow and its jobs.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _, listening_fd, *analyses = sys.argv
    _load()
    job_server.serve(int(listening_fd), _later(analyses), _run_job)
    importlib.import_module("profkit.__main__").run()


def fork(analyses: Collection[str]) -> None:
    """Serve in a fork of this process, which has loaded most of it already if it made a plan."""
    job_server.fork(_load, _run_job, _later(analyses))


def _load() -> None:
    """Load what conversions need, which come first."""
    computing.prepare()
    with uncollected():
        for name in _LOADED:
            importlib.import_module(name)


def _later(analyses: Collection[str]) -> list[Callable[[], object]]:
    """Return what loads, and looks up once, what most jobs need and no conversion waits for.

    `analyses` are those that there are jobs of.
    """
    own = _own(analyses)
    of_some = [name for name, users in _LOADED_FOR.items() if users.issubset(analyses)]
    names = (*_LOADED_LATER, *own, *of_some, *_LOADED_LAST)
    return [
        *(partial(importlib.import_module, name) for name in names),
        *(partial(_look_up, module) for module in own),
    ]


def _look_up(module: str) -> None:
    settings.adapter(importlib.import_module(module).analyze.config)
    fingerprint.closure("profkit.analyze", module)


def _own(analyses: Collection[str]) -> list[str]:
    """Return the modules of those of the `analyses` that are profkit's own."""
    own = registry.own("profkit.analyze")
    return [own[name] for name in analyses if name in own]


def _run_job() -> int:
    status: int = importlib.import_module("profkit.cli").main()
    return status


if __name__ == "__main__":
    main()
