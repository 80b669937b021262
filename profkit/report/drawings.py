"""Drawings of analyses on the page: their details, as far as there is room for them."""

from collections.abc import Iterable, Sequence

from profkit.core.drawing import Drawing
from profkit.report import view


def placed(
    anchor: str, drawings: Sequence[tuple[str, Drawing]], budget: int
) -> tuple[tuple[view.Drawing, ...], tuple[view.Block, ...]]:
    """Return `drawings`, by name, and the blocks of those details that `budget` bytes hold.

    The first detail of every drawing comes before the second of any. `anchor` is that of the run.
    """
    blocks: dict[tuple[int, int], view.Block] = {}
    for rank, index in _by_importance(drawings):
        packed = drawings[index][1].details[rank].packed
        if len(packed) > budget:
            break
        budget -= len(packed)
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
                data=drawing.data,
                details=tuple(
                    view.Detail(name=drawing.details[rank].name, block=blocks[index, rank].id)
                    for rank in kept
                ),
                cut=tuple(detail.name for detail in drawing.details[len(kept) :]),
            )
        )
    return tuple(shown), tuple(blocks.values())


def _by_importance(drawings: Iterable[tuple[str, Drawing]]) -> list[tuple[int, int]]:
    """Return the place of each detail in its drawing, and the index of this, as they are kept."""
    places = (
        (rank, index)
        for index, (_, drawing) in enumerate(drawings)
        for rank in range(len(drawing.details))
    )
    return sorted(places)
