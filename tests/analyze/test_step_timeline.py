"""The timeline: which steps and ranks it shows, on which clock, and what it leaves out."""

import pytest

from profkit.analyze import step_timeline
from profkit.analyze.step_timeline import analyze
from profkit.analyze.tracks.room import Room
from profkit.testing import run
from tests.analyze.test_causes import at
from tests.recorded_ranks import AHEAD_US, LATE_US, LENGTHS_US, US, tables


def drawn(ranks=2, **more):
    return run(analyze, **tables(ranks=ranks) | more).drawings["timeline"]


@pytest.fixture(scope="module")
def timeline():
    return drawn()


@pytest.fixture(scope="module")
def typical(timeline):
    return timeline.details[0].data()


def track(data, kind, rank=0):
    return next(one for one in data["tracks"] if (one["kind"], one["rank"]) == (kind, rank))


def named(data, one):
    return [data["texts"][number] for number in one["name"]]


def known(data, kind, column):
    values = data["about"][kind][column]
    return [data["texts"][value] for value in values]


def test_a_typical_and_the_worst_step_are_shown_in_full(timeline):
    assert [detail.name for detail in timeline.details] == ["step 6 (typical)", "step 7 (worst)"]


def test_threads_nest_and_say_what_is_known_of_an_operator(typical):
    cpu = track(typical, "cpu")
    assert (cpu["thread"], cpu["role"]) == (7, "main")
    waited = "cudaDeviceSynchronize"
    assert named(typical, cpu) == ["aten::mm", "aten::copy_", "cudaLaunchKernel", waited]
    assert cpu["depth"] == [0, 1, 2, 0]
    assert cpu["start_ns"] == [10 * US, 10 * US, 10 * US, 70 * US]
    assert known(typical, "cpu", "line")[cpu["about"][0]] == "model.py(3): f"
    assert known(typical, "cpu", "module")[cpu["about"][0]] == "Net;Linear"


def test_a_call_and_its_kernel_share_a_link(typical):
    gpu = track(typical, "gpu")
    assert named(typical, gpu) == ["gemm"]
    assert gpu["link"] == track(typical, "cpu")["link"][2:3]
    assert known(typical, "gpu", "operator")[gpu["about"][0]] == "aten::copy_"


def test_ranks_are_on_one_clock_and_collectives_linked_across_them(timeline, typical):
    ranks = timeline.data["ranks"]
    assert [(one["offset_ns"], one["residual_ns"]) for one in ranks] == [(0, 0), (AHEAD_US * US, 0)]
    first, second = (track(typical, "collectives", rank) for rank in (0, 1))
    assert first["link"] == second["link"] != [-1]
    assert second["start_ns"][0] - first["start_ns"][0] == LATE_US * US
    assert typical["about"]["collectives"]["wait_ns"] == [LATE_US * US, 0]


def test_time_has_causes_without_gaps(typical):
    causes = track(typical, "causes")
    assert sum(causes["dur_ns"]) == typical["length_ns"] == LENGTHS_US[6] * US
    assert {"GPU computing", "Waiting for other ranks (Exposed communication)"} <= set(
        named(typical, causes)
    )


def test_phases_that_were_not_marked_come_from_operators(typical):
    assert named(typical, track(typical, "phases")) == ["forward"]


def test_memory_is_a_line_that_begins_with_what_was_there(typical):
    line = track(typical, "memory")
    assert line["allocated_bytes"] == [300, 100, 900, 300]
    assert line["time_ns"] == [0, 15 * US, 10 * US, 25 * US]


def test_the_whole_recording_is_shares_of_pieces(timeline):
    data = timeline.data
    assert data["length_ns"] == sum(LENGTHS_US.values()) * US - 10 * US
    assert data["steps"]["step"] == [5, 6, 7]
    (stream, *_) = [one for one in data["tracks"] if one["kind"] == "gpu"]
    assert set(stream["busy_percent"]) >= {0, 100}
    (memory, *_) = [one for one in data["tracks"] if one["kind"] == "memory"]
    assert max(memory["allocated_bytes"]) == 900


def test_without_room_the_shortest_slices_of_threads_go_and_the_end_stays(typical):
    count = sum(len(one.get("dur_ns", ())) for one in typical["tracks"])
    data = drawn(max_slices=count - 3).details[0].data()
    assert data["left_out"] == {"slices": 3, "longest_ns": 40 * US}
    left = ["aten::mm", "aten::copy_", "cudaDeviceSynchronize"]
    assert named(data, track(data, "cpu")) == left
    assert track(data, "gpu") == track(typical, "gpu") | {"name": track(data, "gpu")["name"]}


def test_of_many_ranks_representative_ones_are_shown_by_name():
    found = drawn(ranks=9, max_ranks=8, max_points=2)
    roles = {one["rank"]: list(one["roles"]) for one in found.data["ranks"]}
    # The last to come waits least: its own work takes longest.
    assert roles == {0: ["least work", "first"], 4: ["median work"], 8: ["most work"]}
    assert found.data["ranks_recorded"] == 9
    assert len(track(found.details[0].data(), "memory")["allocated_bytes"]) <= 3


def test_ranks_that_share_no_clock_begin_their_steps_together():
    given = tables(ranks=2)
    hours = 10**13
    for name, rows in given.items():
        for row in rows:
            late = hours if row["rank"] == 1 else 0
            row |= {key: row[key] + late for key in ("start_ns", "end_ns", "time_ns") if key in row}
        if name == "collectives":
            rows.clear()
    data = run(analyze, **given).drawings["timeline"].data
    assert [one["residual_ns"] for one in data["ranks"]] == [-1, -1]
    assert data["length_ns"] < hours


def test_nothing_recorded_is_said():
    (abstention,) = run(analyze).abstentions
    assert abstention.reason == "neither operators nor kernels were recorded"


@pytest.mark.parametrize("most", [1, 3, 5, 20, 1000])
def test_slices_that_there_is_no_room_for_are_not_in_memory(most, monkeypatch):
    elsewhere = at(100, 1800, tid=9, name="wait", kind="function", call=0, caller=-1)
    within = [at(110 + 10 * n, 112 + 10 * n, name="f", kind="function", call=n + 1, caller=-1)
              for n in range(9)]  # fmt: skip
    given = {"steps": [], "python_calls": [elsewhere, *within], "max_slices": most}
    few = drawn(**given)
    assert few.details[0].data()["role"] == "whole"
    monkeypatch.setattr(step_timeline, "room_for", lambda *_: Room())
    every = drawn(**given)
    assert few.data == every.data
    assert [one.data() for one in few.details] == [one.data() for one in every.details]
