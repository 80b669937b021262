"""What an analysis needs of the tools and the other analyses that are chosen."""

from collections.abc import Mapping
from typing import Any

from profkit.analyze import analyses
from profkit.capture import tools
from profkit.convert import produced
from profkit.planning.model import source


def lacks(name: str, enabled: tuple[str, ...], chosen: Mapping[str, Any]) -> str:
    """Return what is missing for analysis `name` to run, or ""."""
    analysis = analyses()[name]
    needed = [table for table in analysis.tables_by_tool if table not in analysis.optional]
    for tables in [analysis.tables, *((table,) for table in needed)]:
        if tables and not _made(tables, enabled):
            return _unmade(" and ".join(tables), _makers(tables))
    choices = [(table,) for table in analysis.alternatives]
    if choices and not any(_made(each, enabled) for each in choices):
        makers = [maker for each in choices for maker in _makers(each)]
        return _unmade(" or ".join(analysis.alternatives), list(dict.fromkeys(makers)))
    for other in analysis.results:
        if other not in chosen:
            return f"it reads the result of analysis {other!r}, which is not chosen"
        if analyses()[other].across:
            return f"it reads the result of analysis {other!r}, which is about all runs"
        if lack := lacks(other, enabled, chosen):
            return lack
    return _lacks_all(analysis.results_if_there, enabled, chosen)


def _made(tables: tuple[str, ...], enabled: tuple[str, ...]) -> bool:
    return bool(source({tool: produced(tool) for tool in enabled}, tables))


def _makers(tables: tuple[str, ...]) -> list[str]:
    return [tool for tool in tools() if set(tables) <= set(produced(tool))]


def _unmade(wanted: str, makers: list[str]) -> str:
    if not makers:
        return f"no tool makes {wanted}"
    return f"no enabled tool makes {wanted}; add +tool={' or +tool='.join(makers)}"


def _lacks_all(others: tuple[str, ...], enabled: tuple[str, ...], chosen: Mapping[str, Any]) -> str:
    """Return what is missing for any of the analyses `others` to run, or "" if one of them can."""
    reasons = [lacks(other, enabled, chosen) for other in others if other in chosen]
    if not others or not all(reasons):
        return ""
    none = f"it reads the result of {' or '.join(others)}, none is chosen"
    return reasons[0] if reasons else none
