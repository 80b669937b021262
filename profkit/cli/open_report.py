"""``profkit open [FILE]``: the report in a browser, with its files; timelines go to Perfetto."""

import argparse
import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path

from profkit.cli.local_server import LocalServer
from profkit.core.errors import InputError

_RESULTS = Path("results")
_REPORT = "report.html"


def main(argv: Sequence[str]) -> None:
    """Serve the results on this machine until interrupted."""
    parser = argparse.ArgumentParser(prog="profkit open", description=__doc__)
    about = "a file to open in place of the report: a trace goes to Perfetto"
    parser.add_argument("file", nargs="?", type=Path, help=about)
    about = "only print the address; through ssh: ssh -L PORT:127.0.0.1:PORT HOST"
    parser.add_argument("--no-browser", action="store_true", help=about)
    args = parser.parse_args(argv)
    with serving(args.file) as server:
        address = server.address(_name(args.file))
        sys.stdout.write(f"{address}\nCtrl-C ends it\n")
        sys.stdout.flush()
        if not args.no_browser:
            webbrowser.open(address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            sys.stdout.write("\n")


def serving(file: Path | None) -> LocalServer:
    """Return the server of the results, and of `file` if it lies elsewhere.

    Raises `InputError` if it is not there.
    """
    wanted = file or _RESULTS / _REPORT
    if not wanted.is_file():
        hint = "" if file else "profkit run makes it; profkit show prints what there is so far"
        raise InputError(f"{wanted}: no such file", hint=hint)
    if _is_result(wanted):
        return LocalServer(_RESULTS)
    return LocalServer(_RESULTS, {_name(file): wanted.resolve()})


def _name(file: Path | None) -> str:
    """Return the name of a file in the address; any trace is opened as one."""
    if file is None:
        return _REPORT
    if _is_result(file):
        return file.resolve().relative_to(_RESULTS.resolve()).as_posix()
    return file.name


def _is_result(file: Path) -> bool:
    return file.resolve().is_relative_to(_RESULTS.resolve())
