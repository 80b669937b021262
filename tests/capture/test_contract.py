"""What every capture tool promises, whatever it is."""

import pytest

from profkit.capture import tools
from profkit.capture.base import Problem

# Known to hold the environment of the process: Nsight Systems' reports and what they are made of.
ENVIRONMENT_INSIDE = (".nsys-rep", ".qdstrm", ".qdrep")


@pytest.mark.parametrize("name", tools())
def test_a_tool_names_what_records_and_answers_for_this_machine(name):
    tool = tools()[name]
    assert tool.profiler_name()
    problems = list(tool.problems())
    assert all(isinstance(each, Problem) and each.what and each.advice for each in problems)
    # What is missing has no version; all else states one.
    assert bool(tool.version()) is not any(each.kind == "missing" for each in problems)
    assert bool(tool.unavailable_reason()) is any(each.stops for each in problems)


@pytest.mark.parametrize("name", tools())
def test_a_tool_whose_files_hold_the_environment_says_so(name):
    tool = tools()[name]
    holding = [each for each in tool.outputs if each.rstrip("*").endswith(ENVIRONMENT_INSIDE)]
    assert [each for each in holding if each not in tool.files_with_environment] == []
