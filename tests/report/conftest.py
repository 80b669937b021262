"""A browser, and a realistic report to open in it."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from profkit.report.__main__ import main
from tests.report.demo import build


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Start Chromium; skip where there is none, unless the tools are required."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        reason = "no chromium on PATH: apt-get install chromium"
        if os.environ.get("PROFKIT_REQUIRE_TOOLS") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


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
