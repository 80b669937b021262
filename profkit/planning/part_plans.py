"""The parts of a plan: what a tool makes, and what an analysis reads."""

from dataclasses import fields

from profkit.analyze.base import Analysis
from profkit.capture.base import Tool
from profkit.convert import has_converter, produced
from profkit.core import registry
from profkit.core.fingerprint import TIMELINE_CODE, fingerprint
from profkit.planning.model import AnalysisPlan, ToolPlan
from profkit.tables.schema import TIMELINE


def tool_plan(name: str, tool: Tool, repeats: int) -> ToolPlan:
    """Return what `tool` makes, captured up to `repeats` times."""
    tables = produced(name)
    drawn = TIMELINE if set(TIMELINE) <= set(tables) else ()
    return ToolPlan(
        tables=tables,
        code=fingerprint("profkit.convert", registry.converter_module(name)),
        repeats=repeats if tool.is_repeated else 1,
        has_converter=has_converter(name),
        is_alone=tool.needs_exclusive_machine,
        records_all_ranks=tool.records_all_ranks,
        timeline_code=fingerprint(*TIMELINE_CODE) if drawn else "",
        timeline_tables=drawn,
    )


def analysis_plan(name: str, analysis: Analysis) -> AnalysisPlan:
    """Return what `analysis` reads, and the code of it and of its map."""
    map_module = analysis.map.__module__ if analysis.map and not analysis.across else ""
    return AnalysisPlan(
        tables=analysis.tables,
        tables_by_tool=analysis.tables_by_tool,
        tables_of_tools=tuple((of.tool, of.table) for of in analysis.tables_of_tools.values()),
        results=(*analysis.results, *analysis.results_if_there),
        run_parameters=analysis.run_parameters,
        compares_ranks=analysis.compares_ranks,
        code=fingerprint("profkit.analyze", registry.module_names("profkit.analyze")[name]),
        map_code=fingerprint("profkit.analyze", map_module) if map_module else "",
        map_module=map_module,
        map_settings=tuple(one.name for one in fields(analysis.map_config)) if map_module else (),
    )
