"""The rows of the result `causes` as what a verdict consists of."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from profkit.analyze._communication_advice import with_title
from profkit.analyze.division import names
from profkit.analyze.division.profiler_overhead import OVERHEAD
from profkit.core.result import Result
from profkit.core.verdict import Cause, Trust


def table_rows(result: Result, name: str) -> list[dict[str, Any]]:
    """Return the rows of a table, none if the result has none of that name."""
    return result.tables[name].records() if name in result.tables else []


def without_profiler(
    rows: Sequence[dict[str, Any]], rank: int
) -> tuple[list[dict[str, Any]], float]:
    """Return the causes of all ranks without the profiler's, and how long that of `rank` is."""
    overhead = {row["rank"]: row["ms_per_step"] for row in rows if row["id"] == OVERHEAD}
    return [row for row in rows if row["id"] != OVERHEAD], overhead.get(rank, 0.0)


def cause_of(row: Mapping[str, Any], step_ms: float) -> Cause:
    """Return the cause that a row is, as a part of a step of `step_ms`."""
    return with_title(
        Cause(
            id=row["id"],
            title=row["title"],
            ms_per_step=row["ms_per_step"],
            gain_ms=row["gain_ms"],
            share=row["ms_per_step"] / step_ms,
            place=row["place"],
            evidence=json.loads(row["evidence"]),
        )
    )


def trust_of(row: Mapping[str, Any]) -> Trust:
    """Return the check that a row is."""
    return Trust(
        check=row["check"],
        passed=row["passed"] == "true",
        message=row["message"],
        silences=tuple(row["silences"].split()),
    )


def leaves(causes: Sequence[Cause]) -> list[Cause]:
    """Return the causes that have no parts."""
    ids = [cause.id for cause in causes]
    return [cause for cause in causes if not names.has_parts(cause.id, ids)]
