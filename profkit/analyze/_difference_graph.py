"""The flame graph of the difference of two runs, a part for each comparison."""

import math
from collections.abc import Iterator, Mapping, Sequence

from profkit.analyze.shared.frame_tree import Stack, tree_of
from profkit.analyze.shared.matched_parts import Matched, stacks
from profkit.analyze.shared.paired_parts import PairedParts
from profkit.analyze.shared.uncertainty import student_quantile
from profkit.core.drawing import Detail, Drawing

_NS = 1e6
_CONFIDENCE = 0.95
_WIDTH, _BEFORE, _AFTER = range(3)


def differences(
    compared: Mapping[str, tuple[PairedParts, Sequence[Matched]]], base: str, most: int
) -> dict[str, Drawing]:
    """Return the drawing of what differs from `base`, by label; none without anything to draw.

    A frame is as wide as the longer of its two times. Pairs of repeats travel with it, so that the
    interval of any sum of frames can be computed. `most` frames are drawn of each comparison.
    """
    if not compared:
        return {}
    details = tuple(
        Detail.of(label, tree_of(_stacks(parts, matches)).plain(most, _AFTER + 1) | _pairs(parts))
        for label, (parts, matches) in compared.items()
    )
    look = {"unit": "ns", "of": "Compared", "groups": [], "total": len(details)}
    look |= {"measures": [{"title": "The longer of both times, of each part", "column": _WIDTH}]}
    look |= {"difference": {"before": _BEFORE, "after": _AFTER, "base": base}}
    title = "Difference of a traced step by module, operator and kernel"
    return {"differences": Drawing(kind="flame", title=title, data=look, details=details)}


def _stacks(parts: PairedParts, matches: Sequence[Matched]) -> Iterator[Stack]:
    for stack in stacks(parts, matches):
        times = (stack.before_ms, stack.after_ms)
        values = [round(ms * _NS) for ms in (max(times), *times, *stack.by_pair)]
        yield (), list(zip(stack.kinds, stack.frames, strict=True)), values


def _pairs(parts: PairedParts) -> dict[str, object]:
    """Return the columns of the pairs, and half the interval of their mean by their spread."""
    count = parts.pairs
    half = student_quantile(_CONFIDENCE, count - 1) / math.sqrt(count) if count > 1 else 0.0
    return {"pairs": list(range(_AFTER + 1, _AFTER + 1 + count)), "factor": half}
