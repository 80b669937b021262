"""Trees of frames, as flame graphs draw them: equal stacks summed, the smallest frames joined."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profkit.analyze.shared import calltree
from profkit.analyze.shared.frame_kinds import Frame
from profkit.tables.tree_paths import Numbers

_LEAST_SHARE = 1 / 5000
"""Of all in each column: below a pixel of the widest screens."""

REST: Frame = ("other", "(smaller frames)")

Stack = tuple[tuple[str, ...], Sequence[Frame], Sequence[int]]
"""What it belongs to, such as thread and phase, frames from the root, a number for each column."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FrameTree:
    """Frames below one particular stack each, as columns; a frame comes after the one above it."""

    frames: Sequence[Frame]
    """The distinct ones."""

    above: Numbers
    """Row of the caller, -1 for none."""

    frame: Numbers
    """Index in `frames`."""

    own: NDArray[np.int64]
    """What a frame has by itself, shape (rows, columns)."""

    groups: Sequence[tuple[str, ...]]
    group: Numbers
    """Index in `groups` of what the stack belongs to."""

    def plain(self, most: int, sizes: int = 1) -> dict[str, Any]:
        """Return the tree as lists.

        What is too small to be seen, or does not belong to the `most` largest frames, is one frame
        of its caller. The first `sizes` columns say how large a frame is.
        """
        tree = _joined(self, most, sizes)
        used, frame = np.unique(tree.frame, return_inverse=True)
        frames = [tree.frames[index] for index in used.tolist()]
        kinds = list(dict.fromkeys(kind for kind, _ in frames))
        return {
            "names": [text for _, text in frames],
            "kinds": kinds,
            "kind": [kinds.index(kind) for kind, _ in frames],
            "above": tree.above.tolist(),
            "name": frame.tolist(),
            "own": tree.own.T.tolist(),
            "groups": [list(group) for group in tree.groups],
            "group": tree.group.tolist() if len(tree.groups) > 1 else [],
        }


def tree_of(stacks: Iterable[Stack]) -> FrameTree:
    """Return the tree of `stacks`; frames beside one another are in the order of these."""
    frames: dict[Frame, int] = {}
    groups: dict[tuple[str, ...], int] = {}
    rows: dict[tuple[int, int, int], int] = {}
    own: list[list[int]] = []
    for group, stack, values in stacks:
        row, number = -1, groups.setdefault(group, len(groups))
        for frame in stack:
            row = rows.setdefault((number, row, frames.setdefault(frame, len(frames))), len(rows))
            if row == len(own):
                own.append([0] * len(values))
        if row >= 0:
            own[row] = [had + more for had, more in zip(own[row], values, strict=True)]
    group_of, above, frame_of = np.array(list(rows), dtype=np.int64).reshape(-1, 3).T
    return FrameTree(
        frames=list(frames),
        above=above,
        frame=frame_of,
        own=np.array(own or np.empty((0, 1)), dtype=np.int64),
        groups=list(groups),
        group=group_of,
    )


def _joined(tree: FrameTree, most: int, sizes: int) -> FrameTree:
    """Return the frames that are large enough, and one below each for what its others have."""
    rows = np.arange(len(tree.above))
    total = np.column_stack([calltree.subtree_sums(rows, one, tree.above) for one in tree.own.T])
    share = (total / np.maximum(tree.own.sum(axis=0), 1))[:, :sizes].max(axis=1, initial=0.0)
    kept = share >= _LEAST_SHARE
    if kept.sum() > most:
        # Equal ones are kept all or not at all; who calls a kept one is no smaller, and so kept.
        kept &= share > np.sort(share)[-most - 1]
    lost = np.flatnonzero(~kept & np.append(kept, True)[tree.above] & (share > 0))
    places = np.column_stack([tree.above[lost], tree.group[lost]])
    places, which = np.unique(places, axis=0, return_inverse=True)
    rest = np.zeros((len(places), tree.own.shape[1]), dtype=np.int64)
    np.add.at(rest, which.ravel(), total[lost])
    number = np.full(len(rows) + 1, -1, dtype=np.int64)
    number[:-1][kept] = np.arange(kept.sum())
    return FrameTree(
        frames=[*tree.frames, REST],
        above=number[np.r_[tree.above[kept], places[:, 0]]],
        frame=np.r_[tree.frame[kept], np.full(len(places), len(tree.frames))],
        own=np.concatenate([tree.own[kept], rest]),
        groups=tree.groups,
        group=np.r_[tree.group[kept], places[:, 1]],
    )
