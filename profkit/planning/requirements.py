"""Requirements of an analysis: tables of the chosen tools, results of other analyses."""

from collections.abc import Mapping
from typing import Any

from profkit.analyze import analysis as analysis_named
from profkit.capture import tools
from profkit.convert import produced
from profkit.planning.model import tool_with_tables


def missing_requirement(name: str, enabled: tuple[str, ...], chosen: Mapping[str, Any]) -> str:
    """Return why analysis `name` cannot run with the tools and analyses chosen, or ""."""
    analysis = analysis_named(name)
    needed = [table for table in analysis.tables_by_tool if table not in analysis.optional]
    for tables in [analysis.tables, *((table,) for table in needed)]:
        if tables and not _is_made(tables, enabled):
            return _not_made(" and ".join(tables), _tools_making(tables))
    choices = [(table,) for table in analysis.alternatives]
    if choices and not any(_is_made(choice, enabled) for choice in choices):
        makers = [tool for choice in choices for tool in _tools_making(choice)]
        return _not_made(" or ".join(analysis.alternatives), list(dict.fromkeys(makers)))
    for other in analysis.results:
        if other not in chosen:
            return f"it reads the result of analysis {other!r}, which is not chosen"
        if analysis_named(other).across:
            return f"it reads the result of analysis {other!r}, which is about all runs"
        if reason := missing_requirement(other, enabled, chosen):
            return reason
    # An analysis with something else to read has something to say without these.
    has_own = analysis.tables or analysis.tables_by_tool or analysis.results
    return "" if has_own else _missing_for_all(analysis.results_if_there, enabled, chosen)


def _is_made(tables: tuple[str, ...], enabled: tuple[str, ...]) -> bool:
    return bool(tool_with_tables({tool: produced(tool) for tool in enabled}, tables))


def _tools_making(tables: tuple[str, ...]) -> list[str]:
    """Return the tools that make `tables`, without those that leave it to others."""
    makers = [tool for tool in tools() if set(tables) <= set(produced(tool))]
    return [tool for tool in makers if not tools()[tool].yields_tables]


def _not_made(wanted: str, makers: list[str]) -> str:
    if not makers:
        return f"no tool makes {wanted}"
    return f"no enabled tool makes {wanted}; add +tool={' or +tool='.join(makers)}"


def _missing_for_all(
    others: tuple[str, ...], enabled: tuple[str, ...], chosen: Mapping[str, Any]
) -> str:
    """Return why none of the analyses `others` can run, or "" if one can or there is none."""
    reasons = [missing_requirement(other, enabled, chosen) for other in others if other in chosen]
    if not others or not all(reasons):
        return ""
    none = f"it reads the result of {' or '.join(others)}, none is chosen"
    return reasons[0] if reasons else none


def left_out_note(reason: str, name: str, *others: str) -> str:
    """Return a note on analyses, by name, that cannot run for a `reason`."""
    if not others:
        return f"analysis {name} is left out: {reason}"
    return f"analyses {', '.join([name, *others])} are left out: {reason}"
