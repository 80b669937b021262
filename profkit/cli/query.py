"""``profkit query SQL``: ask all tables of all runs, with DuckDB's SQL."""

import argparse
import csv
import itertools
import json
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from rich.table import Table

from profkit.cli.terminal import Terminal
from profkit.core.errors import InputError, ProfkitError
from profkit.core.job_record import CONVERSION, damaged_outputs, read_job
from profkit.tables.schema import TABLES

if TYPE_CHECKING:
    import duckdb

RUNS = Path("results/runs")
Answer: TypeAlias = tuple[list[str], list[tuple[Any, ...]]]
"""Names of columns, and rows."""


def main(argv: Sequence[str]) -> None:
    """Print the answer; each table has the columns ``run`` and ``tool`` besides its own."""
    parser = argparse.ArgumentParser(prog="profkit query", description=__doc__)
    parser.add_argument("sql", nargs="?", help="a query; left out, the tables that there are")
    about = "how the answer is printed"
    parser.add_argument("--format", choices=("table", "csv", "json"), default="table", help=about)
    parser.add_argument(
        "--unsafe",
        action="store_true",
        help="let the query write, read other files and load extensions, as DuckDB itself does",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=_TIMEOUT_S,
        metavar="SECONDS",
        help="how long the query may take (default: %(default)g)",
    )
    args = parser.parse_args(argv)
    if not 0 < args.timeout <= threading.TIMEOUT_MAX:
        raise InputError(f"--timeout={args.timeout:g}: must be a number of seconds above 0")
    names, rows = answer(
        args.sql or _OVERVIEW, RUNS, is_closed=not args.unsafe, timeout_s=args.timeout
    )
    write = {"table": _write_table, "csv": _write_csv, "json": _write_json}[args.format]
    write(names, rows)


_TIMEOUT_S = 60.0
_MAX_ROWS = 1_000_000
_INTERRUPT_S = 1.0
_UNSAFE = "profkit query --unsafe lets it, if you trust the query"
# Otherwise a name in a query may be a variable of this program, or fetch an extension.
_CLOSED: dict[str, str | bool | int | float | list[str]] = {
    "python_enable_replacements": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
}
# DESCRIBE, SHOW, SUMMARIZE and VALUES are of the first type, a PIVOT of the second.
_UNBROKEN = 1 << 20
_QUESTIONS = ("SELECT", "MULTI")
_OVERVIEW = "select table_name, column_name, data_type from information_schema.columns order by all"


def answer(
    sql: str, runs: Path, *, is_closed: bool = True, timeout_s: float = _TIMEOUT_S
) -> Answer:
    """Return the column names and the rows that `sql` gives over the tables below `runs`.

    Where `is_closed`, it can only ask, and these tables alone. Raises `InputError` where there is
    no table, for what DuckDB does not understand or is not to do, and for more than a million rows
    or `timeout_s` seconds.
    """
    try:
        # Late: an optional package, which only this command needs.
        import duckdb  # noqa: PLC0415
    except ModuleNotFoundError:
        hint = "pip install 'profkit[query]'"
        raise ProfkitError("profkit query needs the package duckdb", hint=hint) from None
    found = {name: sorted(runs.glob(f"*/tables/*/{name}.parquet")) for name in TABLES}
    if not any(found.values()):
        raise InputError(f"{runs}: holds no tables", hint="run `profkit run` in this folder first")
    _check_tables(runs, sql)
    connection = duckdb.connect(config=_CLOSED if is_closed else {})
    for name, paths in found.items():
        if paths:
            connection.execute(_view(name, paths))
    if is_closed:
        _close(connection, itertools.chain(*found.values()))
    try:
        _check(connection.extract_statements(sql), is_closed=is_closed)
        asked = _begun(lambda: _fetched(connection, sql))
        if not wait([asked], timeout_s).done:
            connection.interrupt()
            # Some functions do not heed it: they end with this process.
            wait([asked], _INTERRUPT_S)
            hint = "ask for less, such as one run or a LIMIT, or give it longer with --timeout"
            raise InputError(f"the query has no answer after {timeout_s:g} s", hint=hint)
        return asked.result()
    except duckdb.PermissionException as error:
        raise InputError(str(error).partition("\n")[0], hint=_UNSAFE) from None
    except duckdb.Error as error:
        hint = f"tables: {', '.join(name for name, paths in found.items() if paths)}"
        raise InputError(str(error), hint=hint) from None


def _begun(ask: Callable[[], Answer]) -> "Future[Answer]":
    """Call `ask` in a thread that this process does not wait for at its end."""
    future: Future[Answer] = Future()

    def run() -> None:
        try:
            future.set_result(ask())
        except Exception as error:  # noqa: BLE001 - raised where the result is asked for
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def _fetched(connection: "duckdb.DuckDBPyConnection", sql: str) -> Answer:
    """Return the column names and rows of a query; raises `InputError` for too many."""
    with connection:  # closed here, as only this thread knows when the query has ended
        done = connection.execute(sql)
        rows = done.fetchmany(_MAX_ROWS + 1)
        names = [str(column[0]) for column in done.description or ()]
    if len(rows) > _MAX_ROWS:
        hint = f"add `limit {_MAX_ROWS}`, or count and sum in the query"
        raise InputError(f"the answer has more than {_MAX_ROWS:,} rows", hint=hint)
    return names, rows


def _close(connection: "duckdb.DuckDBPyConnection", tables: Iterable[Path]) -> None:
    """Leave the connection the files of `tables` alone, for good."""
    connection.execute("set allowed_paths = ?", [[str(path) for path in tables]])
    connection.execute("set enable_external_access = false")
    connection.execute("set lock_configuration = true")


def _check(statements: "Sequence[duckdb.Statement]", *, is_closed: bool) -> None:
    """Raise `InputError` for no statement, and where `is_closed` for all but questions.

    A file that may be read could be written over, also by EXPLAIN ANALYZE.
    """
    if not statements:
        raise InputError("the query is empty", hint="leave it out to see the tables")
    for statement in statements:
        if is_closed and statement.type.name not in _QUESTIONS:
            raise InputError(
                f"{statement.type.name} is no question: {statement.query}", hint=_UNSAFE
            )


def _check_tables(runs: Path, sql: str) -> None:
    """Raise `InputError` for a table that has changed since its conversion wrote its record.

    Those that `sql` names are read, at 0.6 s a GB.
    """
    named = {name for name in TABLES if re.search(rf"\b{name}\b", sql, re.IGNORECASE)}
    for record in sorted(runs.glob(f"*/tables/*/{CONVERSION}")):
        for table, found in damaged_outputs(record, read_job(record), named).items():
            hint = "`profkit run` with the overrides of this run converts it again"
            raise InputError(f"{table}: {found}", hint=hint)


def _view(name: str, paths: Iterable[Path]) -> str:
    """Return the statement that makes a view of one table of all runs and tools."""
    files = ", ".join("'" + str(path).replace("'", "''") + "'" for path in paths)
    return (  # a view cannot be prepared with parameters; the names of files are quoted
        f"create view {name} as select string_split(filename, '/')[-4] as run,"  # noqa: S608
        f" string_split(filename, '/')[-2] as tool, * exclude (filename)"
        f" from read_parquet([{files}], filename = true, union_by_name = true)"
    )


def _write_table(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in names:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*map(str, row))
    # A program reads lines: only a terminal, or who states a width, wants long names broken.
    has_width = sys.stdout.isatty() or "COLUMNS" in os.environ
    width = None if has_width else _UNBROKEN
    # Markup off: names of kernels come from strangers.
    console = Terminal(sys.stdout, markup=False, width=width)
    console.print(table)


def _write_csv(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
    csv.writer(sys.stdout, lineterminator="\n").writerows([names, *rows])


def _write_json(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
    sys.stdout.writelines(_lines(names, rows))


def _lines(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> Iterator[str]:
    for row in rows:
        yield json.dumps(dict(zip(names, row, strict=True)), default=str) + "\n"
