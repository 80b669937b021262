"""Scripts, styles and templates: files of their own, and scripts that a browser can parse."""

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "profkit"
PAGE = PACKAGE / "report" / "assets" / "page"
"""Modules, which the compiler of TypeScript reads (`make lint`)."""

SCRIPTS = sorted(path for path in PACKAGE.rglob("*.js") if not path.is_relative_to(PAGE))
PROGRAM = re.compile(r"<(script|style|svg|html)\b|\bfunction\b[^(]*\(.*\)\s*\{|addEventListener")


def test_no_module_holds_a_program_of_a_page_in_a_string():
    found = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if PROGRAM.search(node.value)
    ]
    assert found == []


@pytest.fixture(scope="module")
def page(chromium):
    page = chromium.new_page()
    yield page
    page.close()


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_each_script_can_be_parsed(page, path):
    # Parsed, as the body of a function, and not called.
    page.evaluate("text => { new Function('\"use strict\";\\n' + text); }", path.read_text())
