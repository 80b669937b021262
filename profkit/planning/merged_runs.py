"""Captures of one run that was selected several times, and what runs must agree on."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from profkit.core.errors import ConfigError
from profkit.core.registry import VARIANT
from profkit.planning.model import Run

_UNSAFE = re.compile(r"[^\w-]+")
_MOST = 80
"""Characters that the settings of a capture take in the name of its folder."""


def check_comparisons(runs: Iterable[Run]) -> None:
    """Raise `ConfigError` if two runs want an analysis of both with different settings."""
    settings: dict[str, dict[str, Any]] = {}
    for run in runs:
        for name, values in run.comparisons.items():
            if settings.setdefault(name, values) != values:
                raise ConfigError(
                    f"analyses.{name}: works across runs, so its settings must be the same in all"
                )


def unified(runs: Iterable[Run]) -> list[Run]:
    """Return `runs` with each one once: those that were selected several times as one."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(run.name, []).append(run)
    return [_merged(same) for same in found.values()]


def _merged(same: Sequence[Run]) -> Run:
    """Return several selections of one run as one, with the tools of all."""
    first, *others = same
    tools, reads = dict(first.tools), dict(first.reads)
    for other in others:
        _check_same(first, other)
        for tool, values in other.tools.items():
            name = _free_name(tool, values, tools)
            tools[name] = values
            if wanted := (*reads.get(name, ()), *other.reads.get(tool, ())):
                reads[name] = tuple(dict.fromkeys(wanted))
        first = replace(
            first,
            analyses=first.analyses | other.analyses,
            comparisons=first.comparisons | other.comparisons,
        )
    overrides = _joined([run.overrides for run in same])
    return replace(first, tools=tools, reads=reads, overrides=overrides)


def _check_same(one: Run, other: Run) -> None:
    """Raise `ConfigError` if the two selections of a run disagree on what it can have once."""
    if one.hardware != other.hardware:
        raise ConfigError(
            f"hardware: two for the same run {one.name}",
            hint="hardware does not make another run: do not sweep",
        )
    for kind in ("analyses", "comparisons"):
        mine, theirs = getattr(one, kind), getattr(other, kind)
        for name in sorted(set(mine) & set(theirs)):
            if mine[name] != theirs[name]:
                raise ConfigError(
                    f"{kind}.{name}: two settings for the same run {one.name}",
                    hint="settings of analyses make no run of their own, a variable of the program"
                    f" does: '+launcher.env.TRY=A,B' '{kind}.{name}.SETTING=${{launcher.env.TRY}}'",
                )


def _free_name(tool: str, values: Mapping[str, Any], taken: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the name of captures with `tool`: further settings of it are named by what differs.

    The first settings keep the name of the tool: its tables are what analyses of one tool read.
    """
    if taken.get(tool, values) == values:
        return tool
    words = "+".join(_differences(taken[tool], values))
    digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:8]
    name = f"{tool}{VARIANT}{words}"
    is_clear = len(words) <= _MOST and taken.get(name, values) == values
    return name if is_clear else f"{tool}{VARIANT}{words[:_MOST]}-{digest}"


def _differences(
    one: Mapping[str, Any], other: Mapping[str, Any], prefix: str = ""
) -> Iterator[str]:
    """Yield a word for each setting of `other` that `one` has another value of."""
    for key in {**one, **other}:
        # One that was added later is left out while it has its default.
        value = other.get(key, "default")
        if isinstance(value, Mapping):
            yield from _differences(one[key], value, f"{prefix}{key}_")
        elif value != one.get(key, "default"):
            text = "_".join(map(str, value)) if isinstance(value, list) else str(value)
            yield f"{prefix}{key}-{_UNSAFE.sub('_', text)}"


def _joined(selections: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return overrides that select all that each of `selections` does: values in turn as a list."""
    words = []
    for choices in zip(*selections, strict=True):
        first, *others = dict.fromkeys(choices)
        words.append(",".join([first, *(other.partition("=")[2] for other in others)]))
    return tuple(words)
