"""A capture that the test makes, as tables."""

import json
from dataclasses import replace

import pyarrow as pa
import pytest
import torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule

from profkit.convert.base import Raw
from profkit.convert.torch_profiler import convert


@pytest.fixture(scope="module")
def capture(tmp_path_factory):
    """Return a profiler that has run three steps, and its trace."""
    path = tmp_path_factory.mktemp("capture") / "rank0_dp0_tp0_pp0.1.pt.trace.json"
    model = torch.nn.Linear(8, 8)
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=0, warmup=1, active=3, repeat=1),
        acc_events=True,
        record_shapes=True,
        profile_memory=True,
    ) as profiler:
        for _ in range(4):
            with record_function("forward"):
                loss = model(torch.ones(4, 8)).sum()
            loss.backward()
            profiler.step()
    profiler.export_chrome_trace(str(path))
    raw = Raw(path=path, label="rank0_dp0_tp0_pp0", rank=0, repeat=2)
    converted = convert.run(raw, path.parent)
    tables = {name: pa.concat_tables(chunks) for name, chunks in converted.tables.items()}
    return profiler, json.loads(path.read_text()), replace(converted, tables=tables)


def test_the_table_has_every_operator_of_the_trace(capture):
    _, trace, converted = capture
    written = [e for e in trace["traceEvents"] if e.get("cat") in ("cpu_op", "user_annotation")]
    ops = converted.tables["cpu_ops"].to_pandas()
    assert len(ops) == len(written)
    assert converted.notes == ()
    assert (ops["rank"].unique().tolist(), ops["repeat"].unique().tolist()) == ([0], [2])


@pytest.mark.parametrize(
    ("timed", "expected"),
    [(4, [1, 2, 3]), (3, [1, 2]), (0, [])],
    ids=["all", "the last one did not end", "none did"],
)
def test_what_a_program_does_after_its_last_step_is_none(capture, tmp_path, timed, expected):
    _, trace, _ = capture
    raw = Raw(path=tmp_path / "rank0_x.1.pt.trace.json", label="rank0_x", rank=0, repeat=0)
    raw.path.write_text(json.dumps(trace))
    clock = {"schema_version": 1, "steps": [[0, 1, -1, -1]] * timed}
    (tmp_path / "rank0_x.steps.json").write_text(json.dumps(clock))
    tables = convert.run(raw, tmp_path).tables
    (steps,), (ops,) = tables["steps"], tables["cpu_ops"]
    assert steps.column("step").to_pylist() == expected
    assert {*ops.column("step").to_pylist()} <= {-1, *expected}


@pytest.mark.parametrize(
    ("optimizers", "updates", "steps"),
    [(["SGD"], 5, 4), (["SGD"], 2, 0), (["SGD", "Adam"], 5, 0)],
    ids=["one", "too few", "of two optimizers"],
)
def test_where_no_step_was_marked_they_go_from_one_update_to_the_next(
    tmp_path, optimizers, updates, steps
):
    model = torch.nn.Linear(8, 8)
    made = [getattr(torch.optim, name)(model.parameters()) for name in optimizers]
    with profile(activities=[ProfilerActivity.CPU], acc_events=True) as profiler:
        for _ in range(updates):
            model(torch.ones(4, 8)).sum().backward()
            for optimizer in made:
                optimizer.step()
    path = tmp_path / "rank0_x.1.pt.trace.json"
    profiler.export_chrome_trace(str(path))
    found = convert.run(Raw(path=path, label="rank0_x", rank=0, repeat=0), tmp_path)
    table = pa.concat_tables(found.tables["steps"])
    assert table.column("step").to_pylist() == [*range(steps)]
    begin, end = (table.column(name).to_pylist() for name in ("start_ns", "end_ns"))
    assert begin[1:] == end[:-1]
    note = f"No step was marked: {steps} steps, from one update of weights on, were taken."
    assert (note in found.notes) == bool(steps)


def test_times_are_those_of_key_averages(capture):
    profiler, _, converted = capture
    ops = converted.tables["cpu_ops"].to_pandas().set_index("op")
    ops["total_ns"] = ops["end_ns"] - ops["start_ns"]
    ops["key"] = (
        ops["name"].astype(str).str.replace(r"ProfilerStep#\d+", "ProfilerStep*", regex=True)
    )
    # PyTorch joins an operator with an only child of the same name.
    siblings = ops.groupby("parent")["key"].transform("size")
    again = (ops["parent"].map(ops["key"]) == ops["key"]) & (siblings == 1)
    for average in profiler.key_averages():
        if average.key == "[memory]":
            continue
        rows = ops[ops["key"] == average.key]
        counted = rows[~again[rows.index]]
        assert len(counted) == average.count
        assert counted["total_ns"].sum() / 1000 == pytest.approx(average.cpu_time_total, rel=0.01)
        assert rows["self_ns"].sum() / 1000 == pytest.approx(
            average.self_cpu_time_total, rel=0.01, abs=0.01
        )


def test_steps_and_memory_are_there(capture):
    _, trace, converted = capture
    assert converted.tables["steps"].column("step").to_pylist() == [1, 2, 3]
    memory = [e for e in trace["traceEvents"] if e["name"] == "[memory]"]
    table = converted.tables["memory_events"].to_pandas()
    assert len(table) == len(memory)
    assert table["size_bytes"].sum() == sum(event["args"]["Bytes"] for event in memory)
    assert set(table["device"]) == {"cpu"}
