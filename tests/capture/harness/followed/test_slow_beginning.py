"""Steps are traced after a beginning that the unprofiled run showed to be far slower than most."""

import gzip
import json

import pytest

from profkit import marks
from profkit.capture import nsys, torch_profiler
from profkit.capture.harness.followed.slow_beginning import slow_first_steps
from profkit.capture.harness.record import capture_json


def write(folder, lasted):
    ends = [sum(lasted[: n + 1]) for n in range(len(lasted))]
    steps = [[end - one, end, -1, 9] for end, one in zip(ends, lasted, strict=True)]
    (folder / "rank0_dp0_tp0_pp0.steps.json").write_text(json.dumps({"steps": steps}))


@pytest.mark.parametrize(
    ("lasted", "slow"),
    [
        ([60] * 20 + [20] * 80, 20),
        # One step that happens to be short is none of the steady ones.
        ([60] * 10 + [20] + [60] * 9 + [20] * 80, 20),
        ([60] * 20 + [20] * 40, 0),
        ([25] * 20 + [20] * 80, 0),
        ([60] * 5 + [20] * 95, 0),
        ([60, 20] * 50, 0),
        ([60] * 10 + [20] * 13, 0),
        ([20] * 100, 0),
    ],
    ids=[
        *("a first epoch", "one short step", "most of the time", "hardly slower"),
        *("only steps that are left out", "in turns", "too few steps", "alike"),
    ],
)
def test_a_slow_beginning_is_left_out_where_it_is_not_most_of_the_time(tmp_path, lasted, slow):
    write(tmp_path, lasted)
    assert slow_first_steps(tmp_path, 5, 8) == slow
    # A tool to which all steps are alike.
    assert slow_first_steps(tmp_path, 0, 0) == 0


def test_without_an_unprofiled_run_none_is_left_out(tmp_path):
    assert slow_first_steps(tmp_path, 5, 8) == 0


@pytest.mark.parametrize(
    ("tool", "later"),
    [
        (torch_profiler.Capture(), True),
        (torch_profiler.Capture(skip_first=4), False),
        (torch_profiler.Capture(schedule="early"), False),
        (nsys.Capture(), False),
    ],
    ids=["free to choose", "said by the user", "the early steps", "all steps"],
)
def test_only_a_tool_that_is_free_to_choose_traces_later(tool, later):
    assert (tool.after(20) != tool) == later
    assert tool.after(0) == tool


def test_the_steps_after_it_are_traced_and_readers_hear_of_it(followed):
    first = followed("python leaving.py end 100")
    made = {"attempt": 1, "status": "ok", "reason": "", "settings": {}, "workload": {}}
    capture_json.write(first.out, made | first.found.facts)
    write(first.out, [60] * 20 + [20] * 80)
    later = followed("python leaving.py end 100", "torch_profiler")
    assert later.steps == [100]
    assert later.notes == [
        "The first 20 steps take longer than others, and were not traced: skip_first=20."
    ]
    (trace,) = later.out.glob("*.pt.trace.json.gz")
    names = (
        event.get("name", "")
        for event in json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    )
    steps = {int(name.removeprefix(marks.STEP)) for name in names if name.startswith(marks.STEP)}
    assert min(steps) == 20 + 2
