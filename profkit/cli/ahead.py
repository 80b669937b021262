"""The fork server of a large conversion, started while the conversion itself is being loaded.

Both load NumPy and Arrow. One after the other that takes as long as to read 50 MB of a trace.
"""

import argparse
from collections.abc import Sequence
from multiprocessing import forkserver
from pathlib import Path

_LARGE_BYTES = 64 << 20
"""Less is converted before another process could help."""


def start(argv: Sequence[str]) -> None:
    """Start it if ``profkit convert`` is told in `argv` to read much, with several cores."""
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    parser.add_argument("tool", nargs="?")
    parser.add_argument("--captures", type=Path, nargs="+", default=[])
    parser.add_argument("--cores", type=int, default=1)
    try:
        options, _ = parser.parse_known_args(argv)
    except argparse.ArgumentError:
        return  # the command itself says what is wrong
    files = [each for folder in options.captures for each in folder.glob("*") if each.is_file()]
    if options.cores > 1 and sum(each.stat().st_size for each in files) >= _LARGE_BYTES:
        forkserver.set_forkserver_preload([f"profkit.convert.{options.tool}"])
        forkserver.ensure_running()
