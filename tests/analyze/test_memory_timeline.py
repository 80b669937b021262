import pytest

from profkit import testing
from profkit.analyze import memory_timeline
from profkit.core.result import Result, Table

FORWARD = "main (train.py:1);forward (model.py:3);linear (/venv/lib/site-packages/torch/nn/f.py:9)"
STEP = "main (train.py:1);step (/venv/lib/site-packages/torch/optim/adam.py:5)"
ON = {"rank": 0, "repeat": 0, "device": "cuda:0"}


def block(size, start, end=-1, stack="", **rest):
    line = stack.split(";")[0] if stack else ""
    when = {"start_event": start, "end_event": end, "start_ns": start * 10, "end_ns": end * 10}
    return ON | {"size_bytes": size, "stack": stack, "line": line} | when | rest


def entry(index, **rest):
    return ON | {"time_ns": 1000 + index * 10, "reserved_bytes": 100, "step": -1} | rest


BLOCKS = [block(10, 0, 2, FORWARD), block(5, 1, -1, STEP), block(7, -1), block(20, 3, 4, FORWARD)]
EVENTS = [entry(index, step=index // 3) for index in range(5)]


def track(blocks=BLOCKS, events=EVENTS, **given):
    result = testing.run(memory_timeline.analyze, allocations=blocks, memory_events=events, **given)
    return result.drawings["memory_over_time"].data["first"]


def test_bands_add_up_to_what_is_live_and_what_stays_is_lowest():
    found = track()
    sums = [sum(levels) for levels in zip(*found["live_bytes"], strict=True)]
    assert dict(zip(found["event"], sums, strict=True)) == {
        -1: 7, 0: 17, 1: 22, 2: 12, 3: 32, 4: 12,
    }  # fmt: skip
    assert found["event"][found["peak"]] == 3
    assert found["origins"] == ["before the history", "optimizer", "forward"]
    assert found["lines"][found["stack"][-1]] == "main (train.py:1)"
    assert found["reserved_bytes"] == [100] * 6
    assert found["time_ns"] == [0, 0, 10, 20, 30, 40]
    assert found["steps"] == {"step": [0, 1], "at": [1, 4]}


def test_frames_of_the_program_are_told_from_those_of_libraries():
    found = track()
    frames = FORWARD.split(";")[::-1]
    assert {"frames": frames, "own": [1, 2]} in found["stacks"]


def test_stacks_that_hold_little_are_one_band_of_their_origin():
    blocks = [block(size, 0, stack=f"forward (model.py:{size})") for size in (90, 3, 4)]
    found = track(blocks, EVENTS[:1], most_stacks=1)
    assert found["live_bytes"] == [[0, 90], [0, 7]]
    assert found["stack"] == [0, -1]


def test_no_peak_is_lost_where_a_history_is_long():
    blocks = [block(1, 2 * index, 2 * index + 1, FORWARD) for index in range(500)]
    blocks.append(block(1000, 332, 334, STEP))
    found = track(blocks, [entry(index) for index in range(1000)], points=10)
    assert len(found["event"]) <= 12
    assert found["live_bytes"][0][found["peak"]] + found["live_bytes"][1][found["peak"]] == 1001


def test_a_request_that_failed_says_what_it_found_and_what_would_have_fitted():
    failed = ON | {"event": 4, "size_bytes": 900, "free_bytes": 50, "stack": FORWARD, "step": 1}
    shortage = Table(
        title="",
        columns=("rank", "repeat", "device", "fits_with"),
        rows=((0, 0, "cuda:0", "expandable_segments:True"),),
    )
    found = track(
        events=[*EVENTS[:4], entry(4, allocated_bytes=12)],
        out_of_memory=[failed],
        fragmentation=Result(tables={"shortages": shortage}),
    )
    (one,) = found["out_of_memory"]
    assert (one["asked_bytes"], one["free_bytes"]) == (900, 50)
    assert (one["reserved_bytes"], one["allocated_bytes"]) == (100, 12)
    assert found["event"][one["at"]] == 4
    assert found["fits_with"] == "expandable_segments:True"


@pytest.mark.parametrize(("sizes", "expected"), [((30, 12), 42), ((30, None), -1), ((), -1)])
def test_the_closed_form_is_known_only_if_all_of_it_is(sizes, expected):
    rows = tuple((0, size) for size in sizes)
    compared = Table(title="", columns=("rank", "closed_form_bytes"), rows=rows)
    found = track(memory_model=Result(tables={"compared": compared}))
    assert found["closed_form_bytes"] == expected


def test_other_devices_and_single_allocations_are_details():
    blocks = [*BLOCKS, block(1, 0) | {"rank": 1}]
    result = testing.run(memory_timeline.analyze, allocations=blocks, memory_events=EVENTS)
    drawing = result.drawings["memory_over_time"]
    single, other = drawing.details
    assert (single.name, other.name) == (memory_timeline.ALLOCATIONS, "rank 1, cuda:0")
    data = single.data()
    assert (data["size_bytes"], data["start_event"]) == ([7, 10, 5, 20], [-1, 0, 1, 3])
    assert (other.data()["reserved_bytes"], other.data()["time_ns"]) == ([], [])
