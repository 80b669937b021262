"""`outputs` that can match no file are found with the plugin, and not after a capture."""

import importlib
import re
import sys

import pytest

from profkit.capture.base import check_outputs
from profkit.core.errors import PluginError

TOOL = '''
from dataclasses import dataclass
from typing import ClassVar

from profkit.api import Session


@dataclass(frozen=True, kw_only=True, slots=True)
class Capture(Session):
    """A tool."""

    outputs: ClassVar = {outputs}
'''


def tool(folder, monkeypatch, outputs):
    monkeypatch.syspath_prepend(folder)
    (folder / "tool_of_a_test.py").write_text(TOOL.replace("{outputs}", outputs))
    monkeypatch.delitem(sys.modules, "tool_of_a_test", raising=False)
    importlib.invalidate_caches()
    return importlib.import_module("tool_of_a_test").Capture


@pytest.mark.parametrize("outputs", ["()", '("*.json",)', '("*.a.txt", "*_b*")'])
def test_patterns_that_follow_a_label_are_right(tmp_path, monkeypatch, outputs):
    check_outputs(tool(tmp_path, monkeypatch, outputs))


@pytest.mark.parametrize(
    ("outputs", "right"),
    [
        ('("rank*.strace.txt",)', "('*.strace.txt',)"),
        ('("*.json", "timeline.nsys-rep")', "('*.json', '*.nsys-rep')"),
        ('(".prof", "log")', "('*.prof', '*log')"),
        ('"*.prof"', "('*.prof',)"),
    ],
)
def test_others_are_named_with_their_line_and_what_to_write(tmp_path, monkeypatch, outputs, right):
    with pytest.raises(PluginError) as raised:
        check_outputs(tool(tmp_path, monkeypatch, outputs))
    assert re.match(rf"{tmp_path}/tool_of_a_test\.py:12: `outputs` is ", str(raised.value))
    assert f"hint: write {right}: the label of each rank" in str(raised.value)
