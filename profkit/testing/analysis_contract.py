"""What profkit asks of every analysis."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from types import ModuleType
from typing import Any

import msgspec
import pandas as pd

from profkit.analyze import analyses
from profkit.analyze.base import Analysis
from profkit.core.hardware import Hardware
from profkit.core.result import Result
from profkit.tables import schema
from profkit.testing.settings_contract import check_settings, require

_RUNS = ("one", "two")
_RUN_PARAMETERS: dict[str, Any] = {
    "hardware": Hardware(
        name="x",
        memory_bytes=1,
        memory_bandwidth_bytes_per_s=1e9,
        peak_flops={"fp32": 1e9},
        link_bytes_per_s=1e9,
        processors=1,
    ),
    "behaviour": {"batch": 2, "model": {"name": "x"}},
}
_Make = Callable[[str], pd.DataFrame]


def check_analysis(module: ModuleType) -> None:
    """Raise `AssertionError` where the analysis in `module` breaks the contract."""
    for check in ANALYSIS_CHECKS:
        check(module)


def is_documented(module: ModuleType) -> None:
    """Check what the report and ``profkit list`` print: first line, title, summary, settings."""
    analysis = _analysis(module)
    first = (module.__doc__ or "").strip().partition("\n")[0]
    require(re.fullmatch(r"[A-Z].*: .*\.", first), f"{module.__name__}: not 'Title: ....': {first}")
    summary = analysis.summary.strip()
    lead = summary.partition("\n")[0]
    require(lead.endswith((".", "?")), "its function has no sentence as docstring")
    require(summary.endswith((".", "?")), f"its docstring ends in no sentence: {summary!r}")
    require(analysis.title[0].isupper(), f"its title begins in lower case: {analysis.title!r}")
    check_settings(analysis.config)


def abstains_on_empty_tables(module: ModuleType) -> None:
    """Check that tables without rows give an abstention, and no finding."""
    analysis = _analysis(module)
    results = {name: _by_run(analysis, Result()) for name in _results(analysis)}
    empty = _given(analysis, schema.frame) | results
    result = _run(analysis, empty)
    require(result.abstentions, "it does not say that nothing is known of empty tables")
    require(not result.findings, f"it finds something in empty tables: {result.findings}")
    for tables in (empty, example(analysis)) if analysis.optional else ():
        without = _run(analysis, tables | dict.fromkeys(analysis.optional))
        require(without.abstentions, f"without {analysis.optional} it does not say what is unknown")


def abstains_on_one_run(module: ModuleType) -> None:
    """Check that an analysis across runs compares one run with nothing."""
    analysis = _analysis(module)
    if analysis.across:
        result = _run(analysis, example(analysis, runs=_RUNS[:1]))
        require(result.abstentions, "it does not say that one run is not enough")
        require(not result.findings, f"it finds something in one run: {result.findings}")


def reads_the_columns_that_it_names(module: ModuleType) -> None:
    """Check that columns which it does not ask for change nothing."""
    analysis = _analysis(module)
    tables = example(analysis)
    for name, columns in analysis.columns.items():
        tables[name] = with_columns(tables[name], columns)
    same = _run(analysis, tables) == _result_of_example(module)
    require(same, "it reads columns that its annotations leave out")


def with_columns(table: Any, columns: Sequence[str]) -> Any:
    """Return a table, or the one of every tool, with those `columns` alone, and the run's."""
    if isinstance(table, Mapping):
        return {tool: rows[list(columns)] for tool, rows in table.items()}
    return table[[*columns, *(name for name in ("run",) if name in table)]]


def survives_json(module: ModuleType) -> None:
    """Check that what it returns is the same once written and read."""
    _check_json(_result_of_example(module))


def divides_by_no_time(module: ModuleType) -> None:
    """Check that it returns numbers, and not NaN, where nothing took any time."""
    analysis = _analysis(module)
    _check_json(_run(analysis, example(analysis, _one_row_without_time)))


def _check_json(result: Result) -> None:
    written = msgspec.json.encode(result)
    try:
        is_same = msgspec.json.decode(written, type=Result) == result
    except msgspec.ValidationError:
        is_same = False
    require(is_same, f"NaN, infinity or another type is in {result}")


def fits_together(module: ModuleType) -> None:
    """Check that charts have their columns, tables their cells, and findings their sentences."""
    result = _result_of_example(module)
    for chart in result.charts:
        drawn = {chart.x, *chart.y, *([chart.color] if chart.color else [])}
        lacking = drawn - set(result.tables[chart.table].columns)
        require(not lacking, f"chart {chart.title!r} draws columns that are not there: {lacking}")
    for name, table in result.tables.items():
        are_even = all(len(row) == len(table.columns) for row in table.rows)
        require(are_even, f"table {name!r} has rows of another length than its columns")
    for finding in result.findings:
        require(finding.message.endswith("."), f"no sentence: {finding.message!r}")
        prefix = finding.metric.partition(".")[0]
        named = {module.__name__.rpartition(".")[2], *analyses()}
        require(prefix in named, f"metric {finding.metric!r} begins with no analysis and a dot")


def leaves_its_input(module: ModuleType) -> None:
    """Check that it changes no table that it is given."""
    analysis = _analysis(module)
    given, before = _given_and_result(module)[0], example(analysis)
    for name in (*analysis.tables, *analysis.tables_by_tool):
        pairs = [(given[name], before[name])]
        if name in analysis.tables_by_tool:
            pairs = [(given[name][tool], before[name][tool]) for tool in given[name]]
        for after, table in pairs:
            pd.testing.assert_frame_equal(after, table, obj=f"table {name!r}")


ANALYSIS_CHECKS = (
    is_documented,
    abstains_on_empty_tables,
    abstains_on_one_run,
    survives_json,
    divides_by_no_time,
    reads_the_columns_that_it_names,
    fits_together,
    leaves_its_input,
)
"""What `check_analysis` checks, one after the other."""


def example(
    analysis: Analysis, make: "_Make | None" = None, runs: Sequence[str] = _RUNS
) -> dict[str, Any]:
    """Return what `analysis` reads: tables as `make` makes them, and the results that these give.

    They have one row of which everything that matters is known, unless `make` says else.
    """
    make = make or _one_row
    results = {
        name: _by_run(analysis, _result_read(name, make), runs) for name in _results(analysis)
    }
    return _given(analysis, make, runs) | results


@cache
def _result_read(name: str, make: _Make) -> Result:
    """Return what the analysis `name` gives to those that read its results."""
    analysis = analyses()[name]
    return _run(analysis, example(analysis, make))


def _result_of_example(module: ModuleType) -> Result:
    return _given_and_result(module)[1]


@cache
def _given_and_result(module: ModuleType) -> tuple[dict[str, Any], Result]:
    """Return the example that was given to the analysis of `module`, and what it returned."""
    given = example(_analysis(module))
    return given, _run(_analysis(module), given)


def _given(analysis: Analysis, make: _Make, runs: Sequence[str] = _RUNS) -> dict[str, Any]:
    """Return the tables that `analysis` reads; across runs, of all `runs`."""

    def table(name: str) -> pd.DataFrame:
        rows = make(name)
        if not analysis.across:
            return rows
        codes = [[code] * len(rows) for code in range(len(runs))]
        labels = [pd.Categorical.from_codes(code, pd.Index(runs)) for code in codes]
        return pd.concat([rows.assign(run=label) for label in labels], ignore_index=True)

    by_tool = {
        name: {tool: table(name) for tool in ("baseline", "other")}
        for name in analysis.tables_by_tool
    }
    of_tools = {name: table(of.table) for name, of in analysis.tables_of_tools.items()}
    known = {
        name: _by_run(analysis, _RUN_PARAMETERS[name], runs) for name in analysis.run_parameters
    }
    if analysis.reads_recordings:
        known["recordings"] = {}
    return {name: table(name) for name in analysis.tables} | by_tool | of_tools | known


def _one_row(table: str, end_ns: int = 20) -> pd.DataFrame:
    """Return a table of one row in which everything is known."""
    known = {"rank": 0, "repeat": 0, "start_ns": 10, "end_ns": end_ns, "step": 5, "name": "x"}
    kinds = {"kernels": "compute", "cpu_ops": "operator"}
    row = {name: value for name, value in known.items() if name in schema.TABLES[table].names}
    if "kind" in schema.TABLES[table].names:
        row["kind"] = kinds.get(table, "host")
    return schema.frame(table, [row])


_one_row_without_time = partial(_one_row, end_ns=10)


def _by_run(analysis: Analysis, value: Any, runs: Sequence[str] = _RUNS) -> Any:
    return dict.fromkeys(runs, value) if analysis.across else value


def _results(analysis: Analysis) -> tuple[str, ...]:
    """Return the analyses whose results `analysis` reads, as if all of them were there."""
    return (*analysis.results, *analysis.results_if_there)


def _run(analysis: Analysis, inputs: dict[str, Any]) -> Result:
    return analysis.run(**inputs, config=analysis.config())


def _analysis(module: ModuleType) -> Analysis:
    analysis: Analysis = module.analyze
    return analysis
