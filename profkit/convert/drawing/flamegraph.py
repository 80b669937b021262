"""Flame graphs as one SVG file each, with zoom, search and tooltips inside the file.

The root is at the top and a frame's width is its share of the whole. The file needs no network,
adapts to the width of the window, and stays below `LIMIT_BYTES` whatever it is made of.
"""

import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

LIMIT_BYTES = 1_500_000
"""Of frames; the widest are drawn first, the others of one parent are joined."""

_LEAST_SHARE = 1 / 4000
"""Of the whole: less is below a pixel on any screen."""

_NAME_CHARACTERS = 300
_MARKUP_BYTES = 190
_ROW_PX = 17
_TOP_PX = 56
_CHARACTER_PX = 7.3
_LEAST_CHARACTERS = 3
_ASSUMED_WIDTH_PX = 1200
_UNITS = {
    "ns": ((1e9, "s"), (1e6, "ms"), (1e3, "µs")),
    "bytes": ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")),
}
# What XML 1.0 cannot hold even escaped, and line breaks, which end the name in a tooltip.
_UNWRITABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


@dataclass(slots=True)
class _Frame:
    """A frame below one particular stack."""

    name: str
    weight: float = 0.0
    children: dict[str, "_Frame"] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Box:
    """A frame that is drawn: shares are of the whole."""

    name: str
    weight: float
    left_share: float
    width_share: float
    depth: int


def svg(stacks: Iterable[tuple[Sequence[str], float]], *, unit: str, title: str) -> str:
    """Return the flame graph of `stacks`, frames from the root and a weight each.

    `unit` is ``ns``, ``bytes``, or the plural of what is counted. Weights below 0 are errors.
    """
    root = _merged(stacks)
    boxes = list(_boxes(root))
    height = _TOP_PX + _ROW_PX * (max(box.depth for box in boxes) + 1) + 10
    shapes = "\n".join(_shape(box, root.weight, unit) for box in boxes)
    shown = escape(_writable(title))
    # "]]>" would end the section; the script holds none.
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" width="100%" height="{height}" role="img">
<title>{shown}</title>
<style>
:root {{ background: #fff; color: #1a1a1a; font: 12px ui-monospace, Menlo, Consolas, monospace }}
text {{ fill: currentColor }} g text {{ fill: #1a1a1a; pointer-events: none }}
g {{ cursor: pointer }} g:hover rect, g:focus rect {{ stroke: #000 }} g:focus {{ outline: none }}
g.above rect {{ opacity: .55 }} g.found rect {{ fill: #c65cd6 }} g.gone {{ display: none }}
input {{ width: 100%; box-sizing: border-box; font: inherit }}
h1, .title {{ font-size: 14px; font-weight: 600 }}
@media (prefers-color-scheme: dark) {{
  :root {{ background: #16181c; color: #e6e6e6 }} g:hover rect, g:focus rect {{ stroke: #fff }}
}}
</style>
<text class="title" x="8" y="20">{shown}</text>
<foreignObject x="8" y="28" width="220" height="24"><input xmlns="http://www.w3.org/1999/xhtml" \
type="search" placeholder="search (regular expression)" aria-label="search frames"/></foreignObject>
<text id="says" x="240" y="44">click a frame to zoom, Escape to go back</text>
{shapes}
<script><![CDATA[
{_SCRIPT}]]></script>
</svg>
"""


def _merged(stacks: Iterable[tuple[Sequence[str], float]]) -> _Frame:
    """Return the tree of all stacks; the weight of a frame includes what it called."""
    root = _Frame("all")
    for frames, weight in stacks:
        if not weight >= 0:
            raise ValueError(f"weight {weight} of stack {';'.join(frames)!r}")
        at = root
        at.weight += weight
        for name in frames:
            child = at.children.get(name)
            if child is None:
                child = at.children[name] = _Frame(name)
            at = child
            at.weight += weight
    return root


def _boxes(root: _Frame) -> Iterator[_Box]:
    """Yield what is drawn, parents first; siblings by name, so that graphs can be compared."""
    least = _least_weight(root)
    pending = [(root, 0.0, 0)]
    whole = root.weight or 1.0
    while pending:
        frame, left, depth = pending.pop()
        yield _Box(frame.name, frame.weight, left / whole, frame.weight / whole or 1.0, depth)
        small, joined = 0.0, 0
        for child in sorted(frame.children.values(), key=lambda each: each.name):
            if child.weight >= least:
                pending.append((child, left, depth + 1))
                left += child.weight
            else:
                small += child.weight
                joined += 1
        if small >= least:
            name = f"({joined} smaller frames)"
            yield _Box(name, small, left / whole, small / whole, depth + 1)


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
            return float(_above(weight, sizes, root.weight))
    return least


def _above(weight: float, sizes: Sequence[tuple[float, int]], whole: float) -> float:
    """Return the smallest weight in `sizes` above `weight`; `whole` if there is none."""
    return min((each for each, _ in sizes if each > weight), default=whole)


def _shape(box: _Box, whole: float, unit: str) -> str:
    y = _TOP_PX + _ROW_PX * box.depth
    left, width = 100 * box.left_share, 100 * box.width_share
    share = box.weight / whole if whole else 1.0
    return (
        f'<g tabindex="0"><title>{_written(box.name)}\n{escape(_said(box.weight, unit))}, '
        f'{share:.2%}</title><rect x="{left:.4f}%" y="{y}" width="{width:.4f}%" '
        f'height="{_ROW_PX - 1}" rx="1" fill="{_colour(box.name)}"/>'
        f'<text x="{left:.4f}%" dx="3" y="{y + 12}">{_fitting(box)}</text></g>'
    )


def _said(weight: float, unit: str) -> str:
    for least, name in _UNITS.get(unit, ()):
        if weight >= least:
            return f"{weight / least:.4g} {name}"
    return f"{weight:,.10g} {unit}"


def _fitting(box: _Box) -> str:
    """Return as much of the name as fits; the script does it again for the real width."""
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


# Here and not in a file of its own, so that the fingerprint of what draws graphs covers it.
_SCRIPT = r""""use strict";
(function () {
  const CHARACTER = 7.3, svg = document.documentElement;
  const says = document.getElementById("says"), hint = says.textContent;
  const input = document.querySelector("foreignObject").firstElementChild;
  const frames = Array.from(document.querySelectorAll("g"), function (g) {
    const rect = g.querySelector("rect"), title = g.querySelector("title").textContent;
    return {
      g: g, rect: rect, text: g.querySelector("text"), title: title.replace("\n", " - "),
      name: title.slice(0, title.indexOf("\n")), left: parseFloat(rect.getAttribute("x")),
      width: parseFloat(rect.getAttribute("width")), y: Number(rect.getAttribute("y"))
    };
  });
  const root = frames[0];
  let zoomed = root, found = "";

  // Everything is in percent of the whole, so only the texts depend on the window.
  function draw() {
    const scale = 100 / zoomed.width, end = zoomed.left + zoomed.width, slack = 1e-3;
    const pixels = svg.clientWidth || 1200;
    for (const frame of frames) {
      const above = frame.y < zoomed.y;
      const left = Math.max(frame.left, zoomed.left);
      const right = Math.min(frame.left + frame.width, end);
      const inside = above
        ? frame.left <= zoomed.left + slack && frame.left + frame.width >= end - slack
        : frame.left >= zoomed.left - slack && frame.left + frame.width <= end + slack;
      frame.g.classList.toggle("gone", !inside);
      frame.g.classList.toggle("above", inside && above);
      if (!inside) continue;
      const x = (left - zoomed.left) * scale, width = (right - left) * scale;
      frame.rect.setAttribute("x", x + "%");
      frame.rect.setAttribute("width", Math.max(width, 0) + "%");
      frame.text.setAttribute("x", x + "%");
      const room = Math.floor((pixels * width / 100 - 6) / CHARACTER);
      frame.text.textContent = frame.name.length <= room ? frame.name
        : room > 2 ? frame.name.slice(0, room - 1) + "\u2026" : "";
    }
  }

  function zoom(frame) { zoomed = frame; draw(); }

  function search() {
    let pattern = null;
    try { pattern = input.value ? new RegExp(input.value, "i") : null; } catch (error) {
      const plain = input.value.toLowerCase();
      pattern = { test: function (name) { return name.toLowerCase().includes(plain); } };
    }
    const spans = [];
    for (const frame of frames) {
      const hit = pattern !== null && frame !== root && pattern.test(frame.name);
      frame.g.classList.toggle("found", hit);
      if (hit) spans.push([frame.left, frame.left + frame.width]);
    }
    // The union: a frame below a match is not counted again.
    spans.sort(function (a, b) { return a[0] - b[0]; });
    let covered = 0, until = 0;
    for (const span of spans) {
      covered += Math.max(0, span[1] - Math.max(span[0], until));
      until = Math.max(until, span[1]);
    }
    found = pattern === null ? "" : covered.toFixed(2) + "% in " + spans.length + " frames";
    says.textContent = found || hint;
  }

  for (const frame of frames) {
    frame.g.addEventListener("click", function () { zoom(frame); });
    frame.g.addEventListener("mouseenter", function () { says.textContent = frame.title; });
    frame.g.addEventListener("mouseleave", function () { says.textContent = found || hint; });
    frame.g.addEventListener("keydown", function (event) {
      if (event.key === "Enter") zoom(frame);
    });
  }
  document.addEventListener("keydown", function (event) {
    if (event.key === "Escape") zoom(root);
  });
  input.addEventListener("input", search);
  window.addEventListener("resize", draw);
  draw();
})();
"""
