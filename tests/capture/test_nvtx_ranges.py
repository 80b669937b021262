"""NVTX ranges of profkit: what nsys records of them, and that nobody pays who has no listener."""

import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing, nullcontext

import pytest
import torch

from profkit.capture.base import executable
from profkit.capture.harness.ranks import function_ranges, module_ranges, nvtx_ranges
from profkit.capture.harness.ranks.recording import step_markers
from tests.waiting import LIMIT_S

PROGRAM = """
import torch
from profkit import marks
from profkit.capture.harness.ranks import function_ranges, module_ranges, nvtx_ranges
from profkit.capture.harness.ranks.recording import step_markers

def outer():
    return inner()

def inner():
    return len([1])

marks.listen(markers=step_markers())
model = torch.nn.Sequential(torch.nn.Linear(2, 2))
for step in marks.steps(2):
    with marks.phase("forward"), module_ranges.recorded():
        model(torch.zeros(1, 2))
    with marks.phase("backward"), function_ranges.recorded(of_c=step == 1):
        outer()
    with marks.phase("optimizer"):
        pass
    with marks.phase("mine"):
        pass
nvtx_ranges.mark("rank#0")
with nvtx_ranges.cross_thread_spans()("capture"):
    pass
"""
PUSH_POP, START_END, MARK, DOMAIN = 59, 60, 34, 75
COLOURS = nvtx_ranges.COLOURS


@pytest.fixture(scope="module")
def events(nsys_profile, tmp_path_factory):
    """Return what nsys recorded of the program: kind, domain, text, colour and end of each."""
    folder = tmp_path_factory.mktemp("nvtx")
    (folder / "program.py").write_text(PROGRAM)
    nsys = executable("nsys")
    flags = ["--trace=nvtx", "--sample=none", "--cpuctxsw=none", f"--output={folder}/made"]
    command = [nsys, "profile", *flags, sys.executable, folder / "program.py"]
    done = nsys_profile(command)
    assert done.returncode == 0, done.stdout + done.stderr
    report, out = folder / "made.nsys-rep", folder / "made.sqlite"
    command = [nsys, "export", "--type=sqlite", f"--output={out}", report]
    exported = subprocess.run(command, capture_output=True, check=False, timeout=LIMIT_S)
    assert exported.returncode == 0, exported.stdout + exported.stderr
    with closing(sqlite3.connect(out)) as connection:
        rows = connection.execute(
            "SELECT eventType, domainId, coalesce(text, (SELECT value FROM StringIds"
            " WHERE id = textId)), color, end FROM NVTX_EVENTS ORDER BY start"
        ).fetchall()
    domains = {domain: text for kind, domain, text, _, _ in rows if kind == DOMAIN}
    return [
        (kind, domains[domain], text, colour, end)
        for kind, domain, text, colour, end in rows
        if kind in (PUSH_POP, START_END, MARK)
    ]


def test_steps_phases_and_modules_have_a_domain_and_colours(events):
    own = Counter(event[:4] for event in events if event[1] == nvtx_ranges.DOMAIN)
    assert own == {
        (PUSH_POP, "profkit", "step#0", COLOURS["step"]): 1,
        (PUSH_POP, "profkit", "step#1", COLOURS["step"]): 1,
        (PUSH_POP, "profkit", "forward", COLOURS["forward"]): 2,
        (PUSH_POP, "profkit", "backward", COLOURS["backward"]): 2,
        (PUSH_POP, "profkit", "optimizer", COLOURS["optimizer"]): 2,
        (PUSH_POP, "profkit", "mine", COLOURS["other"]): 2,
        (PUSH_POP, "profkit", "nn.Module: Sequential", COLOURS["module"]): 2,
        (PUSH_POP, "profkit", "nn.Module: 0", COLOURS["module"]): 2,
        (MARK, "profkit", "rank#0", COLOURS["other"]): 1,
        (START_END, "profkit", "capture", COLOURS["other"]): 1,
    }


def test_functions_have_ranges_that_all_end(events):
    functions = [event for event in events if event[1] == "nvtx.py"]
    names = Counter(text.rpartition("/")[2] for _, _, text, _, _ in functions)
    # Lines of the program are counted from the empty one before its first.
    assert names["program.py:7(outer)"] == names["program.py:10(inner)"] == 2
    # Only the second time with those in C.
    assert names["len"] == 1
    assert [event for event in functions if event[4] is None] == []


@pytest.fixture
def silence(monkeypatch):
    """Let nobody listen, and make it fail to import what would be called if anybody did."""
    monkeypatch.delenv("NVTX_INJECTION64_PATH", raising=False)
    for name in ("nvtx", "nvtx._lib", "nvtx._lib.lib"):
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.usefixtures("silence")
def test_nothing_is_called_where_nobody_listens():
    assert step_markers() == (torch.profiler.record_function,)
    assert isinstance(nvtx_ranges.spans()("step#0"), nullcontext)
    assert isinstance(nvtx_ranges.cross_thread_spans()("capture"), nullcontext)
    nvtx_ranges.mark("rank#0")
    hooks = torch.nn.modules.module._global_forward_pre_hooks
    with module_ranges.recorded(), function_ranges.recorded(of_c=True):
        assert not hooks
        assert sys.getprofile() is None


def test_a_profile_function_of_the_program_is_left_alone(monkeypatch):
    monkeypatch.setenv("NVTX_INJECTION64_PATH", "/nobody.so")
    noted = []
    monkeypatch.setattr(function_ranges.marks, "note", noted.append)

    def own(*_):
        return None

    before = sys.getprofile()
    sys.setprofile(own)
    try:
        with function_ranges.recorded(of_c=False):
            assert sys.getprofile() is own
        assert sys.getprofile() is own
    finally:
        sys.setprofile(before)
    assert "a profile function of its own" in noted[0]
