"""py-spy's speedscope files as stacks."""
# ruff: noqa: S314 - what is parsed was written by the test

import gzip
import json
from xml.etree import ElementTree as ET

import pytest

from profkit.convert.base import Raw
from profkit.convert.py_spy import convert, decoded, stacks
from profkit.core.errors import InputError

FRAMES = [{"name": "main", "file": "a.py", "line": 3}, {"name": "f;g"}, {"name": "<leaf>"}]


def raw(path):
    return Raw(path=path, label="rank1_dp1_tp0_pp0", rank=1, repeat=2)


def speedscope(*profiles):
    return json.dumps({"shared": {"frames": FRAMES}, "profiles": profiles}).encode()


def sampled(name, samples, weights, unit="seconds"):
    common = {"startValue": 0, "endValue": 1, "unit": unit}
    return {"type": "sampled", "name": name, "samples": samples, "weights": weights, **common}


def test_equal_stacks_of_a_thread_are_summed(tmp_path):
    path = tmp_path / "rank1_dp1_tp0_pp0.speedscope.json"
    profiles = (
        sampled("Thread 1", [[0, 1], [0, 1], [0]], [0.01, 0.01, 0.02]),
        sampled("Thread 2", [[0]], [5], unit="milliseconds"),
    )
    path.write_bytes(speedscope(*profiles))
    converted = convert.run(raw(path), tmp_path)
    assert converted.tables["sampled_stacks"].to_pylist() == [
        {
            "rank": 1,
            "repeat": 2,
            "thread": thread,
            "stack": stack,
            "samples": samples,
            "duration_ns": duration_ns,
            "step": -1,
        }
        for thread, stack, samples, duration_ns in [
            ("Thread 1", "main (a.py:3);f,g", 2, 20_000_000),
            ("Thread 1", "main (a.py:3)", 1, 20_000_000),
            ("Thread 2", "main (a.py:3)", 1, 5_000_000),
        ]
    ]
    copy = tmp_path / "rank1_dp1_tp0_pp0.rep2.speedscope.json"
    assert copy.read_bytes() == path.read_bytes()
    ET.parse(tmp_path / "rank1_dp1_tp0_pp0.rep2.flamegraph.svg")


def test_evented_profiles_give_time_to_what_is_open(tmp_path):
    events = [("O", 0, 0), ("O", 1, 2), ("C", 1, 5), ("C", 0, 6), ("O", 2, 8), ("C", 2, 9)]
    profile = {
        "type": "evented",
        "name": "t",
        "unit": "nanoseconds",
        "events": [{"type": kind, "frame": frame, "at": at} for kind, frame, at in events],
    }
    sums, notes = stacks(decoded(tmp_path, speedscope(profile)))
    assert sums == {
        ("t", ("main (a.py:3)",)): (-1, 3.0),
        ("t", ("main (a.py:3)", "f;g")): (-1, 3.0),
        ("t", ("<leaf>",)): (-1, 1.0),
    }
    assert notes == []


def test_what_cannot_be_used_is_noted(tmp_path):
    profiles = (
        sampled("a", [[0], [9], [-1]], [0.5, 0.25, 0.25]),
        sampled("b", [[0]], [1], unit="bytes"),
    )
    sums, notes = stacks(decoded(tmp_path, speedscope(*profiles)))
    assert list(sums) == [("a", ("main (a.py:3)",))]
    assert notes == [
        "2 samples of 'a' name no known frame: left out.",
        "Profile 'b' counts bytes, not time: left out.",
    ]


def evented(*events):
    listed = [{"type": kind, "frame": frame, "at": at} for kind, frame, at in events]
    return {"type": "evented", "name": "t", "unit": "nanoseconds", "events": listed}


IN_VAIN = "1 event of 't' goes back in time, or opens or closes what it cannot."


@pytest.mark.parametrize(
    ("profile", "note"),
    [
        (sampled("t", [[0], [1]], [1]), "Profile 't' has 2 samples and 1 weight: what has no"),
        (sampled("t", [[0]], [300]), "Profile 't' begins at 0 and ends at 1, but its samples"),
        (sampled("t", [[0]], [1]) | {"endValue": -1}, "Profile 't' begins at 0 and ends at -1"),
        (sampled("t", [[0]], [1]) | {"type": "x"}, "Profile 't' is of type 'x', which is not"),
        (sampled("t", [], []), "Profile 't' holds no sample."),
        (sampled("t", [[0]], [1e12]), "1 sample of 't' lasts as no sample can: left out."),
        (evented(("O", 0, 0), ("O", 1, 2), ("C", 1, 1), ("C", 0, 6)), IN_VAIN),
        (evented(("O", 0, 0), ("C", 1, 5)), IN_VAIN),
        (evented(("O", 0, 0), ("O", 1, 2), ("C", 1, 3)), IN_VAIN),
        (evented(("O", 0, 0), ("Q", 1, 2), ("C", 0, 3)), IN_VAIN),
    ],
)
def test_what_contradicts_itself_is_said(tmp_path, profile, note):
    _, notes = stacks(decoded(tmp_path, speedscope(profile)))
    assert any(said.startswith(note) for said in notes), notes


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "the file is empty"),
        (b'{"traceEvents": []}', "not a speedscope file"),
        (b'{"shared": {"fra', "damaged JSON"),
        (gzip.compress(b"x" * 99, mtime=0)[:20], "damaged gzip data"),
    ],
)
def test_what_is_no_speedscope_file_is_named(tmp_path, content, says):
    path = tmp_path / "rank0.speedscope.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=says):
        convert.run(raw(path), tmp_path)


def test_a_real_profile_keeps_its_time(real_data, tmp_path):
    path = real_data / "py_spy/profile.speedscope.json.gz"
    profiles = json.loads(gzip.decompress(path.read_bytes()))["profiles"]
    table = convert.run(raw(path), tmp_path).tables["sampled_stacks"].to_pandas()
    assert table["samples"].sum() == sum(len(profile["samples"]) for profile in profiles)
    assert table["duration_ns"].sum() == pytest.approx(
        1e9 * sum(sum(profile["weights"]) for profile in profiles), rel=1e-6
    )
    ET.parse(tmp_path / "rank1_dp1_tp0_pp0.rep2.flamegraph.svg")
