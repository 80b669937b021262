"""Where a run is shown and where its files lie, seen from the page."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

import msgspec

from profkit.core.result import Document
from profkit.report import sources, view


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """A run, where the page shows it, and the folder that links start from."""

    run: sources.Run
    anchor: str
    folder: str

    @property
    def here(self) -> view.Link:
        """Link to the run within the page."""
        return view.Link(text=run_label(self.run), href=f"#{self.anchor}")

    def link(self, path: str) -> view.Link:
        """Link to `path` in the run's folder; quoted, so that no name becomes a scheme."""
        # Names of files are bytes: what is not UTF-8 can be quoted, but not shown.
        target = os.path.relpath(os.path.join(self.run.selected.folder, path), self.folder)  # noqa: PTH118
        return view.Link(
            text=path.encode(errors="replace").decode(), href=quote(os.fsencode(target))
        )


def run_label(run: sources.Run) -> str:
    """Return what tells this run from the others, or its name if nothing does."""
    return ", ".join(f"{item.label} {item.value}" for item in differing(run)) or run.selected.run


def labelled(across: sources.Run, runs: Sequence[sources.Run]) -> sources.Run:
    """Return `across` with the labels of `runs` where its results have their names, for brevity."""
    labels = {run.selected.run: run_label(run) for run in runs}
    names = re.compile(rf"(?<![\w.-])(?:{'|'.join(map(re.escape, labels))})(?![\w-])")

    def renamed(value: Any) -> Any:
        if isinstance(value, str):
            return names.sub(lambda found: labels[found[0]], value)
        if isinstance(value, list | tuple):
            return [renamed(each) for each in value]
        if isinstance(value, dict):
            return {key: renamed(each) for key, each in value.items()}
        return value

    documents = {
        name: msgspec.convert(renamed(msgspec.to_builtins(each)), Document)
        for name, each in across.documents.items()
    }
    return replace(across, documents=documents)


def differing(run: sources.Run) -> tuple[view.Item, ...]:
    """Return what varies over the selection, as it is in this run."""
    return tuple(
        view.Item(label=key, value=plain(value)) for key, value in run.selected.differs.items()
    )


def plain(value: object) -> view.Value:
    """Return `value` if it fits a cell, or what it reads like."""
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, int | float | str) or value is None else str(value)
