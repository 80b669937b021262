"""A run as the page shows it: its anchor, its label, and links to its files."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

import msgspec

from profkit.core.result import Document, Result
from profkit.report import result_tree, view
from profkit.report.labelled_values import Item, Value


@dataclass(frozen=True, slots=True, eq=False)
class ShownRun:
    """A run, its anchor in the page, and the folder that links start from."""

    run: result_tree.Run
    anchor: str
    folder: str

    @property
    def anchor_link(self) -> view.Link:
        """Link to the run within the page."""
        return view.Link(text=run_label(self.run), href=f"#{self.anchor}")

    def result_link(self, analysis: str) -> view.Link:
        """Link to the file of an analysis' result."""
        folder = PurePosixPath(self.run.elsewhere.get(analysis, ""))
        return self.file_link(str(folder / "analyze" / f"{analysis}.json"))

    def file_link(self, path: str) -> view.Link:
        """Link to `path` in the run's folder; quoted, so that no name becomes a scheme."""
        # Names of files are bytes: those that are not UTF-8 can be quoted, but not shown.
        target = os.path.relpath(os.path.join(self.run.selected.folder, path), self.folder)  # noqa: PTH118
        return view.Link(
            text=path.encode(errors="replace").decode(), href=quote(os.fsencode(target))
        )


def run_label(run: result_tree.Run) -> str:
    """Return how this run differs from the others, or its name if it does not."""
    return ", ".join(map(_said, varying_items(run))) or run.selected.run


def fastest(names: Sequence[str], swept: Result | None) -> str:
    """Return the fastest of the runs as the analysis ``sweep`` has it, the first if unknown."""
    rows = swept.tables["runs"].records() if swept and "runs" in swept.tables else []
    shares = {row["run"]: row["of_fastest_share"] or 0.0 for row in rows}
    return max(names, key=lambda name: shares.get(name, 0.0))


def _said(item: Item) -> str:
    """Return a setting in words: "batch 4", and "zero3" alone, which names itself."""
    value = str(item.value)
    return value if value.startswith(item.label) else f"{item.label} {value}"


def with_run_labels(across: result_tree.Run, runs: Sequence[result_tree.Run]) -> result_tree.Run:
    """Return `across` with the labels of `runs` in place of their longer names."""
    labels = {run.selected.run: run_label(run) for run in runs}
    names = re.compile(rf"(?<![\w.-])(?:{'|'.join(map(re.escape, labels))})(?![\w-])")

    def renamed(value: Any) -> Any:
        if isinstance(value, str):
            return names.sub(lambda found: labels[found[0]], value)
        if isinstance(value, list | tuple):
            return [renamed(item) for item in value]
        if isinstance(value, dict):
            return {key: renamed(item) for key, item in value.items()}
        return value

    documents = {
        name: msgspec.convert(renamed(msgspec.to_builtins(document)), Document)
        for name, document in across.documents.items()
    }
    return replace(across, documents=documents)


def varying_items(run: result_tree.Run) -> tuple[Item, ...]:
    """Return the settings that vary over the selection, with their values in this run."""
    return tuple(
        Item(label=key, value=cell_value(value)) for key, value in run.selected.differs.items()
    )


def cell_value(value: object) -> Value:
    """Return `value` if it fits a cell, or else its text."""
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, int | float | str) or value is None else str(value)
