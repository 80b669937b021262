"""What the sampler wrote as samples and phases."""

import json

import pytest

from profkit.convert.base import Raw
from profkit.convert.system import convert
from profkit.core.errors import InputError

LABEL = "rank1_dp1_tp0_pp0"
COST = {"cpu_ns": 3, "elapsed_ns": 1000}


def raw(folder, *lines, steps=None, end="\n"):
    path = folder / f"{LABEL}.samples.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines) + end)
    if steps is not None:
        (folder / f"{LABEL}.steps.json").write_text(json.dumps({"steps": steps}))
    return Raw(path=path, label=LABEL, rank=1, repeat=2)


def sample(time_ns, **readings):
    return {"time_ns": time_ns, "readings": readings}


def test_each_reading_is_a_row_with_its_unit_and_step(tmp_path):
    lines = (
        sample(5, host={"cpu_s": 1.5}),
        sample(10, gpu0={"power_w": 71, "throttled_sw_power_cap": 1}),
        {"phase": "forward", "kind": "device", "start_ns": 11, "end_ns": 15},
        sample(20, process={"disk_read_bytes": 7}),
        COST,
    )
    converted = convert.run(raw(tmp_path, *lines, steps=[[10, 20, 2, 3], [22, 30, 2, 3]]), tmp_path)
    rows = converted.tables["samples"].to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        (1, 2, 5, "host", "cpu_s", "counter", 1.5, "s", -1),
        (1, 2, 10, "gpu0", "power_w", "level", 71.0, "w", 0),
        (1, 2, 10, "gpu0", "throttled_sw_power_cap", "level", 1.0, "", 0),
        (1, 2, 20, "process", "disk_read_bytes", "counter", 7.0, "bytes", -1),
    ]
    (phase,) = converted.tables["annotations"].to_pylist()
    assert phase == {
        "rank": 1,
        "repeat": 2,
        "kind": "device",
        "tid": -1,
        "name": "forward",
        "start_ns": 11,
        "end_ns": 15,
        "op": -1,
        "step": 0,
    }
    assert converted.notes == ("Sampling took 0.30% of one CPU's time.",)


def test_without_steps_every_sample_lies_outside(tmp_path):
    converted = convert.run(raw(tmp_path, sample(5, host={"cpu_s": 1})), tmp_path)
    assert converted.tables["samples"]["step"].to_pylist() == [-1]


def test_what_a_killed_process_leaves_is_read_up_to_its_end(tmp_path):
    half = raw(tmp_path, sample(5, host={"cpu_s": 1}), end='\n{"time_ns": 1')
    converted = convert.run(half, tmp_path)
    assert len(converted.tables["samples"]) == 1
    assert converted.notes == ("1 damaged line left out.",)


@pytest.mark.parametrize("text", ["", "\x00\xff", '{"readings": []}', "[]"])
def test_a_file_without_samples_is_refused(tmp_path, text):
    path = tmp_path / "rank0_dp0_tp0_pp0.samples.jsonl"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match="holds no sample"):
        convert.run(Raw(path=path, label="rank0_dp0_tp0_pp0", rank=0, repeat=0), tmp_path)
