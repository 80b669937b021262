"""memory_snapshot really records on CPU, to the end of its window or of memory."""

import contextlib
import pickle
import resource
import subprocess

import pytest
import torch

from profkit.analyze import memory_peak
from profkit.capture.base import Rank
from profkit.capture.memory_snapshot import Capture
from profkit.convert.base import Raw
from profkit.convert.memory_snapshot import convert, snapshot
from tests.warm_ranks import warm_rank_python

PROGRAM = """
import resource, sys, torch
from pathlib import Path
from profkit.capture.base import Rank
from profkit.capture.memory_snapshot import Capture

def forward(kept):
    return torch.zeros(1024, 1024) if kept else torch.zeros(8)

settings = Capture(first_step=1, steps=2, start_up=sys.argv[2] == "start_up")
with settings.record(Path(sys.argv[1]), Rank()) as recorder:
    before = torch.ones(1000)
    recorder.begin()
    kept = []
    if "exhaust" in sys.argv[3]:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (600 << 20),) * 2)
    for step in range(5):
        fills = sys.argv[3] == "exhaust" or step == 4 and sys.argv[3] == "exhaust late"
        for _ in range(4000 if fills else 1):
            with torch.profiler.record_function(f"number {step}"):
                kept.append(forward(fills or step != 4))
        recorder.step()
"""


@pytest.fixture
def recorded(tmp_path):
    """Run the program above in a process of its own; return how it ended, and its pickle."""

    def run(*words):
        command = [warm_rank_python(), "-c", PROGRAM, str(tmp_path), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done, tmp_path / "rank0_dp0_tp0_pp0.memory.pickle"

    return run


def large(contents):
    """Return how many blocks of 4 MiB began, and how many of them are live at the end."""
    (device,) = contents.devices
    chosen = device.allocations.size_bytes == 4 << 20
    started = device.allocations.start >= 0
    return int((chosen & started).sum()), int((chosen & (device.allocations.end < 0)).sum())


def test_a_window_of_steps_holds_their_allocations_with_line_and_operator(recorded, tmp_path):
    done, path = recorded("window", "end")
    assert done.returncode == 0, done.stderr
    contents = snapshot.read(path)
    assert contents.kind == "cpu"
    # Steps 1 and 2 allocate one each; that of step 0 was live before.
    assert large(contents) == (2, 3)
    tables = convert.run(
        Raw(path=path, label="rank0_dp0_tp0_pp0", rank=0, repeat=0), tmp_path
    ).tables
    rows = [row for row in tables["allocations"].to_pylist() if row["size_bytes"] == 4 << 20]
    assert all(row["start_ns"] > 1.7e18 for row in rows if row["start_event"] >= 0)
    stacks = [row["stack"] for row in rows if row["start_event"] >= 0]
    assert all("forward (" in stack and "aten::zeros" in stack for stack in stacks)
    began = [row["annotation"] for row in rows if row["start_event"] >= 0]
    assert sorted(began) == ["number 1", "number 2"]


def test_from_the_beginning_nothing_of_the_model_is_missing(recorded):
    done, path = recorded("start_up", "end")
    assert done.returncode == 0, done.stderr
    contents = snapshot.read(path)
    (device,) = contents.devices
    assert 4000 in device.allocations.size_bytes[device.allocations.start >= 0].tolist()
    assert large(contents) == (3, 3)


def test_running_out_of_memory_leaves_what_filled_it(recorded):
    if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
        pytest.skip("the address space is limited already")
    done, path = recorded("start_up", "exhaust")
    assert done.returncode != 0
    assert "can't allocate memory" in done.stderr
    begun, live = large(snapshot.read(path))
    assert begun == live > 100
    assert pickle.loads(path.read_bytes())["device_traces"][0][-1]["action"] == "oom"  # noqa: S301


def test_memory_that_runs_out_outside_of_the_window_leaves_what_is_live(recorded):
    if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
        pytest.skip("the address space is limited already")
    done, path = recorded("window", "exhaust")
    assert done.returncode != 0
    contents = pickle.loads(path.read_bytes())  # noqa: S301 - the test's own
    assert [event["action"] for event in contents["device_traces"][0]] == ["oom"]
    assert sum(segment["total_size"] == 4 << 20 for segment in contents["segments"]) > 100


def test_memory_that_runs_out_after_the_window_keeps_its_history(recorded, tmp_path):
    if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
        pytest.skip("the address space is limited already")
    done, path = recorded("window", "exhaust late")
    assert done.returncode != 0
    contents = snapshot.read(path)
    begun, live = large(contents)
    # Those of the window, those since, and that of step 0, which was live before.
    assert live == begun + 1 > 100
    converted = convert.run(Raw(path=path, label="r", rank=0, repeat=0), tmp_path)
    assert any(f"{begun - 2} blocks of cpu:0 " in note for note in converted.notes)
    result = memory_peak.analyze.run(
        allocations=converted.tables["allocations"].to_pandas(), config=memory_peak.Config()
    )
    by_origin = {row[1]: row[3] for row in result.tables["by_origin"].rows}
    assert by_origin["forward"] == 2
    assert by_origin["after the window"] >= begun - 2
    assert any("after the window" in abstention.reason for abstention in result.abstentions)


class _Allocator:
    """Stands in for CUDA's allocator: its history is how often it was asked for memory."""

    def __init__(self, monkeypatch):
        self.asked = 0
        self.observer = None
        self.enabled = None
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "init", lambda: None)
        monkeypatch.setattr(torch.cuda.memory, "_record_memory_history", self.record)
        monkeypatch.setattr(torch.cuda.memory, "_snapshot", self.snapshot)
        attach = "_cuda_attach_out_of_memory_observer"
        monkeypatch.setattr(torch._C, attach, self.attach, raising=False)

    def record(self, *, enabled, **_):
        self.enabled = enabled

    def attach(self, observer):
        self.observer = observer

    def snapshot(self):
        return {"segments": [], "device_traces": [[self.asked] if self.enabled else []]}


@pytest.mark.parametrize(
    ("fails_in", "history"),
    [(None, [3]), (0, []), (1, [2]), (4, [5])],
    ids=["never", "before the window", "in the window", "after the window"],
)
def test_the_pickle_of_a_device_is_that_of_the_window_or_of_the_last_failure(
    monkeypatch, tmp_path, fails_in, history
):
    device = _Allocator(monkeypatch)
    with (
        contextlib.suppress(torch.OutOfMemoryError),
        Capture(first_step=1, steps=2).record(tmp_path, Rank()) as recorder,
    ):
        recorder.begin()
        for step in range(6):
            device.asked += 1
            if step == fails_in:
                device.observer(0, 1 << 20, 0, 0)
                raise torch.OutOfMemoryError
            recorder.step()
    (path,) = tmp_path.iterdir()
    contents = pickle.loads(path.read_bytes())  # noqa: S301 - the test's own
    assert contents["device_traces"] == [history]
    assert device.enabled is None
