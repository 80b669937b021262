"""``report.json``, beside the page: the verdict on each run, and what the page was made of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import msgspec

from profkit.core.job_record import JobRecord
from profkit.core.verdict import Verdict
from profkit.report import result_tree

SCHEMA_VERSION = 1


def verdict_of(run: result_tree.Run) -> Verdict | None:
    """Return the verdict on `run`, None if there is none."""
    document = run.documents.get("verdict")
    return document.result.verdict if document is not None else None


@dataclass(frozen=True, kw_only=True, slots=True)
class RunVerdict:
    """A run of the report, with what limits it."""

    run: str
    folder: str
    verdict: Verdict | None
    """None if there is none, such as that of a run whose analysis failed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Record(JobRecord):
    """What ``report.json`` holds."""

    schema_version: int = SCHEMA_VERSION
    runs: tuple[RunVerdict, ...]
    history: Mapping[str, list[dict[str, str | int | float | None]]]
    """Rows of the tables of the analysis ``history``, by table; empty without saved baselines."""

    comparison: Mapping[str, Any] | None
    """The comparison of two runs that were captured in pairs; None if there is none."""


def encoded(
    runs: Sequence[result_tree.Run],
    across: result_tree.Run,
    comparison: Mapping[str, Any] | None,
    record: JobRecord,
) -> bytes:
    """Return the JSON text: verdicts, history and comparison before the fields of `record`."""
    history = across.documents.get("history")
    tables = history.result.tables if history else {}
    whole = Record(
        runs=tuple(
            RunVerdict(run=run.selected.run, folder=run.selected.folder, verdict=verdict_of(run))
            for run in runs
        ),
        history={name: table.records() for name, table in tables.items()},
        comparison=comparison,
        **{field.name: getattr(record, field.name) for field in fields(record)},
    )
    written = msgspec.to_builtins(whole)
    last = msgspec.to_builtins(record)
    ordered = {name: written[name] for name in written if name not in last} | last
    return msgspec.json.format(msgspec.json.encode(ordered), indent=1)


def json_schema() -> Mapping[str, Any]:
    """Return the JSON Schema of ``report.json``."""
    return msgspec.json.schema(Record)
