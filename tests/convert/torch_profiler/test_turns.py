"""Threads that end steps by turns are read as one, and those that work at once are not."""

import gzip
import json

import numpy as np
import pytest

from profkit.convert.base import Raw
from profkit.convert.torch_profiler import convert
from profkit.convert.torch_profiler.turns import Look, turns

MAIN, FIRST, SECOND, THIRD = range(1, 5)
WAITS, WORKS, ANSWERS = range(3)
ENDS = [(40, SECOND), (80, THIRD)]


def look(tid, time_ns, cpu_ns=-1, stack=WORKS):
    return Look(tid, time_ns, cpu_ns, cpu_ns, stack)


def turns_of(*looks):
    return turns(looks, ENDS, FIRST, WAITS.__eq__)


def test_the_thread_whose_turn_it_is_has_the_looks_and_adds_up_its_times():
    found = turns_of(
        *(look(MAIN, time_ns, 3, WAITS) for time_ns in (10, 20, 30, 50, 90)),
        look(FIRST, 10, 500),
        # It still sends its answer.
        look(FIRST, 20, 501, ANSWERS),
        look(SECOND, 20, 4),
        look(SECOND, 30, 11),
        look(THIRD, 50, 1000),
    )
    assert [(one.tid, one.time_ns, one.cpu_ns) for one in found.own] == [
        (FIRST, 10, 0),
        # Both have used the time between.
        (SECOND, 20, 4 + 1),
        (SECOND, 30, 5 + 7),
        # No more than the time since the last look.
        (THIRD, 50, 12 + 20),
    ]
    assert [(one.tid, one.time_ns) for one in found.others] == [
        (MAIN, 10), (MAIN, 20), (FIRST, 20), (MAIN, 30), (MAIN, 50), (MAIN, 90),
    ]  # fmt: skip
    assert found.are_alone


def test_a_thread_may_wait_in_its_turn_and_another_one_does_not_say_what_it_does():
    found = turns_of(look(SECOND, 10, stack=WAITS), look(THIRD, 50, stack=WAITS), look(FIRST, 60))
    assert [(one.tid, one.cpu_ns) for one in found.own] == [(SECOND, -1), (THIRD, -1), (FIRST, -1)]
    assert not turns_of(look(SECOND, 90, stack=WAITS), look(FIRST, 91, stack=WAITS)).own


@pytest.mark.parametrize(("at_once", "are_alone"), [(1, True), (2, False)])
def test_threads_that_often_work_at_once_take_no_turns(at_once, are_alone):
    both = [look(tid, time_ns) for time_ns in range(1, 1 + at_once) for tid in (SECOND, THIRD)]
    found = turns_of(*both, *(look(THIRD, time_ns) for time_ns in range(50, 60)))
    assert found.are_alone == are_alone
    tids = np.array([SECOND, THIRD, MAIN])
    operators = [FIRST, FIRST, MAIN] if are_alone else [SECOND, THIRD, MAIN]
    assert found.joined(tids, np.zeros(3, dtype=bool)).tolist() == operators
    assert found.joined(tids, np.ones(3, dtype=bool)).tolist() == [FIRST, FIRST, MAIN]


def test_operators_of_threads_that_take_turns_are_on_one(tmp_path):
    names = ("ProfilerStep#5", "aten::mm", "aten::relu", "aten::add")
    rows = list(zip(names, (3, 3, 4, 9), strict=True))
    events = [
        {"ph": "X", "cat": "user_annotation" if "#" in name else "cpu_op", "name": name, "pid": 1,
         "tid": tid, "ts": index * 10, "dur": 5, "args": {"External id": index}}
        for index, (name, tid) in enumerate(rows)
    ]  # fmt: skip
    path = tmp_path / "rank0_dp0_tp0_pp0.17.pt.trace.json.gz"
    trace = {"schemaVersion": 1, "deviceProperties": [], "traceEvents": events}
    path.write_bytes(gzip.compress(json.dumps(trace).encode()))
    seen = {"tid": 2, "stacks": [["a.py(1): f"]], "samples": [[10, 0]], "pauses": []}
    seen |= {"threads": [[3, 20, 5, 0], [4, 60, 6, 0]], "ends": [[40, 3], [80, 4]]}
    (tmp_path / "rank0_dp0_tp0_pp0.17.python.json").write_text(json.dumps(seen))
    raw = Raw(path=path, label="rank0_dp0_tp0_pp0", rank=0, repeat=0)
    found = convert.run(raw, tmp_path).tables
    ops = next(iter(found["cpu_ops"])).to_pydict()
    assert dict(zip(ops["name"], ops["tid"], strict=True)) == dict(
        zip(names, (2, 2, 2, 9), strict=True)
    )
    looks = found["python_samples"][0].to_pydict()
    assert (looks["tid"], looks["time_ns"]) == ([2] * 3, [10, 20, 60])
