"""Stacks sampled beside a trace, as tables."""

import json

import pytest

from profkit.convert.base import Raw
from profkit.convert.torch_profiler import samples
from profkit.core.errors import InputError

ROOT = "a.py(1): main;b.py(2): inner"


def raw(folder):
    path = folder / "rank0_dp0_tp0_pp0.17.pt.trace.json.gz"
    return Raw(path=path, label="rank0_dp0_tp0_pp0", rank=3, repeat=1)


def tables(given):
    read = samples.read(given)
    return samples.tables(given, read, read.turns if read else None)


def test_samples_beside_a_trace_become_rows_from_the_root(tmp_path):
    stacks = [["b.py(2): inner", "a.py(1): main"], ["a.py(3): main"]]
    content = {"tid": 7, "cost_ns": 5, "stacks": stacks, "samples": [[10, 0], [20, 1]]}
    path = tmp_path / "rank0_dp0_tp0_pp0.17.python.json"
    counts = ("cores", "ranks_on_host", "operator_threads", "cpu_ns", "queued_ns")
    usage = {"start_ns": 1, "end_ns": 30} | dict.fromkeys(counts, 2) | {"involuntary_switches": 4}
    content |= {"cpu_ns": [6, 9], "threads": [[8, 10, 1, 1]], "usage": usage}
    content |= {"queued_ns": [0, 3], "threads_queued_ns": [5]}
    content |= {"inputs": [[4, 12, 9, 16]], "labels": [[48, 12]], "repeated": [[0, 9, 3, 2, 1]]}
    path.write_text(json.dumps(content | {"pauses": [[11, 15]]}))
    of_worker = {"tid": 9, "stacks": stacks, "samples": [[4, 0], [5, 0], [6, 1]], "pauses": []}
    (tmp_path / "rank0_dp0_tp0_pp0.81.worker.json").write_text(json.dumps(of_worker))
    (tmp_path / "rank0_dp0_tp0_pp01.82.worker.json").write_text("of another rank")
    steps = tmp_path / "rank0_dp0_tp0_pp0.steps.json"
    steps.write_text(json.dumps({"steps": [[5, 40, -1, 9]]}))
    made = {name: table.to_pylist() for name, table in tables(raw(tmp_path)).items()}
    where = {"rank": 3, "repeat": 1, "tid": 7}
    assert made == {
        "python_samples": [
            {**where, "time_ns": 10, "cpu_ns": 6, "queued_ns": 0, "stack": ROOT},
            {**where, "time_ns": 20, "cpu_ns": 9, "queued_ns": 3, "stack": "a.py(3): main"},
        ],
        "between_steps": [],
        "python_threads": [
            where | {"tid": 8, "time_ns": 10, "cpu_ns": 1, "queued_ns": 5, "stack": "a.py(3): main"}
        ],
        "python_pauses": [{**where, "start_ns": 11, "end_ns": 15}],
        "sampled_steps": [{"rank": 3, "repeat": 1, "step": 0, "start_ns": 5, "end_ns": 40}],
        "processes": [{"rank": 3, "repeat": 1, **usage}],
        "padded_inputs": [
            {"rank": 3, "repeat": 1, "rows": 4, "length": 12, "longest": 9, "padding": 16}
        ],
        "given_labels": [{"rank": 3, "repeat": 1, "labels": 48, "ignored": 12}],
        "repeated_inputs": [
            {"rank": 3, "repeat": 1, "place": 0, "calls": 9, "again": 3, "across": 2, "after": 1}
        ],
        "worker_samples": [
            {"rank": 3, "repeat": 1, "pid": 81, "looks": 2, "stack": ROOT},
            {"rank": 3, "repeat": 1, "pid": 81, "looks": 1, "stack": "a.py(3): main"},
        ],
    }


def test_what_runs_between_two_steps_or_after_the_last_is_none_of_a_step(tmp_path):
    seen = [[2, 0], [10, 0], [19, 0], [20, 0], [35, 0], [40, 0], [99, 0]]
    content = {"tid": 7, "stacks": [["a.py(3): main"]], "samples": seen, "pauses": []}
    (tmp_path / "rank0_dp0_tp0_pp0.17.python.json").write_text(json.dumps(content))
    steps = tmp_path / "rank0_dp0_tp0_pp0.steps.json"
    steps.write_text(json.dumps({"steps": [[5, 20, -1, 9], [30, 40, -1, 9]]}))
    assert tables(raw(tmp_path))["python_samples"]["time_ns"].to_pylist() == [10, 19, 35]


def test_looks_between_two_steps_share_the_time_there(tmp_path):
    stacks = [["a.py(3): main"], ["b.py(4): test"], ["a.py(5): save"]]
    seen = [[2, 1], [10, 0], [21, 1], [24, 1], [29, 2], [33, 0], [41, 2], [45, 0], [99, 1]]
    content = {"tid": 7, "stacks": stacks, "samples": seen, "pauses": []}
    (tmp_path / "rank0_dp0_tp0_pp0.17.python.json").write_text(json.dumps(content))
    steps = tmp_path / "rank0_dp0_tp0_pp0.steps.json"
    times = [[5, 20, -1, 9], [30, 40, -1, 9], [43, 44, -1, 9], [44, 50, -1, 9]]
    steps.write_text(json.dumps({"steps": times}))
    found = tables(raw(tmp_path))["between_steps"].to_pylist()
    assert [(row["stack"], row["spent_ns"]) for row in found] == [
        ("b.py(4): test", 7),
        ("a.py(5): save", 3 + 3),
    ]


def test_a_trace_without_samples_has_none(tmp_path):
    assert [len(table) for table in tables(raw(tmp_path)).values()] == [0] * 10


def test_samples_of_older_captures_have_no_cpu_times(tmp_path):
    content = {"tid": 7, "stacks": [["a.py(3): main"]], "samples": [[10, 0]], "pauses": []}
    (tmp_path / "rank0_dp0_tp0_pp0.17.python.json").write_text(json.dumps(content))
    made = tables(raw(tmp_path))
    assert made["python_samples"]["cpu_ns"].to_pylist() == [-1]
    assert made["python_samples"]["queued_ns"].to_pylist() == [-1]
    assert len(made["python_threads"]) == len(made["processes"]) == 0


@pytest.mark.parametrize(
    "text", ["{", '{"tid": 7, "stacks": [], "samples": [[1, 0]], "pauses": []}']
)
def test_damaged_samples_are_named(tmp_path, text):
    (tmp_path / "rank0_dp0_tp0_pp0.17.python.json").write_text(text)
    with pytest.raises(InputError, match=r"python\.json: not samples of profkit"):
        tables(raw(tmp_path))
