"""The server of a workflow's jobs: loads what they have in common, then forks for each.

A job of the workflow is one ``profkit ...`` command; see `profkit.process.job_server`.
"""

import importlib
import signal
import sys

from profkit.process import job_server
from profkit.process.malloc import uncollected

_LOADED = (
    "profkit.convert.__main__",
    "profkit.analyze.__main__",
    "profkit.report.__main__",
    "profkit.timeline.__main__",
    "profkit.process.process_tree",
)


def main() -> None:
    """Serve; in a fork, run its job."""
    # An interrupt of the terminal is for the workflow and its jobs.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    command_line = importlib.import_module("profkit.cli")
    with uncollected():
        command_line.prepare_computing()
        for name in _LOADED:
            importlib.import_module(name)
    job_server.serve(int(sys.argv[1]))
    importlib.import_module("profkit.__main__").run()


if __name__ == "__main__":
    main()
