"""Captures of one run that was selected twice, and what runs of one selection must agree on."""

from collections.abc import Iterable
from typing import Any

from profkit.core.errors import ConfigError
from profkit.planning.model import Run


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
    found: dict[str, Run] = {}
    for run in runs:
        found[run.name] = _merged(found[run.name], run) if run.name in found else run
    return [*found.values()]


def _side_by_side(section: str) -> str:
    """Return how to have several settings of a tool or an analysis in one report."""
    return (
        "settings of tools and analyses make no run of their own, a variable of the program does:"
        f" '+launcher.env.TRY=A,B' '{section}.SETTING=${{launcher.env.TRY}}'"
    )


def _merged(one: Run, other: Run) -> Run:
    """Return two captures of the same run as one, with the tools of both."""
    if one.hardware != other.hardware:
        raise ConfigError(
            f"hardware: two for the same run {one.name}",
            hint="hardware does not make another run: do not sweep",
        )
    for kind in ("tools", "analyses", "comparisons"):
        mine, theirs = getattr(one, kind), getattr(other, kind)
        for name in sorted(set(mine) & set(theirs)):
            if mine[name] != theirs[name]:
                raise ConfigError(
                    f"{kind}.{name}: two settings for the same run {one.name}",
                    hint=_side_by_side(f"{kind}.{name}"),
                )
    return Run(
        name=one.name,
        behaviour=one.behaviour,
        unread=one.unread,
        hardware=one.hardware,
        tools=one.tools | other.tools,
        analyses=one.analyses | other.analyses,
        overrides=one.overrides,
        comparisons=one.comparisons | other.comparisons,
        reads={
            tool: tuple(dict.fromkeys((*one.reads.get(tool, ()), *other.reads.get(tool, ()))))
            for tool in {**one.reads, **other.reads}
        },
    )
