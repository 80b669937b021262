"""The server of a workflow's jobs: loads what they have in common, then forks for each.

A job of the workflow is one ``profkit ...`` command; see `profkit.process.job_server`.
"""

import importlib
import signal
import sys
from collections.abc import Collection
from functools import partial

from profkit.core import fingerprint, registry, settings
from profkit.process import computing, job_server
from profkit.process.malloc import uncollected

_LOADED = (
    "profkit.convert.__main__",
    "profkit.analyze.__main__",
    "profkit.report.__main__",
    "profkit.timeline.__main__",
    "profkit.process.process_tree",
    "profkit.process.parent_watch",
    # Arrow loads them when the first table becomes a frame.
    "pyarrow.pandas_compat",
    "pyarrow.vendored.version",
)

_LOADED_FOR = {"hta.trace_analysis": {"hta", "critical_path"}}
"""Modules that are loaded only where there are jobs of several analyses, which all load them."""


def main() -> None:
    """Serve; in a fork, run its job."""
    # An interrupt of the terminal is for the workflow and its jobs.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _, listening_fd, *analyses = sys.argv
    _load(analyses)
    job_server.serve(int(listening_fd), partial(_load_large, analyses))
    importlib.import_module("profkit.__main__").run()


def fork(analyses: Collection[str]) -> None:
    """Serve in a fork of this process, which has made a plan and so loaded most of it already."""
    job_server.fork(partial(_load, analyses), _run_job, partial(_load_large, analyses))


def _load(analyses: Collection[str]) -> None:
    """Load what most jobs need, and look up once what would be looked up by each of them.

    `analyses` are those that there are jobs of.
    """
    computing.prepare()
    with uncollected():
        for name in _LOADED:
            importlib.import_module(name)
        own = registry.own("profkit.analyze")
        for module in (own[name] for name in analyses if name in own):
            settings.adapter(importlib.import_module(module).analyze.config)
            fingerprint.closure("profkit.analyze", module)


def _load_large(analyses: Collection[str]) -> None:
    """Load what several of the `analyses` need and takes long: no conversion waits for it."""
    with uncollected():
        for name, users in _LOADED_FOR.items():
            if users.issubset(analyses):
                importlib.import_module(name)


def _run_job() -> int:
    status: int = importlib.import_module("profkit.cli").main()
    return status


if __name__ == "__main__":
    main()
