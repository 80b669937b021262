import json
from dataclasses import replace

import pandas as pd
import pytest
import torch
from torch.profiler import ProfilerActivity, profile, record_function

from profkit.analyze import operators
from profkit.analyze._operator_sums import sums_of_ranks
from profkit.tables import schema

US = 1000
DEFAULT = operators.Config()


def run(config=DEFAULT, **tables):
    names = ("cpu_ops", "runtime_calls", "kernels", "memory_events")
    given = {name: tables.get(name, schema.frame(name)) for name in names}
    return operators.analyze.run(**given, config=config)


def rows(result, key, *columns):
    table = result.tables[key]
    indices = [table.columns.index(column) for column in columns]
    return [tuple(row[index] for index in indices) for row in table.rows]


def op(index, name, when, self_ns, **rest):
    where = {"rank": 0, "repeat": 0, "tid": 1, "kind": "operator", "step": 0}
    times = {"start_ns": when[0], "end_ns": when[1], "self_ns": self_ns}
    return where | {"op": index, "name": name} | times | rest


def test_calls_and_times_are_summed_by_name():
    ops = schema.frame(
        "cpu_ops",
        [
            op(0, "aten::linear", (0, 100), 30),
            op(1, "aten::t", (10, 30), 20, parent=0),
            op(2, "aten::addmm", (40, 90), 50, parent=0),
            op(0, "aten::t", (0, 7), 7, rank=1),
        ],
    )
    result = run(cpu_ops=ops)
    columns = ("name", "calls", "calls_per_step", "self_cpu_ns", "total_cpu_ns", "flops")
    assert rows(result, "by_name", *columns) == [
        ("aten::addmm", 1, 0.5, 50, 50, None),
        ("aten::linear", 1, 0.5, 30, 100, None),
        ("aten::t", 2, 1.0, 27, 27, None),
    ]
    assert result.metrics["self_cpu_per_step_ns"].value == 107 / 2


def test_an_operator_has_the_line_of_the_program_that_spends_most_in_it():
    slow = "train.py(7): fit;Linear_0;torch/nn/functional.py(9): linear"
    fast = "train.py(8): fit;<built-in function linear>"
    ops = schema.frame(
        "cpu_ops",
        [
            op(0, "aten::mm", (0, 50), 50, stack=slow),
            op(1, "aten::mm", (50, 60), 10, stack=fast),
            op(2, "aten::mm", (60, 70), 10, stack=fast),
            op(3, "aten::add", (70, 71), 1),
        ],
    )
    result = run(cpu_ops=ops)
    assert rows(result, "by_name", "name", "line") == [
        ("aten::mm", "train.py(7): fit"),
        ("aten::add", ""),
    ]
    without = schema.frame("cpu_ops", [op(0, "aten::add", (70, 71), 1)])
    assert "line" not in run(cpu_ops=without).tables["by_name"].columns


def test_an_only_child_of_the_same_name_is_part_of_its_parent():
    ops = schema.frame(
        "cpu_ops",
        [
            op(0, "aten::to", (0, 100), 10),
            op(1, "aten::to", (5, 95), 20, parent=0),
            op(2, "aten::to", (6, 76), 40, parent=1),
            op(3, "aten::copy_", (10, 40), 30, parent=2),
        ],
    )
    assert rows(run(cpu_ops=ops), "by_name", "name", "calls", "self_cpu_ns", "total_cpu_ns") == [
        ("aten::to", 1, 70, 100),
        ("aten::copy_", 1, 30, 30),
    ]


def test_ranks_that_are_summed_apart_give_what_they_give_together():
    ops = schema.frame(
        "cpu_ops",
        [
            op(0, "aten::mm", (0, 50), 50, stack="train.py(7): fit") | {"rank": rank, "step": rank}
            for rank in range(3)
        ]
        + [
            op(1, name, (50, 60 + rank), 10 + rank) | {"rank": rank}
            for rank in (1, 2)
            for name in ("aten::add", "aten::mul")
        ],
    )
    names = ("cpu_ops", "runtime_calls", "kernels", "memory_events")
    given = {name: ops if name == "cpu_ops" else schema.frame(name) for name in names}
    config = operators.Config()
    mapped = {
        str(rank): sums_of_ranks(
            **given | {"cpu_ops": ops[ops["rank"] == rank].reset_index(drop=True)}, config=config
        )
        for rank in range(3)
    }
    together = operators.analyze.run(**given, config=config)
    assert operators.analyze.run(mapped=mapped, config=config) == together
    assert rows(together, "by_name", "name", "calls", "self_cpu_ns", "line") == [
        ("aten::mm", 3, 150, "train.py(7): fit"),
        ("aten::add", 2, 23, ""),
        ("aten::mul", 2, 23, ""),
    ]


def test_a_runtime_call_is_a_row_and_a_child():
    ops = schema.frame(
        "cpu_ops", [op(0, "aten::to", (0, 100), 5), op(1, "aten::to", (5, 95), 90, parent=0)]
    )
    calls = schema.frame(
        "runtime_calls",
        [
            {"rank": 0, "repeat": 0, "name": "cudaMalloc", "start_ns": 0, "end_ns": 5}
            | {"op": 0, "step": 0}
        ],
    )
    columns = ("name", "kind", "calls", "self_cpu_ns", "total_cpu_ns")
    assert rows(run(cpu_ops=ops, runtime_calls=calls), "by_name", *columns) == [
        ("aten::to", "operator", 2, 95, 190),
        ("cudaMalloc", "runtime", 1, 5, 5),
    ]


def test_an_asynchronous_range_has_no_self_time_and_encloses_nothing():
    ops = schema.frame(
        "cpu_ops",
        [
            op(0, "c10d::allreduce_", (0, 100), 30),
            op(1, "nccl:all_reduce", (10, 80), 50, parent=0, kind="annotation"),
            op(2, "aten::empty", (20, 40), 20, parent=1),
            op(3, "gloo:all_reduce", (0, 500), 500, tid=9, kind="annotation"),
        ],
    )
    assert rows(run(cpu_ops=ops), "by_name", "name", "self_cpu_ns", "total_cpu_ns") == [
        ("c10d::allreduce_", 80, 100),
        ("aten::empty", 20, 20),
        ("nccl:all_reduce", 0, 70),
        ("gloo:all_reduce", 0, 500),
    ]


def test_device_time_and_memory_belong_to_the_operator_and_what_encloses_it():
    ops = schema.frame(
        "cpu_ops", [op(0, "outer", (0, 100), 60), op(1, "inner", (10, 50), 40, parent=0)]
    )
    where = {"rank": 0, "repeat": 0}
    kernels = schema.frame(
        "kernels",
        [
            where | {"name": "k", "start_ns": 200, "end_ns": 230, "op": 1},
            where | {"name": "k", "start_ns": 210, "end_ns": 220, "op": 0},
            where | {"name": "k", "start_ns": 300, "end_ns": 400, "op": -1},
        ],
    )
    memory = schema.frame(
        "memory_events",
        [
            where | {"time_ns": 20, "device": "cpu", "size_bytes": 64, "op": 1},
            where | {"time_ns": 60, "device": "cpu", "size_bytes": -24, "op": 0},
            where | {"time_ns": 60, "device": "cuda:0", "size_bytes": 512, "op": 0},
            where | {"time_ns": 101, "device": "cpu", "size_bytes": -40, "op": -1},
        ],
    )
    result = run(cpu_ops=ops, kernels=kernels, memory_events=memory)
    times = ("name", "self_device_ns", "total_device_ns")
    assert rows(result, "by_name", *times) == [
        ("inner", 30, 30),
        ("outer", 10, 40),
        ("[memory]", 0, 0),
    ]
    sizes = ("self_cpu_bytes", "total_cpu_bytes", "self_device_bytes", "total_device_bytes")
    assert rows(result, "by_name", "calls", *sizes) == [
        (1, 64, 64, 0, 0),
        (1, -24, 40, 512, 512),
        (1, -40, -40, 0, 0),
    ]
    assert [chart.table for chart in result.charts] == ["by_name", "by_name"]


def test_shapes_tell_calls_apart_and_give_flops():
    ops = schema.frame(
        "cpu_ops",
        [
            op(0, "aten::mm", (0, 10), 10, input_shapes="[[2, 3], [3, 4]]"),
            op(1, "aten::mm", (10, 30), 20, input_shapes="[[2, 3], [3, 5]]"),
            op(2, "aten::cat", (30, 35), 5, input_shapes="[[[2], [3]], []]"),
            op(3, "aten::relu", (40, 44), 4, input_shapes="[[7]]"),
        ],
    )
    result = run(cpu_ops=ops)
    assert rows(result, "by_shape", "name", "input_shapes", "self_cpu_ns", "flops") == [
        ("aten::mm", "[[2, 3], [3, 5]]", 20, 60.0),
        ("aten::mm", "[[2, 3], [3, 4]]", 10, 48.0),
        ("aten::cat", "[[], []]", 5, None),
        ("aten::relu", "[[7]]", 4, None),
    ]
    assert rows(result, "by_name", "name", "flops")[0] == ("aten::mm", 108.0)
    assert result.metrics["flops_per_step"].value == 108.0


def test_only_the_most_costly_rows_are_kept_and_the_table_says_so():
    ops = schema.frame("cpu_ops", [op(0, "a", (0, 5), 5), op(1, "b", (5, 7), 2)])
    table = run(replace(DEFAULT, max_rows=1), cpu_ops=ops).tables["by_name"]
    assert [row[0] for row in table.rows] == ["a"]
    assert table.note.endswith("The first 1 of 2 rows.")


def test_what_was_not_recorded_is_said():
    ops = schema.frame("cpu_ops", [op(0, "a", (0, 5), 5, step=-1)])
    result = run(cpu_ops=ops)
    assert [abstention.what for abstention in result.abstentions] == [
        "FLOPs, and costs by shape",
        "memory of operators",
        "costs per step",
    ]
    assert result.metrics == {}
    assert run().abstentions[0].what == "operators"


def train(steps):
    """Run a small model with nested, repeated, in-place and hand-marked operators."""
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(),
        torch.nn.Flatten(), torch.nn.Linear(8 * 36, 10),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters())
    with profile(
        activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True, with_flops=True
    ) as profiler:
        for _ in range(steps):
            with record_function("forward"):
                loss = model(torch.rand(4, 3, 8, 8)).double().sum()
            with record_function("backward"):
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            profiler.step()
    return profiler


@pytest.fixture(scope="module")
def capture(tmp_path_factory, converted):
    """Return PyTorch's own averages and our tables of the same capture."""
    profiler = train(5)
    path = tmp_path_factory.mktemp("capture") / "rank0_dp0_tp0_pp0.1.pt.trace.json"
    profiler.export_chrome_trace(str(path))
    return profiler, converted(path)


def close(ours, theirs):
    return abs(ours - theirs) <= 0.01 * abs(theirs) + 0.05 * US


def test_operators_equals_key_averages(capture):
    profiler, tables = capture
    ours = {row[:2]: row[2:] for row in key_rows(tables, "by_name", ["name", "kind"])}
    theirs = {(average.key, kind(average)): average for average in profiler.key_averages()}
    assert {key: row[0] for key, row in ours.items()} == {
        key: average.count for key, average in theirs.items()
    }
    for key, average in theirs.items():
        _, self_cpu, total_cpu, self_bytes, total_bytes, flops = ours[key]
        assert close(self_cpu, average.self_cpu_time_total * US), key
        assert close(total_cpu, average.cpu_time_total * US), key
        assert self_bytes == average.self_cpu_memory_usage, key
        assert total_bytes == average.cpu_memory_usage, key
        assert (flops or 0) == average.flops, key


def test_operators_by_shape_equal_key_averages_by_shape(capture):
    profiler, tables = capture
    ours = {row[:2]: row[2:] for row in key_rows(tables, "by_shape", ["name", "input_shapes"])}
    theirs = {
        (average.key, json.dumps(average.input_shapes) if average.input_shapes else ""): average
        for average in profiler.key_averages(group_by_input_shape=True)
        if kind(average) == "operator"
    }
    assert {key: row[0] for key, row in ours.items()} == {
        key: average.count for key, average in theirs.items()
    }
    for key, average in theirs.items():
        assert close(ours[key][1], average.self_cpu_time_total * US), key
        assert close(ours[key][2], average.cpu_time_total * US), key


def key_rows(tables, key, keys):
    names = ("cpu_ops", "runtime_calls", "kernels", "memory_events")
    config = replace(DEFAULT, max_rows=100_000)
    result = run(config, **{name: tables[name] for name in names})
    measures = ("calls", "self_cpu_ns", "total_cpu_ns", "self_cpu_bytes", "total_cpu_bytes")
    return rows(result, key, *keys, *measures, "flops")


def kind(average):
    if average.key == "[memory]":
        return "memory"
    return "annotation" if average.is_user_annotation else "operator"


def test_tables_are_left_as_they_were(capture):
    _, tables = capture
    before = {name: table.copy(deep=True) for name, table in tables.items()}
    key_rows(tables, "by_name", ["name"])
    for name, table in tables.items():
        pd.testing.assert_frame_equal(table, before[name])
