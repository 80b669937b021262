"""What marks notes of steps, phases and collectives, and in how many bytes."""

import json
from types import SimpleNamespace

import pytest
import torch
from torch import distributed, nn

from profkit import marks as program_marks
from profkit.capture import _collective_calls, marks
from profkit.capture.base import Rank
from profkit.core.parallel_layout import Parallel

RANK = Rank(rank=3, dp=3, world_size=4)


@pytest.fixture
def alone(monkeypatch):
    """Set up a process group of one rank, and marks that nothing else listens to."""
    monkeypatch.setattr(program_marks, "_marks", program_marks._Marks())
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def recorded(folder, *steps, **settings):
    """Record functions as steps; return the messages and the lines of the steps."""
    with marks.Capture(**settings).record(folder, RANK) as recorder:
        distributed.all_reduce(torch.ones(1))
        recorder.begin()
        for step in steps:
            step()
            recorder.step()
        distributed.all_reduce(torch.ones(1))
    text = (folder / f"{RANK.label}.marks.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    return [line["message"] for line in lines if "message" in line], [
        line for line in lines if "begin_ns" in line
    ]


@pytest.mark.usefixtures("alone")
def test_calls_from_python_and_from_the_reducer_of_ddp_are_numbered_with_their_sizes(tmp_path):
    model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2))

    def train():
        model(torch.ones(3, 4)).sum().backward()

    def gather():
        with torch.inference_mode():
            distributed.all_gather([torch.ones(5, dtype=torch.int32)], torch.ones(5).int())

    messages, (first, second) = recorded(tmp_path, train, gather)
    assert messages[first["calls"][0][0]] == {
        "operator": "c10d::allreduce_",
        "group": distributed.group.WORLD.group_name,
        "description": "default_pg",
        "group_size": 1,
        "group_ranks": "[0]",
        "dtype": "float32",
        "in_elements": 10,
        "out_elements": 10,
        "device": "cpu",
    }
    [[number, sequence, called, lasting]] = second["calls"]
    assert {call[1] for call in first["calls"]} == {*range(first["calls"][0][1], sequence)}
    own = {name: messages[number][name] for name in ("operator", "dtype", "in_elements")}
    assert own == {"operator": "c10d::allgather_", "dtype": "int32", "in_elements": 5}
    assert min(called, lasting) >= 0


@pytest.mark.usefixtures("alone")
def test_collectives_are_those_of_the_first_steps_and_then_of_one_in_many(tmp_path):
    def step():
        distributed.all_reduce(torch.ones(1))

    _, lines = recorded(tmp_path, *[step] * 12, first_steps=2, every=5)
    assert [bool(line["calls"]) for line in lines] == [n in {0, 1, 5, 10} for n in range(12)]
    numbers = [line["calls"][0][1] for line in lines if line["calls"]]
    assert [number - numbers[0] for number in numbers] == [0, 1, 5, 10]


@pytest.mark.usefixtures("alone")
def test_a_collective_that_the_program_calls_late_is_recorded_from_some_step_on(tmp_path):
    def step():
        distributed.all_reduce(torch.ones(1))

    def later():
        step()
        distributed.broadcast(torch.ones(1), src=0)

    count = len(_collective_calls._operators())
    messages, lines = recorded(tmp_path, step, *[later] * 2 * count, first_steps=1, every=2)
    called = [
        {messages[call[0]]["operator"] for call in line["calls"]} for line in lines if line["calls"]
    ]
    begun = called.index({"c10d::allreduce_", "c10d::broadcast_"})
    assert 0 < begun <= count // _collective_calls._OTHERS + 1
    assert called[:begun] == [{"c10d::allreduce_"}] * begun
    assert called[begun:] == [called[begun]] * (count + 1 - begun)


@pytest.mark.usefixtures("alone")
def test_phases_are_timed_from_the_begin_of_their_step(tmp_path):
    def step():
        with program_marks.phase("step#0"), program_marks.phase("data"):
            pass

    _, (line,) = recorded(tmp_path, step)
    [[name, start, lasting]] = line["phases"]
    assert (name, start >= 0, lasting >= 0, line["left_out"]) == ("data", True, True, 0)


@pytest.mark.parametrize(("held_s", "written"), [(0.0, 3), (1e9, 0)])
def test_steps_are_written_together_once_a_second_and_the_last_ones_at_the_end(
    tmp_path, monkeypatch, held_s, written
):
    monkeypatch.setattr(program_marks, "_marks", program_marks._Marks())
    monkeypatch.setattr(marks, "_HELD_S", held_s)
    path = tmp_path / f"{RANK.label}.marks.jsonl"
    with marks.Capture().record(tmp_path, RANK) as recorder:
        recorder.begin()
        for _ in range(3):
            recorder.step()
        assert path.read_text().count("begin_ns") == written
    assert path.read_text().count("begin_ns") == 3


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("calls", [0, 20, 400])
def test_a_step_takes_no_more_bytes_than_it_may_and_says_what_is_left_out(tmp_path, calls):
    def step():
        for _ in range(calls):
            distributed.all_reduce(torch.ones(1))

    recorded(tmp_path, step, step, bytes_per_step=700)
    lines = (tmp_path / f"{RANK.label}.marks.jsonl").read_text().splitlines(keepends=True)
    steps = [line for line in lines if "begin_ns" in line]
    assert len(steps) == 2
    for line in steps:
        step = json.loads(line)
        assert len(line) <= 700
        assert len(step["calls"]) + step["left_out"] == calls
        assert len(step["calls"]) >= min(calls, 12)


@pytest.mark.usefixtures("alone")
def test_nothing_is_seen_any_more_when_it_has_ended():
    seen = []
    calls = _collective_calls.CollectiveCalls(seen.append)
    calls.watch(on=True)
    distributed.barrier()
    calls.watch(on=False)
    assert [call.message.operator for call in seen] == ["c10d::barrier"]
    distributed.barrier()
    assert len(seen) == 1


def test_all_ranks_are_recorded_whatever_ranks_says():
    assert marks.Capture(ranks=(0,)).records_rank(5, 8, Parallel())


class Event:
    """An event of a GPU that is done once somebody waits for it."""

    def __init__(self, time_ns):
        self.time_ns = time_ns
        self.is_done = False

    def query(self):
        return self.is_done

    def synchronize(self):
        self.is_done = True

    def elapsed_time(self, later):
        return (later.time_ns - self.time_ns) / 1e6


def test_a_call_of_a_gpu_has_the_times_of_the_gpu_once_it_is_done():
    events = iter([Event(1_000), Event(5_000)])
    clock = SimpleNamespace(record_event=lambda: next(events), unix_ns=lambda event: event.time_ns)
    call = _collective_calls.GpuCall(None, 0, clock)
    assert call.times(wait=True) is None
    call.end()
    assert call.times(wait=False) is None
    assert call.times(wait=True) == (1_000, 5_000)
