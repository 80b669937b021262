"""A capture that the test makes, as tables."""

import json
import runpy
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


TRACE = "rank0_x.1.pt.trace.json"


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
    table, notes = steps_of(profiler, tmp_path)
    assert table.column("step").to_pylist() == [*range(steps)]
    begin, end = (table.column(name).to_pylist() for name in ("start_ns", "end_ns"))
    assert begin[1:] == end[:-1]
    note = f"No step was marked: {steps} steps, from one update of weights to the next, were taken."
    assert (note in notes) == bool(steps)


PREFILL, DECODE, EMPTY = (
    f"execute_context_{batch}"
    for batch in ("2(64)_generation_0(0)", "0(0)_generation_2(2)", "0(0)_generation_0(0)")
)
DESCRIBED = "execute_8_context_0(sq0sk0sqsq0sqsk0)_generation_8(sq8sk80sqsq8sqsk80)"


@pytest.mark.parametrize(
    ("ranges", "begun"),
    [
        ([PREFILL, DECODE, DECODE, DECODE], [0, 1, 2]),
        ([DECODE, EMPTY, DECODE, DECODE], [0, 2]),
        ([DESCRIBED] * 3, [0, 1]),
        (["step[EXTEND bs=2 toks=64]", "step[DECODE bs=2]", "step[DECODE bs=2]"], [0, 1]),
        ([DECODE] * 2, []),
        (["step[loss]"] * 3, []),
    ],
    ids=["vLLM", "without a batch", "described", "SGLang", "too few", "a program's own"],
)
def test_the_steps_of_a_server_go_from_one_batch_to_the_next(tmp_path, ranges, begun):
    model = torch.nn.Linear(8, 8)
    with profile(activities=[ProfilerActivity.CPU], acc_events=True) as profiler:
        for name in ranges:
            with record_function(name):
                model(torch.ones(4, 8))
            model(torch.ones(4, 8))
    table, notes = steps_of(profiler, tmp_path)
    trace = json.loads((tmp_path / TRACE).read_text())
    events = [event for event in trace["traceEvents"] if event.get("cat") == "user_annotation"]
    events = sorted((event for event in events if event["name"] in ranges), key=start_of)
    assert len(events) == len(ranges)
    expected = [(events[number], events[number + 1]) for number in begun]
    lasting = [(end["ts"] - begin["ts"]) * 1000 for begin, end in expected]
    rows = table.to_pylist()
    assert [row["end_ns"] - row["start_ns"] for row in rows] == pytest.approx(lasting, abs=2)
    note = f"{len(begun)} steps, from one batch of a server to the next, were taken."
    assert any(note in each for each in notes) == bool(begun)


RUNNERS = {
    "vllm/v1/worker/gpu_model_runner.py": "execute_model",
    "sglang/srt/managers/tp_worker.py": "forward_batch_generation",
    "mine/model_runner.py": "execute_model",
}


@pytest.mark.parametrize(("file", "steps"), [*zip(RUNNERS, (3, 3, 0), strict=True)])
def test_without_ranges_the_functions_of_a_server_tell_its_steps(tmp_path, file, steps):
    runner = tmp_path / file
    runner.parent.mkdir(parents=True)
    inner = f"def {RUNNERS[file]}(model, deeper=True):\n    if deeper:\n        "
    runner.write_text(f"{inner}{RUNNERS[file]}(model, False)\n    return model\n")
    act = runpy.run_path(str(runner))[RUNNERS[file]]
    with profile(activities=[ProfilerActivity.CPU], with_stack=True) as profiler:
        for _ in range(4):
            act(torch.ones(8) + 1)
    table, _ = steps_of(profiler, tmp_path)
    assert table.column("step").to_pylist() == [*range(steps)]


def start_of(event):
    return event["ts"]


def steps_of(profiler, folder):
    """Return the steps of a recording, converted, and the notes on it."""
    path = folder / TRACE
    profiler.export_chrome_trace(str(path))
    found = convert.run(Raw(path=path, label="rank0_x", rank=0, repeat=0), folder)
    return pa.concat_tables(found.tables["steps"]), found.notes


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
