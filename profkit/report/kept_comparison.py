"""The comparison of two runs that were captured in pairs, as a section and as data."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from profkit.core.errors import InputError
from profkit.core.job_record import NOTHING
from profkit.core.result import Document, Result
from profkit.report import result_tree

NAME = "pairs"
"""Name of the section on the comparison, where analyses have theirs."""

_SECTION = "section"
_SUMMARY = (
    "By how much does one side differ from the other, and can that be said?\n\n"
    "Values are geometric means over the pairs, as their ratio is judged. A key number of one run "
    "is taken over all of its steps, and may differ from them."
)
# The analysis that says of all runs what pairs say of these two, from medians of whole runs.
_OF_ALL_RUNS = "comparison"


def read_comparison(path: str) -> dict[str, Any] | None:
    """Return the comparison in a file; None for no file. Raises `InputError` if it is damaged."""
    if not path:
        return None
    try:
        found: dict[str, Any] = msgspec.json.decode(Path(path).read_bytes(), type=dict[str, Any])
        msgspec.convert(found[_SECTION], Result)
    except (msgspec.MsgspecError, KeyError) as error:
        raise InputError(f"{path}: no comparison: {error}", hint="compare again") from None
    return found


def data(comparison: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return what programs read of a comparison."""
    hidden = (_SECTION, "text")
    return {k: v for k, v in comparison.items() if k not in hidden} if comparison else None


def with_comparison(
    across: result_tree.Run, comparison: Mapping[str, Any] | None
) -> result_tree.Run:
    """Return the results of all runs, with a section on the comparison before them.

    Each result is said once: what the differences between runs found stays in their table.
    """
    if comparison is None:
        return across
    section = Document(
        analysis=NAME,
        title="Comparison in pairs",
        summary=_SUMMARY,
        result=msgspec.convert(comparison[_SECTION], Result),
        provenance=NOTHING,
    )
    documents = {
        name: replace(document, result=replace(document.result, findings=()))
        if name == _OF_ALL_RUNS
        else document
        for name, document in across.documents.items()
    }
    analyses = (NAME, *across.selected.analyses)
    return replace(
        across,
        selected=replace(across.selected, analyses=analyses),
        documents={NAME: section, **documents},
    )
