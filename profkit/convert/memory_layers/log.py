"""Memory of a rank as plain text: states over time, totals by category, layout by layer."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from profkit.convert.memory_layers.layers_file import KINDS, Layers
from profkit.core.formatting import size

_NAME_CHARACTERS = 60
_OUTSIDE = "(outside of all modules)"


def text(layers: Layers, title: str) -> str:
    """Return the log of one rank."""
    kinds = [kind for kind in KINDS if any(state.bytes_of(kind) for state in layers.states)]
    parts = [
        [f"{title}: what it held, each byte counted once", ""],
        ["States over time", *_grid(_states(layers, kinds)), ""],
        [
            "Totals by category, the most at any of these instants",
            *_grid(_totals(layers, kinds)),
            "",
        ],
    ]
    for model in sorted({row.model for state in layers.states for row in state.rows}):
        heading = f"Layout of {model} by layer" if model else "What belongs to no model"
        note = "each module with all inside it; of each category the most at any of these instants"
        parts.append([f"{heading}: {note}", *_grid(_layout(layers, kinds, model)), ""])
    return "\n".join(line for part in parts for line in part)


def _states(layers: Layers, kinds: Sequence[str]) -> Iterator[list[str]]:
    yield ["instant", "ms", "all", *kinds]
    first = layers.states[0].time_ns if layers.states else 0
    for state in layers.states:
        sizes = [_size(state.bytes_of(kind)) for kind in kinds]
        yield [state.name, f"{(state.time_ns - first) / 1e6:.0f}", _size(state.bytes_of()), *sizes]


def _totals(layers: Layers, kinds: Sequence[str]) -> Iterator[list[str]]:
    yield ["category", "bytes", "", "at"]
    for kind in kinds:
        state = max(layers.states, key=lambda state: state.bytes_of(kind))
        most = state.bytes_of(kind)
        yield [kind, f"{most:,}", _size(most), state.name]


def _layout(layers: Layers, kinds: Sequence[str], model: str) -> Iterator[list[str]]:
    """Yield a line for each module of `model`, in the order of its tree."""
    sums, elements = _by_module(layers, model)
    shown = [kind for kind in kinds if any(sizes[kind] for sizes in sums.values())]
    yield ["module", "class", "elements", *shown]
    classes = layers.models.get(model, {})
    for path in [*classes, *sorted(set(sums) - set(classes))]:
        if path not in sums:
            continue
        depth = path.count(".") + 1 if path else 0
        name = "  " * depth + (path.rpartition(".")[2] or model or _OUTSIDE)
        sizes = [_size(sums[path][kind]) for kind in shown]
        yield [name[:_NAME_CHARACTERS], classes.get(path, ""), f"{elements[path]:,}", *sizes]


def _by_module(
    layers: Layers, model: str
) -> tuple[Mapping[str, Mapping[str, int]], Mapping[str, int]]:
    """Return most bytes by path and kind, and elements by path, of modules with all inside."""
    most: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    elements: dict[str, int] = defaultdict(int)
    for state in layers.states:
        now: dict[tuple[str, str], int] = defaultdict(int)
        own: dict[str, int] = defaultdict(int)
        for row in state.rows:
            for path in enclosing(row.module) if row.model == model else ():
                now[path, row.kind] += row.size_bytes
                own[path] += row.elements
        for (path, kind), sum_bytes in now.items():
            most[path][kind] = max(most[path][kind], sum_bytes)
        for path, count in own.items():
            elements[path] = max(elements[path], count)
    return most, elements


def enclosing(path: str) -> list[str]:
    """Return the paths of a module and of the modules around it, the outermost first."""
    names = path.split(".") if path else []
    return [".".join(names[:count]) for count in range(len(names) + 1)]


def _size(size_bytes: int) -> str:
    return size(size_bytes) if size_bytes else "-"


def _grid(rows: Iterator[list[str]]) -> Iterator[str]:
    """Yield the rows as lines with columns: the first to the left, the others to the right."""
    cells = list(rows)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for first, *others in cells:
        line = [first.ljust(widths[0])]
        line += [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        yield "  ".join(line).rstrip()
