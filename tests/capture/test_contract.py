"""What every capture tool promises, whatever it is."""

import importlib

import pytest

from profkit.core import registry
from profkit.testing.tool_contract import TOOL_CHECKS

MODULES = registry.module_names("profkit.capture")


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("check", TOOL_CHECKS, ids=lambda check: check.__name__)
def test_every_tool(check, name):
    check(importlib.import_module(MODULES[name]))
