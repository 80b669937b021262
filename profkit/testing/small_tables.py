"""Tables of a few rows, an analysis that runs on them, and the rows of what it returns."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from profkit.analyze.base import Analysis
from profkit.analyze.shared.large_table import LargeTable
from profkit.core.hardware import Hardware
from profkit.core.result import Result
from profkit.patterns.base import CAUSE_COLUMNS, CHARGED, TABLES, Match, Pattern, Step
from profkit.tables import schema

ORIGIN_NS = 1_790_000_000_000_000_001
"""A time of today. It is odd and has 61 bits, so that times that became floats are seen."""

Rows: TypeAlias = Iterable[Mapping[str, Any]] | Iterable[Sequence[Any]]
"""Rows of a table: dictionaries, or tuples that a call names the columns of."""


def span(start_ns: int, end_ns: int, **columns: Any) -> dict[str, Any]:
    """Return a row of the first step on rank 0, with times counted from `ORIGIN_NS`."""
    where = {"rank": 0, "repeat": 0, "step": 0}
    when = {"start_ns": ORIGIN_NS + start_ns, "end_ns": ORIGIN_NS + end_ns}
    return where | when | columns


def frame(table: str, rows: Rows = (), columns: str = "") -> pd.DataFrame:
    """Return `rows` as pandas has `table`; what they leave out is unknown (-1, NaN or "").

    Tuples are values of `columns`, names with spaces between them.
    """
    if not columns:
        return schema.frame(table, (dict(row) for row in rows))
    return schema.frame(table, (dict(zip(columns.split(), row, strict=True)) for row in rows))


def run(analysis: Analysis, **given: Any) -> Result:
    """Run `analysis` on what is `given` by name of its parameters; the others are settings.

    A table is a data frame, one that comes in portions, or its rows, without any if it is left
    out; one of every tool is a dictionary of these by tool, and None if it is left out and
    optional, as is that of one tool. Another analysis' result is empty if it is left out. A table
    of all runs of an analysis across runs is a data frame.
    """
    inputs: dict[str, Any] = {name: _table(name, given.pop(name, ())) for name in analysis.tables}
    for name in analysis.tables_by_tool:
        by_tool = given.pop(name, None if name in analysis.optional else {})
        inputs[name] = by_tool and {tool: _table(name, rows) for tool, rows in by_tool.items()}
    for name, source in analysis.tables_of_tools.items():
        own = given.pop(name, None)
        inputs[name] = None if own is None else _table(source.table, own)
    for name in analysis.results:
        inputs[name] = given.pop(name, {} if analysis.across else Result())
    if analysis.reads_recordings:
        inputs["recordings"] = given.pop("recordings", {})
    if not analysis.across:
        inputs |= {name: given.pop(name, None) for name in analysis.results_if_there}
    others = (*analysis.results_if_there, *analysis.run_parameters)
    inputs |= {name: given.pop(name) for name in others if name in given}
    return analysis.run(**inputs, config=analysis.config(**given))


def _table(name: str, rows: pd.DataFrame | LargeTable | Rows) -> pd.DataFrame | LargeTable:
    return rows if isinstance(rows, pd.DataFrame | LargeTable) else frame(name, rows)


def found(given_pattern: Pattern, *, step: Step | None = None, **known: Any) -> tuple[Match, ...]:
    """Return what a pattern matches in what is `known` by name of its parameters, one step.

    Rows of a table may have ``charged_ns`` besides its columns; tables left out have no rows.
    """
    given: dict[str, Any] = {"step": step or Step(count=1, ms=1.0), "behaviour": {}}
    given |= {"hardware": Hardware(), "causes": pd.DataFrame(columns=list(CAUSE_COLUMNS))} | known
    for name in set(given_pattern.parameters) & set(TABLES):
        rows = [dict(row) for row in given.get(name, ())]
        time = [row.pop(CHARGED, 0) for row in rows]
        given[name] = frame(name, rows).assign(**{CHARGED: np.array(time, dtype=np.int64)})
    return given_pattern.matches(given)


def rows(result: Result, table: str) -> list[dict[str, Any]]:
    """Return the rows of one table of `result`, as dictionaries by column."""
    return result.tables[table].records()
