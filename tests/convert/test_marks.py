"""What marks noted, as phases and collectives."""

import json

import pytest

from profkit.convert.base import Raw
from profkit.convert.marks import convert
from profkit.core.errors import InputError

LABEL = "rank1_dp1_tp0_pp0"
MESSAGE = {
    "operator": "c10d::allreduce_",
    "group": "0",
    "description": "default_pg",
    "group_size": 2,
    "group_ranks": "[0,1]",
    "dtype": "bfloat16",
    "in_elements": 8,
    "out_elements": 8,
    "device": "cpu",
}


def step(begin_ns, phases=(), calls=(), left_out=0):
    return {"begin_ns": begin_ns, "phases": phases, "calls": calls, "left_out": left_out}


def tables(folder, *lines, end="\n"):
    """Return the notes, and the rows of each table without those that every row has."""
    path = folder / f"{LABEL}.marks.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines) + end)
    timed = {"steps": [[100, 200, 2, 3], [202, 300, 2, 3]]}
    (folder / f"{LABEL}.steps.json").write_text(json.dumps(timed))
    converted = convert.run(Raw(path=path, label=LABEL, rank=1, repeat=2), folder)
    return converted.notes, {name: rows.to_pylist() for name, rows in converted.tables.items()}


def test_collectives_have_their_step_size_and_number(tmp_path):
    calls = [[0, 7, 60, 30], [1, 8, 70, 20, 5]]
    on_gpu = {"message": MESSAGE | {"operator": "c10d::_allgather_base_", "device": "cuda"}}
    _, found = tables(tmp_path, {"message": MESSAGE}, on_gpu, step(100, calls=calls), step(202))
    host, device = found["collectives"]
    assert host == {
        "rank": 1,
        "repeat": 2,
        "collective": 0,
        "kind": "host",
        "operation": "allreduce",
        "name": "c10d::allreduce_",
        "group": "0",
        "group_description": "default_pg",
        "group_ranks": "[0,1]",
        "group_size": 2,
        "in_elements": 8,
        "out_elements": 8,
        "dtype": "bfloat16",
        "size_bytes": 16,
        "sequence": 7,
        "start_ns": 160,
        "end_ns": 190,
        "call_ns": 160,
        "correlation": -1,
        "op": -1,
        "step": 0,
    }
    times = [device[name] for name in ("kind", "operation", "call_ns", "start_ns", "end_ns")]
    assert times == ["device", "allgather", 170, 175, 195]


def test_phases_lie_within_one_another(tmp_path):
    phases = [["inner", 20, 10], ["forward", 10, 40], ["backward", 50, 5]]
    _, found = tables(tmp_path, step(202, phases=phases))
    columns = ("op", "parent", "name", "start_ns", "end_ns", "self_ns", "step", "phase")
    assert [tuple(row[name] for name in columns) for row in found["cpu_ops"]] == [
        (0, -1, "forward", 212, 252, 30, 1, "forward"),
        (1, 0, "inner", 222, 232, 10, 1, "inner"),
        (2, -1, "backward", 252, 257, 5, 1, "backward"),
    ]
    assert [row["name"] for row in found["annotations"]] == ["forward", "inner", "backward"]


def test_what_is_missing_is_counted(tmp_path):
    calls = [[0, 7, 60, -1], [5, 8, 60, 1], [0, 9, 60, 1]]
    notes, found = tables(
        tmp_path, {"message": MESSAGE}, step(100, calls=calls, left_out=4), end='\n{"begin'
    )
    assert [row["sequence"] for row in found["collectives"]] == [9]
    assert notes == (
        "1 damaged line left out.",
        "4 collectives left out: raise tools.marks.bytes_per_step.",
        "1 collective that the file does not describe left out.",
        "1 collective without an end left out.",
    )


DAMAGED = "1 damaged line left out."


@pytest.mark.parametrize(
    ("lines", "note"),
    [
        ([step(100, calls=[[-1, 7, 60, 1]])], "1 collective that the file does not describe left"),
        ([step(2**62)], DAMAGED),
        ([step(100, calls=[[0, 7, 60]])], DAMAGED),
        ([step(100, left_out=-5)], DAMAGED),
        ([{"message": MESSAGE | {"in_elements": -8}}], DAMAGED),
        ([{"message": MESSAGE | {"group_size": 8}}], "1 collective states a group size that is"),
        ([{"message": MESSAGE | {"out_elements": 80}}], "1 collective of kind allreduce gets"),
        ([step(60)], "1 step not later than the one before: the clock was set back."),
        ([step(100, [["a", -5, 2]])], "1 phase outside of the step that it is of."),
        ([step(100, [["a", 5, 200]]), step(202)], "1 phase outside of the step that it is of."),
        ([step(100, [["a", 5, -2]])], "1 phase that ends before it begins."),
        ([step(100, [["a", 5, 9], ["b", 10, 9]])], "1 phase that ends after the phase around"),
    ],
)
def test_what_contradicts_itself_is_said(tmp_path, lines, note):
    notes, _ = tables(tmp_path, step(90), *lines)
    assert any(said.startswith(note) for said in notes), notes


@pytest.mark.parametrize("text", ["", "\x00\xff", '{"calls": 3}', "[]"])
def test_a_file_without_steps_is_refused(tmp_path, text):
    path = tmp_path / f"{LABEL}.marks.jsonl"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match="holds no step"):
        convert.run(Raw(path=path, label=LABEL, rank=1, repeat=0), tmp_path)
