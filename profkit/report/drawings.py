"""Drawings of analyses on the page, and their details, as far as there is room for them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from profkit.core.drawing import Drawing
from profkit.report import view
from profkit.report.embedded_json import embedded_json


def placed(
    anchor: str, drawings: Sequence[tuple[str, Drawing]], room: int
) -> tuple[tuple[view.Drawing, ...], tuple[view.Block, ...], int]:
    """Return `drawings`, by name, the blocks of details that `room` bytes hold, and their bytes.

    What is drawn at once comes before details, and the first detail of every drawing before the
    second of any. A drawing without room has no data. `anchor` is that of the run.
    """
    used = 0
    at_once: dict[int, Mapping[str, Any]] = {}
    for index, (_, drawing) in enumerate(drawings):
        size = len(embedded_json(drawing.data))
        if used + size <= room:
            at_once[index] = drawing.data
            used += size
    blocks: dict[tuple[int, int], view.Block] = {}
    for rank, index in _by_importance(drawings):
        if index not in at_once:
            continue
        packed = drawings[index][1].details[rank].packed
        if used + len(packed) > room:
            break
        used += len(packed)
        block = f"detail-{anchor}-{index + 1}-{rank + 1}"
        blocks[index, rank] = view.Block(id=block, packed=packed)
    shown = []
    for index, (name, drawing) in enumerate(drawings):
        kept = [rank for rank in range(len(drawing.details)) if (index, rank) in blocks]
        shown.append(
            view.Drawing(
                name=name,
                kind=drawing.kind,
                title=drawing.title,
                data=at_once.get(index),
                details=tuple(
                    view.Detail(name=drawing.details[rank].name, block=blocks[index, rank].id)
                    for rank in kept
                ),
                cut=tuple(detail.name for detail in drawing.details[len(kept) :]),
            )
        )
    return tuple(shown), tuple(blocks.values()), used


def _by_importance(drawings: Iterable[tuple[str, Drawing]]) -> list[tuple[int, int]]:
    """Return the place of each detail in its drawing, and the index of this, as they are kept."""
    places = (
        (rank, index)
        for index, (_, drawing) in enumerate(drawings)
        for rank in range(len(drawing.details))
    )
    return sorted(places)
