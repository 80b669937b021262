"""Memory as a sunburst, the module tree from the inside out, as one offline HTML file.

A click on a module makes it the centre, a click on the centre goes back; the instant can be
chosen, names can be searched.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from profkit.convert.drawing.page import embedded_json, filled
from profkit.convert.memory_layers.layers_file import KINDS, Layers, State
from profkit.core.formatting import agreeing

PAGES = {
    "summary": KINDS,
    "params": ("parameters", "gathered"),
    "grads": ("gradients",),
    "os": ("states", "masters"),
    "activation": ("activations",),
}
"""Kinds of memory that each page shows, by the first word of its name."""

_TITLES = {
    "summary": "all memory",
    "params": "parameters",
    "grads": "gradients",
    "os": "optimizer states and master copies",
    "activation": "activations",
}
_TEMPLATE = Path(__file__).parent / "assets" / "sunburst.html"
_LEAST_SHARE = 1 / 1500
_NAME_CHARACTERS = 120


@dataclass(slots=True)
class _Node:
    """A module, or a kind of memory, with its children."""

    own_bytes: int = 0
    whole_bytes: int = 0
    children: "dict[str, _Node]" = field(default_factory=dict)


def pages(layers: Layers, title: str) -> dict[str, str]:
    """Return the pages of one rank, by the name of the file."""
    return {
        f"{name}_memory_sunburst.html": _page(name, kinds, layers.states, title)
        for name, kinds in PAGES.items()
    }


def _page(name: str, kinds: Sequence[str], states: Sequence[State], title: str) -> str:
    content = [
        {"name": state.name, "size": state.bytes_of(*kinds), "tree": _tree(state, kinds)}
        for state in states
        if state.bytes_of(*kinds)
    ]
    shown = escape(f"{title}: {_TITLES[name]} by module")
    return filled(_TEMPLATE, title=shown, data=embedded_json(content))


def _tree(state: State, kinds: Sequence[str]) -> list[Any]:
    """Return the tree at an instant as nested lists: name, own bytes, and the same of children."""
    root = _Node()
    for row in state.rows:
        if row.kind not in kinds:
            continue
        within = [row.kind] if len(kinds) > 1 else []
        names = [*within, *([row.model] if row.model else []), *_names(row.module)]
        _add(root, names, row.size_bytes)
    return _as_lists("all", root, root.whole_bytes * _LEAST_SHARE)


def _names(path: str) -> Iterable[str]:
    return path.split(".") if path else ()


def _add(root: _Node, names: Iterable[str], size_bytes: int) -> None:
    node = root
    node.whole_bytes += size_bytes
    for name in names:
        node = node.children.setdefault(name, _Node())
        node.whole_bytes += size_bytes
    node.own_bytes += size_bytes


def _as_lists(name: str, node: _Node, least: float) -> list[Any]:
    """Return a node as nested lists; children too thin to be seen are joined into one."""
    large = {key: child for key, child in node.children.items() if child.whole_bytes >= least}
    thin = [child.whole_bytes for key, child in node.children.items() if key not in large]
    inside = [_as_lists(key, child, least) for key, child in large.items()]
    if thin:
        inside.append([agreeing(len(thin), "{} smaller [one|ones]"), sum(thin), []])
    return [name[:_NAME_CHARACTERS], node.own_bytes, inside]
