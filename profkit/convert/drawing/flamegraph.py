"""Flame graphs as one SVG file each, with zoom, search and tooltips inside the file.

The root is at the top and a frame's width is its share of the whole. The file needs no network,
adapts to the width of the window, and stays below `LIMIT_BYTES` for any input.
"""

import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from xml.sax.saxutils import escape

from profkit.convert.drawing.page import filled
from profkit.core.formatting import counted

LIMIT_BYTES = 1_500_000
"""Of frames; the widest are drawn first, the others of one parent are joined."""

_TEMPLATE = Path(__file__).parent / "assets" / "flamegraph.svg"
_LEAST_SHARE = 1 / 4000
"""Of the whole: less is below a pixel on any screen."""

_NAME_CHARACTERS = 300
_MARKUP_BYTES = 190
_ROW_PX = 17
_TOP_PX = 56
_CHARACTER_PX = 7.3
_LEAST_CHARACTERS = 3
_ASSUMED_WIDTH_PX = 1200
_NO_CHANGE, _MORE, _LESS = "hsl(0 0% 82%)", 5, 215
_STRENGTH = 5
_UNITS = {
    "ns": ((1e9, "s"), (1e6, "ms"), (1e3, "µs")),
    "bytes": ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")),
}
# Characters that XML 1.0 cannot hold even escaped, and line breaks, which end a tooltip's name.
_UNWRITABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


@dataclass(slots=True)
class _Frame:
    """A frame below one particular stack."""

    name: str
    weight: float = 0.0
    changes: list[float] = field(default_factory=list)
    """How much more it has than in another recording, in each pair of these; empty for one."""

    children: dict[str, "_Frame"] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Box:
    """A frame that is drawn: shares are of the whole."""

    name: str
    weight: float
    changes: tuple[float, ...]
    left_share: float
    width_share: float
    depth: int


def svg(stacks: Iterable[tuple[Sequence[str], float]], *, unit: str, title: str) -> str:
    """Return the flame graph of `stacks`, frames from the root and a weight each.

    `unit` is ``ns``, ``bytes``, or the plural of what is counted. Weights below 0 are errors.
    """
    root = _tree((frames, weight, ()) for frames, weight in stacks)
    return _drawn(root, lambda box: _colour(box.name), unit, title)


def _drawn(root: _Frame, fill: Callable[["_Box"], str], unit: str, title: str) -> str:
    boxes = list(_boxes(root))
    height = _TOP_PX + _ROW_PX * (max(box.depth for box in boxes) + 1) + 10
    return filled(
        _TEMPLATE,
        title=escape(_writable(title)),
        height=str(height),
        frames="\n".join(_shape(box, root.weight, unit, fill(box)) for box in boxes),
    )


def differential_svg(
    stacks: Iterable[tuple[Sequence[str], float, Sequence[float]]],
    is_noise: Callable[[Sequence[float]], bool],
    *,
    unit: str,
    title: str,
) -> str:
    """Return the flame graph of two recordings, coloured by their difference.

    `stacks` are frames, the larger weight of the two, and how much more the second recording has:
    in each pair of repeats, or once. What has more is red, what has less blue, and noise is grey.
    """
    root = _tree(stacks)

    def fill(box: _Box) -> str:
        change = fmean(box.changes) if box.changes else 0.0
        if not change or is_noise(box.changes):
            return _NO_CHANGE
        depth = min(1.0, _STRENGTH * abs(change) / root.weight)
        return f"hsl({_MORE if change > 0 else _LESS} 75% {88 - 35 * depth:.0f}%)"

    return _drawn(root, fill, unit, title)


def _tree(stacks: Iterable[tuple[Sequence[str], float, Sequence[float]]]) -> _Frame:
    """Return the tree of all stacks; the weight of a frame includes its callees."""
    root = _Frame("all")
    for frames, weight, changes in stacks:
        if not weight >= 0:
            raise ValueError(f"weight {weight} of stack {';'.join(frames)!r}")
        at = root
        _add(at, weight, changes)
        for name in frames:
            child = at.children.get(name)
            if child is None:
                child = at.children[name] = _Frame(name)
            at = child
            _add(at, weight, changes)
    return root


def _add(frame: _Frame, weight: float, changes: Sequence[float]) -> None:
    frame.weight += weight
    if changes:
        known = frame.changes or [0.0] * len(changes)
        frame.changes = [before + more for before, more in zip(known, changes, strict=True)]


def _boxes(root: _Frame) -> Iterator[_Box]:
    """Yield the frames to draw, parents first; siblings by name, so that graphs can be compared."""
    least = _least_weight(root)
    pending = [(root, 0.0, 0)]
    whole = root.weight or 1.0
    while pending:
        frame, left, depth = pending.pop()
        share = frame.weight / whole or 1.0
        yield _Box(frame.name, frame.weight, tuple(frame.changes), left / whole, share, depth)
        small, joined = 0.0, 0
        for child in sorted(frame.children.values(), key=lambda child: child.name):
            if child.weight >= least:
                pending.append((child, left, depth + 1))
                left += child.weight
            else:
                small += child.weight
                joined += 1
        if small >= least:
            name = f"({counted(joined, 'smaller frame')})"
            yield _Box(name, small, (), left / whole, small / whole, depth + 1)


def _least_weight(root: _Frame) -> float:
    """Return the weight of the lightest frame that is drawn."""
    least = max(root.weight * _LEAST_SHARE, 5e-324)
    sizes: list[tuple[float, int]] = []
    pending = [root]
    while pending:
        frame = pending.pop()
        # Twice: the text of the frame and its tooltip; joined frames may double the count.
        sizes.append((frame.weight, 2 * (2 * len(_written(frame.name)) + _MARKUP_BYTES)))
        pending += [child for child in frame.children.values() if child.weight >= least]
    sizes.sort(reverse=True)
    total = 0
    for weight, written in sizes:
        total += written
        if total > LIMIT_BYTES:
            # Equal weights are drawn all or not at all, so this one and its equals are not.
            return float(_next_heavier(weight, sizes, root.weight))
    return least


def _next_heavier(weight: float, sizes: Sequence[tuple[float, int]], whole: float) -> float:
    """Return the smallest weight in `sizes` above `weight`; `whole` if there is none."""
    return min((heavier for heavier, _ in sizes if heavier > weight), default=whole)


def _shape(box: _Box, whole: float, unit: str, fill: str) -> str:
    y = _TOP_PX + _ROW_PX * box.depth
    left, width = 100 * box.left_share, 100 * box.width_share
    share = box.weight / whole if whole else 1.0
    more = f", {_signed(box.changes, unit)}" if box.changes else ""
    return (
        f'<g tabindex="0"><title>{_written(box.name)}\n{escape(_weight_text(box.weight, unit))}, '
        f'{share:.2%}{escape(more)}</title><rect x="{left:.4f}%" y="{y}" width="{width:.4f}%" '
        f'height="{_ROW_PX - 1}" rx="1" fill="{fill}"/>'
        f'<text x="{left:.4f}%" dx="3" y="{y + 12}">{_fitting(box)}</text></g>'
    )


def _signed(changes: Sequence[float], unit: str) -> str:
    change = fmean(changes)
    sign = "+" if change >= 0 else "-"
    return f"{sign}{_weight_text(abs(change), unit)}"


def _weight_text(weight: float, unit: str) -> str:
    for least, name in _UNITS.get(unit, ()):
        if weight >= least:
            return f"{weight / least:.4g} {name}"
    return f"{weight:,.10g} {unit}"


def _fitting(box: _Box) -> str:
    """Return as much of the name as fits; the script repeats this for the real width."""
    room = int((box.width_share * _ASSUMED_WIDTH_PX - 6) / _CHARACTER_PX)
    name = _writable(box.name)
    if len(name) <= room:
        return escape(name)
    return escape(name[: room - 1] + "…") if room >= _LEAST_CHARACTERS else ""


def _written(name: str) -> str:
    return escape(_writable(name))


def _writable(name: str) -> str:
    short = name if len(name) <= _NAME_CHARACTERS else name[: _NAME_CHARACTERS - 1] + "…"
    return _UNWRITABLE.sub(" ", short)


def _colour(name: str) -> str:
    """Return a warm colour that a name has in every graph."""
    number = zlib.crc32(name.encode("utf-8", "replace"))
    return f"hsl({10 + number % 40} {70 + number // 64 % 20}% {62 + number // 4096 % 12}%)"
