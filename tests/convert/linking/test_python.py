"""Calls of Python functions and modules."""

import gzip
import itertools
import json

import numpy as np
import pytest

from profkit.convert.linking import tree
from profkit.convert.linking.python import nested, readable, root_first
from profkit.core.errors import InputError


def calls(*rows):
    """Nest rows of start and end."""
    return nested(*(np.array(column, dtype=np.int64) for column in zip(*rows, strict=True)))


def test_calls_nest_by_time():
    found = calls((0, 100), (10, 50), (20, 30), (30, 50), (60, 70))
    assert found.caller.tolist() == [-1, 0, 1, 1, 0]


def test_more_calls_inside_one_another_than_programs_have_are_refused(monkeypatch):
    monkeypatch.setattr(tree, "_MOST_LEVELS", 20)
    assert len(calls(*((n, 90 - n) for n in range(20))).start) == 20
    with pytest.raises(InputError, match="20 of its rows lie inside one another"):
        calls(*((n, 90 - n) for n in range(22)))


def test_instants_and_equal_times_nest():
    found = calls((0, 100), (0, 100), (10, 10), (10, 10), (12, 15))
    assert found.caller.tolist() == [-1, 0, 1, 2, 1]


def test_a_call_that_crosses_another_hides_no_other():
    found = calls((0, 100), (10, 50), (40, 80), (60, 70), (90, 95))
    assert found.caller.tolist() == [-1, 0, 1, 0, 0]


def test_the_innermost_open_call_is_found():
    found = calls((0, 100), (10, 50), (20, 30))
    times = np.array([-1, 5, 10, 29, 30, 50, 100])
    assert found.at(times).tolist() == [-1, 0, 1, 2, 1, 0, -1]


def test_without_calls_none_is_open():
    nothing = np.array([], dtype=np.int64)
    assert nested(nothing, nothing).at(np.array([5])).tolist() == [-1]


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
    found = []
    for _, own in itertools.groupby(python, key=lambda event: event["tid"]):
        times = [[round(event[key] * 1000) for key in ("ts", "dur")] for event in own]
        start, duration = np.array(times).T
        callers = nested(start, start + duration).caller
        found += np.where(callers >= 0, callers + len(found), -1).tolist()
    parents = [event["args"]["Python parent id"] for event in python]
    known = set(ids)  # one of the files is an excerpt, in which some callers are missing
    recorded = [parent if parent in known else None for parent in parents]
    got = [ids[row] if row >= 0 else None for row in found]
    assert sum(one != other for one, other in zip(got, recorded, strict=True)) == apart
