"""A fork has the pages of files that the process has which was forked."""

import subprocess
import sys

import pytest

from profkit.process import resident_pages

SCRIPT = """
import os, re, sys
from pathlib import Path
import pandas
from profkit.process import resident_pages

def of_files():
    return int(re.search(r"RssFile:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

pages = resident_pages.resident()
print(of_files(), flush=True)
for is_populated in (True, False):
    if not os.fork():
        if is_populated:
            assert resident_pages.populate(pages)
        print(of_files(), flush=True)
        os._exit(0)
    os.wait()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the pages of a process are Linux's to tell")
def test_a_fork_has_the_pages_of_the_process_that_was_forked():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], check=True, capture_output=True, text=True
    )
    own, populated, bare = map(int, done.stdout.split())
    assert populated == pytest.approx(own, rel=0.05)
    assert bare < own / 2


def test_there_are_none_where_the_system_does_not_tell(monkeypatch):
    monkeypatch.setattr(resident_pages.os, "access", lambda *_: False)
    assert resident_pages.resident() == []
