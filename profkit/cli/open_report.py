"""``profkit open [RUN|FILE|FOLDER]``: the report in a browser; traces go to Perfetto."""

import argparse
import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path

from profkit.cli.local_server import LocalServer
from profkit.cli.run_folders import RUNS, run_named
from profkit.core.errors import ConfigError, InputError
from profkit.dag.overrides import last_runs

_RESULTS = Path("results")
_REPORT = "report.html"
_PORTS = 1 << 16


def main(argv: Sequence[str]) -> None:
    """Serve the results on this machine until interrupted."""
    parser = argparse.ArgumentParser(prog="profkit open", description=__doc__)
    about = "a run, by name or how it begins; a file, of which a trace goes to Perfetto; or another"
    about += " folder with results. The report of the last selection if left out"
    parser.add_argument("target", nargs="?", default="", metavar="run|file|folder", help=about)
    about = "only print the address; through ssh: ssh -L PORT:127.0.0.1:PORT HOST"
    parser.add_argument("--no-browser", action="store_true", help=about)
    about = "port to listen at; any that is free if left out"
    parser.add_argument("--port", type=_port, default=0, metavar="N", help=about)
    args = parser.parse_args(argv)
    server, page = serving(args.target, args.port)
    with server:
        address = server.address(page)
        sys.stdout.write(f"{address}\nCtrl-C ends it\n")
        sys.stdout.flush()
        if not args.no_browser:
            webbrowser.open(address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            sys.stdout.write("\n")


def serving(target: str, port: int = 0) -> tuple[LocalServer, str]:
    """Return a server of the results, and of a file elsewhere, with what to open of it.

    Raises `InputError` if there is no such thing.
    """
    file = Path(target)
    if target and file.is_file():
        if (results := _RESULTS.resolve()) in file.resolve().parents:
            return _server(_RESULTS, port), file.resolve().relative_to(results).as_posix()
        return _server(_RESULTS, port, file), file.name
    for results in (file, file / _RESULTS) if target else (_RESULTS,):
        if (results / _REPORT).is_file():
            return _server(results, port), _REPORT
    place = _place(target) if target else ""
    if not (_RESULTS / _REPORT).is_file():
        hint = "profkit profile -- COMMAND makes it; profkit show prints what there is so far"
        raise InputError(f"{_RESULTS / _REPORT}: no such file", hint=hint)
    return _server(_RESULTS, port), _REPORT + place


def _place(name: str) -> str:
    """Return the place of a run in the report, as the page writes it into its address."""
    run = run_named(name)
    names = last_runs()
    if run.path.resolve().parent != RUNS.resolve() or run.name not in names:
        hint = f"profkit show {run.name} prints its answer"
        raise InputError(f"{run.name}: not in the report of the last selection", hint=hint)
    return f"#/overview?run={names.index(run.name) + 1}"


def _server(results: Path, port: int, file: Path | None = None) -> LocalServer:
    extra = {file.name: file.resolve()} if file else {}
    try:
        return LocalServer(results, extra, port)
    except OSError as error:
        hint = "choose another --port, or leave it out"
        raise InputError(f"--port {port}: {error.strerror}", hint=hint) from None


def _port(text: str) -> int:
    if not text.isdigit() or int(text) >= _PORTS:
        raise ConfigError(f"--port: must be a number below {_PORTS}, got {text}")
    return int(text)
