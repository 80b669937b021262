"""How many steps fit into the bytes that a capture may take, and what is said of it."""

import gzip
import json
import time

import pytest
from torch import profiler

from profkit.capture._profiler_schedule import BoundedSchedule, Schedule
from profkit.capture.base import Rank
from profkit.capture.harness.ranks import bytes_bound
from profkit.capture.harness.ranks.bytes_bound import BytesBound
from profkit.core import progress_events


def of(tmp_path, rank, share):
    out = tmp_path / "r/capture/marks/rep0"
    out.mkdir(parents=True, exist_ok=True)
    asked = {"rank_bytes": share, "out": str(out), "tool": "marks", "repeat": 0}
    return BytesBound(Rank(rank=rank), asked), out


@pytest.mark.parametrize(
    ("share", "per_step", "steps", "most"),
    [(1000, 300, 5, 3), (1000, 300, 2, 3), (1000, 300, -1, 3), (100, 300, 5, 1)],
)
def test_as_many_steps_as_fit_are_recorded_and_at_least_one(tmp_path, share, per_step, steps, most):
    bound, _ = of(tmp_path, 0, share)
    assert bound.most(per_step, steps) == most


def test_the_prediction_is_written_down_and_shown_once(tmp_path, monkeypatch):
    events = tmp_path / "events"
    monkeypatch.setenv(progress_events.VARIABLE, str(events))
    for rank in (0, 1):
        bound, out = of(tmp_path, rank, 1000)
        bound.most(300 + rank, 5)
    (line,) = events.read_text().splitlines()
    shown = json.loads(line)
    assert (shown["event"], shown["run"], shown["name"]) == ("predicted", "r", "marks")
    assert shown["text"] == "300 B a step and rank predicted, 1.46 KiB in 5 steps; 1,000 B fit"
    found = bytes_bound.collect(out, 2000, 1700)
    assert found == {
        "max_bytes": 2000,
        "recorded_bytes": 1700,
        "predicted_bytes": 3005,
        "bytes_per_step_and_rank": 301,
        "steps": 5,
        "kept_steps": 3,
    }
    assert bytes_bound.note(found, "marks") == [
        "marks recorded 3 of 5 steps: all would have taken 2.93 KiB, and max_bytes is 1.95 KiB."
    ]
    assert [*out.iterdir()] == []


def test_a_bound_that_was_not_kept_is_said(tmp_path):
    _, out = of(tmp_path, 0, 1000)
    (said,) = bytes_bound.note(bytes_bound.collect(out, 1000, 2000), "py_spy")
    assert said == (
        "Raw files take 1.95 KiB, more than max_bytes, 1,000 B: record fewer ranks or steps with"
        " py_spy."
    )
    assert bytes_bound.note(bytes_bound.collect(out, 0, 2000), "py_spy") == []


@pytest.mark.parametrize(
    ("most", "actions"),
    [
        (None, "NNWRSNWRSNN"),
        (4, "NNWRSNWRSNN"),
        (3, "NNWRSNWSNNN"),
        (2, "NNWRSNNNNNN"),
        (1, "NNWSNNNNNNN"),
    ],
)
def test_a_schedule_ends_with_the_last_step_that_fits(most, actions):
    cycles = Schedule(skip_first=1, wait=1, warmup=1, active=2, repeat=2)
    schedule = BoundedSchedule(cycles.function(skip_first_wait=False))
    schedule.most = most
    letters = {"NONE": "N", "WARMUP": "W", "RECORD": "R", "RECORD_AND_SAVE": "S"}
    assert "".join(letters[schedule(step).name] for step in range(11)) == actions
    assert schedule(3) in (
        profiler.ProfilerAction.RECORD,
        profiler.ProfilerAction.RECORD_AND_SAVE,
    )


@pytest.mark.parametrize(
    ("step_s", "active", "actions"),
    [(0.001, 3, 134), (0.01, 3, 20), (0.125, 3, 4), (0.3, 3, 3), (0.01, 30, 30), (0.01, 1, 1)],
)
def test_a_schedule_goes_on_until_its_steps_have_lasted_long_enough(
    monkeypatch, step_s, active, actions
):
    now_s = 7.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    cycles = Schedule(skip_first=1, wait=0, warmup=1, active=active, repeat=1)
    schedule = BoundedSchedule(cycles.function(skip_first_wait=False), 0.4)
    found = []
    for step in range(200):
        found.append(schedule(step).name)
        now_s += step_s
    recorded = ["RECORD"] * (actions - 1) + ["RECORD_AND_SAVE"]
    assert found == ["NONE", "WARMUP", *recorded, *["NONE"] * (198 - actions)]


def bounded(max_bytes):
    return ["--run-settings", json.dumps({"max_bytes": max_bytes})]


def test_torch_profiler_records_fewer_steps_where_its_first_ones_say_so(capture, tmp_path):
    made = capture("torch_profiler", tmp_path, {}, *bounded(60_000), steps=9)
    record = made.record
    assert record["status"] == "ok", made.told
    found = record["bytes"]
    assert (found["steps"], found["kept_steps"], found["max_bytes"]) == (3, 1, 60_000)
    assert found["predicted_bytes"] > 60_000
    for path in made.folder.glob("*.pt.trace.json.gz"):
        events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
        names = {event.get("name", "") for event in events}
        assert {name for name in names if name.startswith("ProfilerStep#")} == {"ProfilerStep#5"}
    assert any(
        text.startswith("torch_profiler recorded 1 of 3 steps") for text in record["warnings"]
    )


@pytest.mark.parametrize(("max_bytes", "steps"), [(2400, 1), (0, 6), (10_000_000, 6)])
def test_marks_end_with_the_step_that_fits(capture, tmp_path, max_bytes, steps):
    made = capture("marks", tmp_path, {}, *bounded(max_bytes), steps=6)
    assert made.record["status"] == "ok", made.told
    for path in made.folder.glob("*.marks.jsonl"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        count = sum("begin_ns" in line for line in lines)
        assert count == steps if steps == 6 else 1 <= count < 6
    assert ("predicted_bytes" in made.record["bytes"]) == (max_bytes > 0)
