"""Tools of a run: those that the configuration names, and what many ranks are given beside them."""

import re
from collections.abc import Container, Mapping, Sequence
from typing import Any

from profkit.capture import tools
from profkit.core.parallel_layout import REPRESENTATIVE, Ranks
from profkit.core.settings import known
from profkit.planning.configuration import Configuration

_TOOL_LIST = re.compile(r"^tool=(.+)")
_NAMING = re.compile(r"^(?:tool=|\+?toolset=)")
FEW_RANKS = 8
"""Ranks that every tool records, if nothing else is said."""

LIGHT = "marks"
"""The tool that records all ranks, however many there are."""


def asked_for(
    overrides: Sequence[str], config: Configuration, *, analyses_are_named: bool
) -> dict[str, Any]:
    """Return the settings of the tools, those whose tables others make as well last.

    More than 8 ranks are all recorded by the tool marks, unless tools are named. A baseline that
    would be of no use is left out: it is for times, and tools named in a list of their own may all
    do no more than count.
    """
    chosen = dict(config.tools)
    if config.world_size > FEW_RANKS and not any(map(_NAMING.match, overrides)):
        chosen.setdefault(LIGHT, {})
    kinds = {name: known("tool", name, tools()) for name in chosen}
    # Analyses read a table of the first tool that makes it.
    chosen = {name: chosen[name] for name in sorted(chosen, key=lambda n: kinds[n].yields_tables)}
    others = {name: chosen[name] for name in chosen if name != "baseline"}
    named = " ".join(name for word in overrides for name in _TOOL_LIST.findall(word))
    is_needed = any(kinds[name].is_repeated for name in others)
    is_asked_for = not named or "baseline" in named or analyses_are_named or is_needed
    return chosen if is_asked_for or not others else others


def recorded_ranks(config: Configuration, asked: Container[str]) -> Ranks:
    """Return which ranks those of the tools `asked` for record that do not say so themselves."""
    if config.ranks != "auto":
        return config.ranks
    return REPRESENTATIVE if config.world_size > FEW_RANKS and LIGHT in asked else "all"


def choosing(chosen: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return those of the tools, by their settings, whose ranks a light capture chooses."""
    return [name for name, values in chosen.items() if values.get("ranks") == REPRESENTATIVE]
