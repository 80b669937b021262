"""pyinstrument's sessions as stacks."""
# ruff: noqa: S314 - what is parsed was written by the test

import json
from xml.etree import ElementTree as ET

import pytest
from pyinstrument import Profiler
from pyinstrument.session import Session as TheirSession

from profkit.convert.base import Raw
from profkit.convert.pyinstrument import convert
from profkit.core.errors import InputError

THREAD = "MainThread\x00<thread>\x00140"
MAIN = "<module>\x00/env/lib/pkg/train.py\x001\x01l12"
CALL = "forward\x00/env/lib/pkg/net.py\x007\x01l9\x01cNet"
SUM = "sum\x00<built-in>\x000"


def raw(path):
    return Raw(path=path, label="rank1_dp1_tp0_pp0", rank=1, repeat=2)


def written(folder, records):
    path = folder / "rank1_dp1_tp0_pp0.pyinstrument.json"
    path.write_text(
        json.dumps({"frame_records": records, "sys_path": ["/env/lib"], "sys_prefixes": ["/env"]})
    )
    return raw(path)


def test_equal_stacks_are_summed_and_frames_named_like_py_spys(tmp_path):
    records = [
        ([THREAD, MAIN, CALL], 0.002),
        ([THREAD, MAIN, CALL], 0.003),
        ([THREAD, MAIN, SUM], 0.001),
        (["[out-of-context]"], 0.004),
    ]
    converted = convert.run(written(tmp_path, records), tmp_path)
    rows = converted.tables["sampled_stacks"].to_pylist()
    assert [(row["thread"], row["stack"], row["samples"], row["duration_ns"]) for row in rows] == [
        ("MainThread", "<module> (pkg/train.py:12);Net.forward (pkg/net.py:9)", 2, 5_000_000),
        ("MainThread", "<module> (pkg/train.py:12);sum (built-in)", 1, 1_000_000),
        ("", "[out-of-context]", 1, 4_000_000),
    ]
    assert {(row["rank"], row["repeat"]) for row in rows} == {(1, 2)}
    ET.parse(tmp_path / "rank1_dp1_tp0_pp0.rep2.flamegraph.svg")


def test_samples_belong_to_the_step_in_which_they_were_taken(tmp_path):
    path = tmp_path / "rank1_dp1_tp0_pp0.pyinstrument.json"
    records = [([THREAD, MAIN, CALL], 0.002)] * 4
    path.write_text(json.dumps({"frame_records": records, "start_time": 100.0}))
    steps = [[100_002_000_000, 100_004_500_000], [100_004_500_000, 100_006_500_000]]
    timed = tmp_path / "rank1_dp1_tp0_pp0.steps.json"
    timed.write_text(json.dumps({"steps": steps}))
    rows = convert.run(raw(path), tmp_path).tables["sampled_stacks"].to_pylist()
    assert [(row["step"], row["samples"]) for row in rows] == [(-1, 2), (0, 1), (1, 1)]


def test_a_session_of_theirs_keeps_its_time(tmp_path):
    path = tmp_path / "rank1_dp1_tp0_pp0.pyinstrument.json"
    with Profiler(interval=0.001) as profiler:
        for _ in range(20):
            json.loads(json.dumps(list(range(20_000))))
    profiler.last_session.save(path)
    theirs = TheirSession.load(path)
    rows = convert.run(raw(path), tmp_path).tables["sampled_stacks"].to_pandas()
    root = theirs.root_frame()
    assert rows["samples"].sum() == len(theirs.frame_records)
    assert rows["duration_ns"].sum() == pytest.approx(root.time * 1e9, rel=1e-6)
    dumped = rows[rows["stack"].astype(str).str.contains("encode")]["duration_ns"].sum()
    assert 0 < dumped < rows["duration_ns"].sum()


def test_a_session_without_samples_is_noted(tmp_path):
    converted = convert.run(written(tmp_path, []), tmp_path)
    assert len(converted.tables["sampled_stacks"]) == 0
    assert "No sample was taken" in converted.notes[0]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "damaged JSON"),
        (b'{"frame_rec', "damaged JSON"),
        (b"[]", "not a session"),
        (b'{"frame_records": [[1, 2]]}', "not a session"),
    ],
)
def test_what_is_no_session_is_named(tmp_path, content, says):
    path = tmp_path / "rank0.pyinstrument.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=says):
        convert.run(raw(path), tmp_path)
