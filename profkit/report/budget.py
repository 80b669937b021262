"""Size of the page: what each run may take of it, and what is left out to stay below it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

from profkit.core.formatting import size
from profkit.report import view
from profkit.report.drawn_parts import Parts
from profkit.report.embedded_json import embedded_json
from profkit.report.settings import PageSize, Settings

Shown = TypeVar("Shown", view.Run, view.Across)

_WRAPPING = 80
"""Bytes of the element around the data of a run or a detail."""

_TABLES_AND_DRAWINGS = 0.4
"""Part of a run's room that its words and lists of files leave at least."""


def page_bytes(sizes: Sequence[PageSize], runs: int) -> int:
    """Return how large a page of `runs` runs may be: on the lines between `sizes`, level beyond."""
    ordered = sorted(sizes, key=lambda point: point.runs)
    for below, above in pairwise(ordered):
        if below.runs <= runs < above.runs:
            step = (above.bytes - below.bytes) / (above.runs - below.runs)
            return int(below.bytes + step * (runs - below.runs))
    return ordered[0].bytes if runs < ordered[0].runs else ordered[-1].bytes


def fitted(
    report: view.Report, parts: Sequence[Parts], across: Parts, code_bytes: int, settings: Settings
) -> view.Report:
    """Return `report` with as much of `parts`, one for each of its runs, as there is room for.

    Whatever a run leaves of its room, those after it share.
    """
    most = page_bytes(settings.page_bytes, len(report.runs))
    left = most - code_bytes - _size(replace(report, runs=(), blocks=()))
    left -= _size([run.in_menu() for run in report.runs])
    together, blocks = _drawn(
        replace(report.across, drawn=view.Drawn()), across, left // (len(parts) + 1), settings
    )
    left -= _size(together.drawn) + _packed(blocks)
    runs: list[view.Run] = []
    for run, drawn in zip(report.runs, parts, strict=True):
        room = left // (len(parts) - len(runs))
        shown, own = _drawn(_shortened(run, room), drawn, room, settings)
        left -= _size(shown) + _packed(own) + _WRAPPING
        runs.append(shown)
        blocks += own
    whole = replace(report, runs=tuple(runs), across=together, blocks=blocks)
    return replace(whole, cuts=_cuts(whole, most))


def _drawn(
    shown: Shown, parts: Parts, room: int, settings: Settings
) -> tuple[Shown, tuple[view.Block, ...]]:
    left = max(room - _size(shown), 0)
    drawn, blocks = parts.fitted(shown.anchor, settings.max_rows_per_table, left)
    return replace(shown, drawn=drawn), blocks


def _shortened(run: view.Run, room: int) -> view.Run:
    """Return `run` without its lists of files, and then its listings, where there is no room."""
    most = room * (1 - _TABLES_AND_DRAWINGS)
    if _size(run) > most:
        folders = (
            replace(folder, files=(), hidden=folder.hidden + len(folder.files))
            for folder in run.folders
        )
        run = replace(run, folders=tuple(folders))
    if _size(run) > most:
        left_out = "This page has no room for it; manifest.json of the run has it."
        listings = (replace(listing, text=left_out) for listing in run.listings)
        run = replace(run, listings=tuple(listings))
    return run


def _size(shown: object) -> int:
    return len(embedded_json(shown).encode())


def _packed(blocks: Sequence[view.Block]) -> int:
    return sum(len(block.packed) + _WRAPPING for block in blocks)


def _cuts(report: view.Report, most: int) -> tuple[str, ...]:
    """Return a sentence for each kind of thing that is not whole in the page."""
    drawn = [report.across.drawn, *(run.drawn for run in report.runs)]
    counts = {
        "tables cut": _count(
            drawn, lambda part: [len(table.rows) < table.total for table in part.tables]
        ),
        "drawings left out": _count(
            drawn, lambda part: [drawing.data is None for drawing in part.drawings]
        ),
        "details of drawings left out": _count(drawn, _details),
    }
    texts = [f"{cut} of {of} {what}" for what, (cut, of) in counts.items() if cut]
    if not texts:
        return ()
    return (f"Limited to {size(most)}: {', '.join(texts)}. The result files have all.",)


def _details(part: view.Drawn) -> list[bool]:
    return [
        is_cut
        for drawing in part.drawings
        for is_cut in [False] * len(drawing.details) + [True] * len(drawing.cut)
    ]


def _count(
    drawn: Sequence[view.Drawn], is_cut: Callable[[view.Drawn], Sequence[bool]]
) -> tuple[int, int]:
    every = [cut for part in drawn for cut in is_cut(part)]
    return sum(every), len(every)
