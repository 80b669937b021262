import json
import socket
import sys
import tracemalloc
from types import SimpleNamespace

import pytest

from profkit.capture.base import NullRecorder, Rank
from profkit.capture.harness.ranks import clock
from profkit.capture.harness.ranks.clock import CpuTimer, CudaTimer, StepClock, collect
from profkit.capture.harness.record import rank_warnings
from profkit.core import progress_events

RANK = Rank(rank=1, dp=1, world_size=2)
LABEL = "rank1_dp1_tp0_pp0"


class Ticking:
    """A timer whose steps take 10 ns, with 2 ns between them."""

    device = "cuda"

    def __init__(self):
        self.now_ns = 100
        self.spans = []

    def begin(self):
        self.now_ns += 2

    def end(self):
        self.spans.append((self.now_ns, self.now_ns + 10))
        self.now_ns += 10

    def finished(self, *, wait):
        """Keep the last step back until somebody waits, as a device that lags does."""
        ready = len(self.spans) if wait else len(self.spans) - 1
        spans, self.spans = self.spans[:ready], self.spans[ready:]
        return spans

    def peak_memory_bytes(self):
        return 4096


@pytest.fixture
def ticking(monkeypatch):
    monkeypatch.setattr(clock, "timer", Ticking)


@pytest.mark.usefixtures("ticking")
def test_every_step_is_written_with_its_borders_samples_and_memory(tmp_path):
    with StepClock(tmp_path, RANK, NullRecorder(), {}, node=1) as steps:
        steps.begin()
        for samples in (2, 3):
            steps.step(samples)
    place = {"hostname": socket.gethostname(), "node": 1, "local_rank": 0}
    assert collect(tmp_path) == [{"label": LABEL, **place}]
    assert [path.name for path in tmp_path.iterdir()] == [f"{LABEL}.steps.json"]
    assert json.loads((tmp_path / f"{LABEL}.steps.json").read_text()) == {
        "schema_version": 1,
        "label": LABEL,
        "rank": 1,
        "world_size": 2,
        **place,
        "device": "cuda",
        "steps": [[102, 112, 2, 4096], [114, 124, 3, 4096]],
    }


def two_steps_and_a_failure(folder):
    with StepClock(folder, RANK, NullRecorder(), {}) as steps:
        steps.begin()
        steps.step(2)
        steps.step(2)
        raise RuntimeError


@pytest.mark.usefixtures("ticking")
def test_a_failed_device_is_not_asked_for_the_steps_it_has_not_reported(tmp_path):
    with pytest.raises(RuntimeError):
        two_steps_and_a_failure(tmp_path)
    collect(tmp_path)
    document = json.loads((tmp_path / f"{LABEL}.steps.json").read_text())
    assert document["steps"] == [[102, 112, 2, 4096]]


def test_half_a_line_of_a_killed_rank_is_left_out(tmp_path):
    part = tmp_path / f"{LABEL}.steps.part"
    part.write_text('{"rank": 1}\n[1, 2, 3, 4]\n[5, 6')
    collect(tmp_path)
    document = json.loads((tmp_path / f"{LABEL}.steps.json").read_text())
    assert document == {"schema_version": 1, "rank": 1, "label": LABEL, "steps": [[1, 2, 3, 4]]}
    assert not part.exists()


@pytest.mark.usefixtures("ticking")
def test_steps_that_turn_out_to_be_one_are_joined(tmp_path):
    with StepClock(tmp_path, RANK, NullRecorder(), {}) as steps:
        steps.begin()
        for samples in (2, 3, -1, 5):
            steps.step(samples)
        steps.join(0, 2)
        steps.step(6)
    assert clock.steps_so_far(tmp_path, RANK) == 4
    collect(tmp_path)
    document = json.loads((tmp_path / f"{LABEL}.steps.json").read_text())
    found = document["steps"]
    assert document["ended"] == 5
    assert found[0] == [102, 124, 5, 4096]
    assert [samples for _, _, samples, _ in found] == [5, -1, 5, 6]


def test_a_rank_that_never_began_leaves_no_steps(tmp_path):
    (tmp_path / f"{LABEL}.steps.part").touch()
    collect(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_progress_is_told_five_times_a_second_and_at_the_last_step(monkeypatch, tmp_path):
    log = tmp_path / "events"
    monkeypatch.setenv(progress_events.VARIABLE, str(log))
    seconds = iter([10.0, 10.1, 10.21, 10.3, 10.35])
    monkeypatch.setattr(clock.time, "monotonic", lambda: next(seconds))
    about = {"run": "r", "tool": "baseline", "repeat": 0, "total": 5}
    with StepClock(tmp_path, Rank(), NullRecorder(), about) as steps:
        steps.begin()
        for _ in range(5):
            steps.step(2)
    told = [json.loads(line) for line in log.read_text().splitlines()]
    assert [event.pop("step") for event in told] == [1, 3, 5]
    told[0].pop("time_s")
    assert told[0] == {"event": "step", **about}


def test_the_host_is_timed_unless_cuda_is_in_use(monkeypatch):
    assert isinstance(clock.timer(), CpuTimer)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert isinstance(clock.timer(), CpuTimer)


class Event:
    """A CUDA event on a device that needs 1 ms between any two."""

    count = 0

    def __init__(self, *, enable_timing):
        assert enable_timing

    def record(self):
        Event.count += 1
        self.number = Event.count

    def synchronize(self):
        pass

    def query(self):
        return self.number <= 3

    def elapsed_time(self, other):
        return float(other.number - self.number)


def test_steps_on_a_device_are_timed_by_its_events(monkeypatch):
    cuda = SimpleNamespace(Event=Event, max_memory_allocated=lambda: 7)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    monkeypatch.setattr(clock.time, "time_ns", lambda: 1_000_000_000)
    timer = CudaTimer()
    for _ in range(2):
        timer.begin()
        timer.end()
    assert timer.finished(wait=False) == [(1_001_000_000, 1_002_000_000)]
    assert timer.finished(wait=True) == [(1_003_000_000, 1_004_000_000)]
    assert timer.peak_memory_bytes() == 7


@pytest.mark.parametrize("tool", ["baseline", "pyinstrument"])
def test_a_profiler_of_the_program_in_unprofiled_steps_is_said_once(tmp_path, tool):
    about = {"run": "r", "tool": tool, "repeat": 0, "total": 2}
    with StepClock(tmp_path, Rank(), NullRecorder(), about) as steps:
        steps.begin()
        sys.setprofile(lambda *_: None)
        tracemalloc.start()
        try:
            steps.step(2)
            steps.step(2)
        finally:
            sys.setprofile(None)
            tracemalloc.stop()
    notes = rank_warnings.collect(tmp_path)
    assert len(notes) == (1 if tool == "baseline" else 0)
    begin = "The program ran tracemalloc and sys.setprofile of its own: the unprofiled steps"
    assert all(note.startswith(begin) for note in notes)
