"""Operators of two runs matched along the module tree: the same, renamed, fused, new, removed.

Modules are matched from the root: by name, then by class, then by the operators in them. Within a
module operators match by name, then by the kernels that they launch or a similar name; what one new
operator does instead of several is fused.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Literal

import numpy as np
import pandas as pd

from profkit.analyze.shared.paired_parts import SIDES, PairedParts, of_side
from profkit.analyze.shared.waterfall import OTHER, Bar, bar
from profkit.tables.tree_paths import SEPARATOR, joined

_NUMBER = re.compile(r"[_#]?\d+$")
_WORDS = re.compile(r"[a-z]+")
_COMPILED = re.compile(r"CompiledFunction|Torch-Compiled Region|CompiledFxGraph")
_ALIKE = 0.75
_OVERLAP = 0.5

Names = Mapping[str, frozenset[str]]
"""What is launched, or called, in each operator or module."""

Change = Literal["", "renamed", "other kernels", "fused", "split", "new", "removed"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Matched:
    """What does the same in both runs."""

    module: str
    """Path of the module in the second run, or in the first if only that has it."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    """Operators or Python lines; empty in the run that has none."""

    change: Change
    bar: Bar


@dataclass(frozen=True, kw_only=True, slots=True)
class Stack:
    """One stack of a differential flame graph."""

    frames: tuple[str, ...]
    """Modules from the root, operator or Python line, kernel: as the second run calls them."""

    kinds: tuple[str, ...]
    """What each of the frames is."""

    before_ms: float
    after_ms: float
    by_pair: tuple[float, ...]
    """The difference in each pair of repeats."""


def matched(parts: PairedParts) -> list[Matched]:
    """Return all parts, matched, those whose time differs most first; they sum to the step."""
    found = []
    for path, rows in _by_module(parts.times).groupby(level="module", sort=False):
        operators = rows.index.get_level_values("operator")
        for before, after, change in _pairs(rows, is_module=bool(path)):
            own = rows[operators.isin([*before, *after])]
            found.append(
                Matched(
                    module=str(path),
                    before=tuple(before),
                    after=tuple(after),
                    change=change,
                    bar=bar(" + ".join(after or before), own, parts.pairs),
                )
            )
    # By name where they are equal: their order is that of sets, which differs from time to time.
    return sorted(
        found, key=lambda one: (-abs(one.bar.difference_ms), one.module, one.before, one.after)
    )


def stacks(parts: PairedParts, matches: Iterable[Matched]) -> list[Stack]:
    """Return the time of both runs by stack, with one name for what `matches` say was renamed."""
    names = {
        (one.module, one.before[0]): one.after[0] for one in matches if one.change == "renamed"
    }
    times = (
        _by_module(parts.times).groupby(level=["module", "operator", "kernel"], sort=False).sum()
    )
    keys: list[str] = []
    kinds: dict[str, tuple[str, ...]] = {OTHER: ("other",)}
    for module, operator, kernel in times.index:
        name = names.get((module, operator), operator)
        modules = module.split(SEPARATOR) if module else []
        own = [("operator", name), ("kernel", kernel if kernel != name else "")]
        frames = [*(("module", text) for text in modules), *(one for one in own if one[1])]
        keys.append(joined(text for _, text in frames) or OTHER)
        kinds.setdefault(keys[-1], tuple(kind for kind, _ in frames))
    sums = times.groupby(keys, sort=False).sum()
    before, after = (of_side(sums, side) for side in SIDES)
    by_pair = (after - before).tolist() if parts.pairs else [()] * len(sums)
    return [
        Stack(
            frames=tuple(str(path).split(SEPARATOR)),
            kinds=kinds[str(path)],
            before_ms=float(one.mean()),
            after_ms=float(other.mean()),
            by_pair=tuple(pairs),
        )
        for path, one, other, pairs in zip(sums.index, before, after, by_pair, strict=True)
    ]


def _by_module(times: pd.DataFrame) -> pd.DataFrame:
    """Return the times, modules of the first run called as in the second."""
    modules = _modules(*(_below(_present(times, side)) for side in SIDES))
    index = times.index.to_frame(index=False)
    index["module"] = [modules.get(name, name) for name in index["module"]]
    return times.set_axis(pd.MultiIndex.from_frame(index))


def _present(times: pd.DataFrame, side: str) -> "pd.Index[Any]":
    """Return the keys of what one side has."""
    rows = np.flatnonzero((of_side(times, side) > 0).sum(axis=1))
    return times.index[rows]


def _below(index: "pd.Index[Any]") -> dict[str, frozenset[str]]:
    """Return the operators in each module and in those inside it, by path."""
    found: dict[str, set[str]] = {}
    for path, operator in zip(
        index.get_level_values("module"), index.get_level_values("operator"), strict=True
    ):
        parts = path.split(SEPARATOR) if path else []
        for count in range(1, len(parts) + 1):
            found.setdefault(SEPARATOR.join(parts[:count]), set()).add(operator)
    return {path: frozenset(operators) for path, operators in found.items()}


def _modules(before: Names, after: Names) -> dict[str, str]:
    """Return the path that each module of the first run has in the second, from the root on."""
    found: dict[str, str] = {}
    for depth in sorted({path.count(SEPARATOR) for path in before}):
        level = {
            path: path.rpartition(SEPARATOR) for path in before if path.count(SEPARATOR) == depth
        }
        wanted = {
            path: SEPARATOR.join(filter(None, (found.get(above, above), name)))
            for path, (above, _, name) in level.items()
        }
        taken = {path for path in wanted.values() if path in after}
        for path, same in wanted.items():
            above = same.rpartition(SEPARATOR)[0]
            free = [
                other
                for other in after
                if other not in taken and other.rpartition(SEPARATOR)[0] == above
            ]
            likeness = {other: _likeness(path, other, before, after) for other in free}
            best = max(likeness, key=lambda other: likeness[other], default=same)
            is_found = same not in after and likeness.get(best, 0.0) >= _OVERLAP
            found[path] = best if is_found else same
            taken.add(found[path])
    return found


def _likeness(path: str, other: str, before: Names, after: Names) -> float:
    """Return 1 for modules of one class, else the share of operators that both have."""
    classes = {_NUMBER.sub("", name.rpartition(SEPARATOR)[2]) for name in (path, other)}
    if len(classes) == 1:
        return 1.0
    both = before[path] | after[other]
    return len(before[path] & after[other]) / max(len(both), 1)


def _pairs(rows: pd.DataFrame, *, is_module: bool) -> Iterator[tuple[list[str], list[str], Change]]:
    """Yield the operators of one module that belong together, each once."""
    kernels = [_kernels(_present(rows, side)) for side in SIDES]
    old, new = (
        [name for name in own if name not in other] for own, other in (kernels, kernels[::-1])
    )
    for name in kernels[0].keys() & kernels[1].keys():
        one, other = kernels[0][name], kernels[1][name]
        yield [name], [name], "other kernels" if one and other and not one & other else ""
    for name in list(old):
        best = max(new, key=lambda other: _alike(name, other, kernels), default="")
        if best and _alike(name, best, kernels) >= _ALIKE:
            old.remove(name)
            new.remove(best)
            yield [name], [best], "renamed"
    if compiled := [name for name in new if _COMPILED.search(name)]:
        parts = [name for name in old if name and name not in kernels[0][name]]
        yield parts, compiled, "fused" if parts else "new"
        old = [name for name in old if name not in parts]
        new = [name for name in new if name not in compiled]
    for name in list(new):
        parts = list(_fused(name, kernels[1][name], old, alone=is_module and len(new) == 1))
        if len(parts) > 1:
            old = [one for one in old if one not in parts]
            new.remove(name)
            yield parts, [name], "fused"
    if is_module and len(old) == 1 and len(new) > 1:
        yield old, new, "split"
        return
    yield from (([name], [], "removed") for name in old)
    yield from (([], [name], "new") for name in new)


def _kernels(index: "pd.Index[Any]") -> dict[str, frozenset[str]]:
    """Return the kernels that each operator launches."""
    found: dict[str, set[str]] = {}
    names = (index.get_level_values(level) for level in ("operator", "kernel"))
    for operator, kernel in zip(*names, strict=True):
        found.setdefault(operator, set()).update({kernel} - {""})
    return {operator: frozenset(kernels) for operator, kernels in found.items()}


def _alike(one: str, other: str, kernels: Sequence[Names]) -> float:
    """Return 1 for operators with the same kernels, else how much their names are alike."""
    launched = kernels[0][one], kernels[1][other]
    if not one or not other:
        return 0.0
    if other in launched[1] or one in launched[0]:
        return 0.0  # what launched these kernels is not known
    if launched[0] and launched[0] == launched[1]:
        return 1.0
    return SequenceMatcher(None, one, other).ratio()


def _fused(name: str, kernels: frozenset[str], old: Iterable[str], *, alone: bool) -> Iterator[str]:
    """Yield the old operators that a new one does: those that its kernels name.

    All of them if it is the only new operator of a module.
    """
    words = {word for text in (name, *kernels) for word in _WORDS.findall(text.lower())}
    for operator in filter(None, old):
        own = _WORDS.findall(operator.rpartition("::")[2].lower())
        if alone or set(own) <= words:
            yield operator
