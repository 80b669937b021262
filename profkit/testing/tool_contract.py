"""What profkit asks of every capture tool."""

import re
from types import ModuleType

from profkit.capture.base import Problem, Session, Tool, Wrapper, check_outputs
from profkit.testing.settings_contract import check_settings, require

_HOLDS_ENVIRONMENT = (".nsys-rep", ".qdstrm", ".qdrep")
"""Ends of files known to hold the environment of the process: Nsight Systems' reports."""


def check_tool(module: ModuleType) -> None:
    """Raise `AssertionError` or `PluginError` where the tool in `module` breaks the contract."""
    for check in TOOL_CHECKS:
        check(module)


def is_documented(module: ModuleType) -> None:
    """Check the first line, which ``profkit list`` prints, the settings, and `outputs`."""
    first = (module.__doc__ or "").strip().partition("\n")[0]
    require(re.fullmatch(r"\w.*: .*\.", first), f"{module.__name__}: not 'name: ....': {first!r}")
    tool = _tool(module)
    require(issubclass(tool, Wrapper | Session), f"{tool} is neither a Wrapper nor a Session")
    check_settings(tool)
    check_outputs(tool)


def answers_for_this_machine(module: ModuleType) -> None:
    """Check that it names what records, and says what it lacks, or else its version."""
    tool = _tool(module)
    require(tool.profiler_name(), f"{tool}: `profiler_name` returns nothing")
    problems = list(tool.problems())
    for problem in problems:
        is_complete = isinstance(problem, Problem) and problem.what and problem.advice
        require(is_complete, f"{tool}: not a problem with its advice: {problem}")
    is_missing = any(problem.kind == "missing" for problem in problems)
    require(bool(tool.version()) is not is_missing, f"{tool}: what is there states its version")
    stops = any(problem.stops for problem in problems)
    require(
        bool(tool.unavailable_reason()) is stops,
        f"{tool}: `unavailable_reason` and `problems` disagree",
    )


def names_files_that_hold_the_environment(module: ModuleType) -> None:
    """Check that files with secrets in them are said to have them."""
    tool = _tool(module)
    holding = [name for name in tool.outputs if name.rstrip("*").endswith(_HOLDS_ENVIRONMENT)]
    unnamed = [name for name in holding if name not in tool.files_with_environment]
    require(not unnamed, f"{tool}: add {unnamed} to `files_with_environment`")


TOOL_CHECKS = (
    is_documented,
    answers_for_this_machine,
    names_files_that_hold_the_environment,
)
"""What `check_tool` checks, one after the other."""


def _tool(module: ModuleType) -> type[Tool]:
    tool: type[Tool] = module.Capture
    return tool
