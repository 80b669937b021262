"""Start the fork server of a large conversion while the conversion itself is being loaded.

Both load NumPy and Arrow. One after the other that takes as long as to read 50 MB of a trace.
"""

import argparse
from collections.abc import Sequence
from multiprocessing import forkserver
from pathlib import Path

from profkit.core import registry

_LARGE_BYTES = 64 << 20
"""Smaller files are converted before another process could help."""


def start(argv: Sequence[str]) -> None:
    """Start it if `argv` asks ``profkit convert`` to read large files with several cores."""
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    parser.add_argument("tool", nargs="?")
    parser.add_argument("--captures", type=Path, nargs="+", default=[])
    parser.add_argument("--cores", type=int, default=1)
    try:
        options, _ = parser.parse_known_args(argv)
    except argparse.ArgumentError:
        return  # the command itself says what is wrong
    files = [file for folder in options.captures for file in folder.glob("*") if file.is_file()]
    if options.cores > 1 and sum(file.stat().st_size for file in files) >= _LARGE_BYTES:
        forkserver.set_forkserver_preload([registry.converter_module(options.tool)])
        forkserver.ensure_running()
