"""Measurements as rows of nanoseconds per call."""

import json

import pytest

from profkit.convert.base import Raw
from profkit.convert.torch_benchmark import convert
from profkit.core.errors import InputError


def raw(path):
    return Raw(path=path, label="rank1_dp1_tp0_pp0", rank=1, repeat=2)


def test_each_measurement_is_a_row(tmp_path):
    path = tmp_path / "rank1_dp1_tp0_pp0.benchmark.json"
    parts = {"forward": [{"calls": 4, "seconds": [0.002]}, {"calls": 4, "seconds": [0.004]}]}
    path.write_text(json.dumps({"device": "cuda", "threads": 8, "parts": parts}))
    rows = convert.run(raw(path), tmp_path).tables["benchmarks"].to_pylist()
    common = {"rank": 1, "repeat": 2, "part": "forward", "calls": 4, "threads": 8, "device": "cuda"}
    assert rows == [
        {**common, "measurement": 0, "call_ns": pytest.approx(500_000)},
        {**common, "measurement": 1, "call_ns": pytest.approx(1_000_000)},
    ]


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"parts": {"x": [{"calls": "a"}]}}'])
def test_what_is_something_else_is_named(tmp_path, content):
    path = tmp_path / "rank1.benchmark.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match="not what torch_benchmark leaves"):
        convert.run(raw(path), tmp_path)


def benchmark(**changed):
    measured = [{"calls": 4, "seconds": [0.002]}]
    return {"device": "cuda", "threads": 8, "parts": {"forward": measured}} | changed


def measured(calls, *seconds):
    return {"parts": {"forward": [{"calls": calls, "seconds": seconds}]}}


@pytest.mark.parametrize(
    "changed",
    [
        measured(0, 0.1),
        measured(-4, 0.1),
        measured(10**30, 0.1),
        measured(4, -0.1),
        measured(4, 0.0),
        measured(4, 1e12),
        {"threads": -1},
    ],
)
def test_numbers_that_nothing_measures_are_refused(tmp_path, changed):
    path = tmp_path / "rank1.benchmark.json"
    path.write_text(json.dumps(benchmark(**changed)))
    with pytest.raises(InputError, match="not what torch_benchmark leaves: Expected"):
        convert.run(raw(path), tmp_path)


@pytest.mark.parametrize(
    ("changed", "part"), [({"parts": {}}, "any part of the step"), (measured(4), "forward")]
)
def test_parts_without_a_measurement_are_said(tmp_path, changed, part):
    path = tmp_path / "rank1.benchmark.json"
    path.write_text(json.dumps(benchmark(**changed)))
    assert convert.run(raw(path), tmp_path).notes == (f"No measurement was left of {part}.",)
