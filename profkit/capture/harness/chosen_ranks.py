"""Representative ranks: those that a tool records, as a light capture of the run has shown.

The analysis `CHOICE` chooses them; its result is among those that the capture reads.
"""

from dataclasses import replace
from typing import Any

import msgspec

from profkit.capture.harness.spec import Spec
from profkit.core.formatting import counted
from profkit.core.parallel_layout import CHOICE, REPRESENTATIVE

_SHOWN = 8


class _Table(msgspec.Struct):
    columns: list[str]
    rows: list[list[Any]]


class _Result(msgspec.Struct):
    tables: dict[str, _Table] = msgspec.field(default_factory=dict)


class _Document(msgspec.Struct):
    """The needed parts of a result."""

    result: _Result
    status: str = "ok"
    reason: str = ""


def settled(spec: Spec) -> Spec:
    """Return `spec` with the ranks that were chosen; none if it asks for none, or none is known."""
    document = _read(spec)
    table = document.result.tables.get("ranks") if isinstance(document, _Document) else None
    if table is None:
        return spec
    rows = (dict(zip(table.columns, row, strict=True)) for row in table.rows)
    chosen = [{"rank": int(row["rank"]), "reason": str(row["reason"])} for row in rows]
    return replace(spec, chosen=chosen)


def lack(spec: Spec) -> str:
    """Return why `spec` asks for ranks that were not chosen, or ""."""
    if spec.chosen or not _is_asked_for(spec):
        return ""
    found = _read(spec)
    why = found if isinstance(found, str) else found.reason or "it chose none"
    return f"ranks={REPRESENTATIVE} needs the result of {CHOICE}: {why}"


def note(spec: Spec) -> list[str]:
    """Return which ranks were chosen and why, for readers of the capture."""
    if not spec.chosen:
        return []
    said = [f"rank {one['rank']} ({one['reason']})" for one in spec.chosen[:_SHOWN]]
    more = len(spec.chosen) - len(said)
    names = ", ".join(said) + (f" and {more} more" if more else "")
    count = counted(len(spec.ranks()), "rank")
    return [f"{len(spec.chosen)} of {count} were recorded by {spec.tool}: {names}."]


def _is_asked_for(spec: Spec) -> bool:
    return spec.settings.get("ranks") == REPRESENTATIVE


def _read(spec: Spec) -> _Document | str:
    """Return the result, or why there is none."""
    path = spec.results().get(CHOICE) if _is_asked_for(spec) else None
    if path is None:
        return f"pass it with --reads results/runs/{spec.run}/analyze/{CHOICE}.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Document)
    except (OSError, msgspec.MsgspecError) as error:
        return f"{path.name} cannot be read: {error}"
