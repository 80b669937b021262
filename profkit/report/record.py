"""``report.json``, beside the page: the verdict on each run, and what the page was made of."""

from collections.abc import Mapping, Sequence
from pathlib import Path
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


def encoded(
    runs: Sequence[result_tree.Run],
    across: result_tree.Run,
    comparison: Mapping[str, Any] | None,
    record: JobRecord,
) -> bytes:
    """Return the JSON text: the fields of `record`, after verdicts, history and comparison."""
    verdicts = [
        {"run": run.selected.run, "folder": run.selected.folder, "verdict": verdict_of(run)}
        for run in runs
    ]
    history = across.documents.get("history")
    saved = (
        {name: table.records() for name, table in history.result.tables.items()} if history else {}
    )
    fields = msgspec.to_builtins(
        {
            "schema_version": SCHEMA_VERSION,
            "runs": verdicts,
            "history": saved,
            "comparison": comparison,
        }
    )
    return msgspec.json.format(msgspec.json.encode(fields | msgspec.to_builtins(record)), indent=1)


def read_verdicts(path: Path) -> dict[str, Verdict | None]:
    """Return the verdict of each run that the ``report.json`` at `path` holds, by name."""
    runs = msgspec.json.decode(path.read_bytes(), type=_Verdicts).runs
    return {one.run: one.verdict for one in runs}


class _RunVerdict(msgspec.Struct):
    run: str
    verdict: Verdict | None


class _Verdicts(msgspec.Struct):
    runs: tuple[_RunVerdict, ...]
