"""A realistic report to open in a browser."""

import os
from pathlib import Path

import pytest

from profkit.report.__main__ import main
from tests.report.demo import build


@pytest.fixture(scope="session")
def demo_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the report of the demo selection and return its path."""
    return report_of(tmp_path_factory.mktemp("demo"), count=6, rows=5000)


def report_of(root: Path, *, count: int, rows: int) -> Path:
    """Write the report of a demo selection of `count` runs below `root`."""
    selection = build(root, count=count, rows=rows)
    out = root / "results" / "report.html"
    before = Path.cwd()
    os.chdir(root)
    try:
        main(["--selection", str(selection), "--out", str(out.relative_to(root))])
    finally:
        os.chdir(before)
    return out


@pytest.fixture(scope="session")
def axe() -> str:
    """Return the script of axe-core, which `make javascript` installs."""
    script = Path(__file__).parents[2] / "envs/javascript/node_modules/axe-core/axe.min.js"
    if not script.is_file():
        pytest.skip("no axe-core: make javascript")
    return script.read_text()
