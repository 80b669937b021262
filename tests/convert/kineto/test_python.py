"""Calls of Python functions and modules."""

import gzip
import json

import numpy as np
import pytest

from profkit.convert.kineto.python import nested, readable, root_first


def calls(*rows):
    """Nest rows of thread, start and end."""
    return nested(*(np.array(column, dtype=np.int64) for column in zip(*rows, strict=True)))


def test_calls_nest_by_time_on_each_thread():
    found = calls((1, 0, 100), (1, 10, 50), (1, 20, 30), (1, 30, 50), (1, 60, 70), (2, 15, 20))
    assert found.caller.tolist() == [-1, 0, 1, 1, 0, -1]


def test_instants_and_equal_times_nest():
    found = calls((1, 0, 100), (1, 0, 100), (1, 10, 10), (1, 10, 10), (1, 12, 15))
    assert found.caller.tolist() == [-1, 0, 1, 2, 1]


def test_a_call_that_crosses_another_hides_no_other():
    found = calls((1, 0, 100), (1, 10, 50), (1, 40, 80), (1, 60, 70), (1, 90, 95))
    assert found.caller.tolist() == [-1, 0, 1, 0, 0]


def test_the_innermost_open_call_is_found():
    found = calls((1, 0, 100), (1, 10, 50), (1, 20, 30), (2, 0, 10))
    times = np.array([5, 10, 29, 30, 50, 100, 5, 10])
    threads = np.array([1, 1, 1, 1, 1, 1, 2, 3])
    assert found.at(threads, times).tolist() == [0, 1, 2, 1, 0, -1, 3, -1]


def test_without_calls_none_is_open():
    nothing = np.array([], dtype=np.int64)
    found = nested(nothing, nothing, nothing)
    assert found.at(np.array([1]), np.array([5])).tolist() == [-1]


def test_frames_are_readable():
    assert readable("nn.Module: Linear_3") == "Linear_3"
    assert readable("<built-in method mm of Tensor object at 0x7f00ab>") == (
        "<built-in method mm of Tensor object>"
    )
    assert root_first("torch/x.py(6): f;train.py(3): <module>") == (
        "train.py(3): <module>;torch/x.py(6): f"
    )


# In the last two, two frames each lie by their times inside a frame that the tracer records as
# their sibling (in one file while it starts, in the other beside a generator): times count here.
@pytest.mark.parametrize(
    ("name", "apart"),
    [
        ("h100/Falconsai_nsfw_image_detection__1016002.json.gz", 0),
        ("h100/google_owlv2-large-patch14-ensemble__1016001.json.gz", 0),
        ("mi300/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz", 2),
        ("sglang_Qwen3-8B_decode.json.gz", 2),
    ],
)
def test_callers_are_those_that_the_tracer_recorded(real_data, name, apart):
    events = json.loads(gzip.decompress((real_data / "kineto/tracelens" / name).read_bytes()))[
        "traceEvents"
    ]
    python = [event for event in events if event.get("cat") == "python_function"]
    python.sort(key=lambda event: (event["tid"], event["ts"], -event["dur"]))
    ids = [event["args"]["Python id"] for event in python]
    thread = np.array([event["tid"] for event in python])
    start, duration = (
        np.array([round(event[key] * 1000) for event in python]) for key in ("ts", "dur")
    )
    found = nested(thread, start, start + duration).caller
    parents = [event["args"]["Python parent id"] for event in python]
    known = set(ids)  # one of the files is an excerpt, in which some callers are missing
    recorded = [parent if parent in known else None for parent in parents]
    got = [ids[row] if row >= 0 else None for row in found]
    assert sum(one != other for one, other in zip(got, recorded, strict=True)) == apart
