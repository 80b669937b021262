import json
from functools import partial

import pytest

from profkit import testing
from profkit.analyze import breakdown
from profkit.testing import ORIGIN_NS

WHERE = {"rank": 0, "repeat": 0, "step": 0}
COLUMNS = ("kernel", "copy", "set", "communication", "runtime", "data_loading", "other_cpu", "idle")


def span(start, end, **rest):
    return WHERE | {"start_ns": ORIGIN_NS + start, "end_ns": ORIGIN_NS + end} | rest


def op(name, start, end, kind="operator", **rest):
    return span(start, end, name=name, kind=kind) | rest


run = partial(testing.run, breakdown.analyze, skip_first=0)


def parts(result):
    table = result.tables["parts"]
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    for row in rows:
        known = [row[f"{name}_ns"] for name in COLUMNS if f"{name}_ns" in row]
        assert sum(known) == row["step_time_ns"]
    return [{key.removesuffix("_ns"): value for key, value in row.items()} for row in rows]


def test_every_instant_belongs_to_the_first_category_that_is_active():
    (row,) = parts(
        run(
            steps=[span(0, 100)],
            cpu_ops=[
                op("ProfilerStep#0", 0, 100, kind="annotation"),
                op("enumerate(DataLoader)#_It.__next__", 5, 30, kind="annotation"),
                op("aten::mm", 20, 90),
                op("aten::late", 95, 200),
            ],
            kernels=[
                span(10, 20, kind="compute"),
                span(15, 30, kind="compute"),
                span(25, 40, kind="copy"),
                span(38, 42, kind="set"),
                span(28, 60, kind="communication"),
            ],
            runtime_calls=[span(0, 12), span(55, 65)],
        )
    )
    assert row == {
        "rank": 0, "repeat": 0, "step": 0, "step_time": 100,
        "kernel": 20, "copy": 10, "set": 2, "communication": 18, "runtime": 15,
        "data_loading": 0, "other_cpu": 30, "idle": 5, "exposed_communication": 30,
        "hidden_communication": 2, "hidden_copy": 5,
    }  # fmt: skip


def test_on_a_cpu_there_are_host_categories_only():
    result = run(
        steps=[span(0, 100)],
        cpu_ops=[
            op("data", 0, 10, kind="annotation"),
            op("backward", 10, 80, kind="annotation"),
            op("aten::mm", 20, 50),
            op("gloo:all_reduce", 40, 70, kind="annotation", tid=9),
            op("Optimizer.step#AdamW.step", 85, 95, kind="annotation"),
        ],
    )
    assert parts(result) == [
        {"rank": 0, "repeat": 0, "step": 0, "step_time": 100}
        | {"communication": 30, "data_loading": 10, "other_cpu": 30, "idle": 30}
        | {"exposed_communication": 20, "hidden_communication": 10}
    ]
    assert [abstention.what for abstention in result.abstentions] == ["kernels, copies and sets"]


def test_a_step_lasts_until_its_device_work_is_done_and_the_next_begins_there():
    given = {
        "steps": [span(0, 50), span(50, 100, step=1), span(100, 150, step=2)],
        "cpu_ops": [op("aten::mm", 0, 10)],
        "kernels": [
            span(10, 70, kind="compute"),
            span(70, 90, kind="compute", step=1),
            span(120, 170, kind="compute", step=2),
        ],
    }
    device = [(row["step_time"], row["kernel"]) for row in parts(run(**given))]
    assert device == [(70, 60), (30, 20), (70, 50)]
    host = [(row["step_time"], row["kernel"]) for row in parts(run(**given, window="host"))]
    assert host == [(50, 40), (50, 40), (50, 30)]


def test_ranks_and_repeats_are_kept_apart():
    result = run(
        steps=[span(0, 10), span(0, 20, rank=1), span(0, 10, repeat=1)],
        cpu_ops=[op("a", 0, 10), op("a", 0, 5, rank=1), op("a", 0, 5, repeat=1)],
    )
    assert [(row["step_time"], row["other_cpu"]) for row in parts(result)] == [
        (10, 10), (10, 5), (20, 5),
    ]  # fmt: skip
    assert result.metrics["other_cpu_share"].value == 0.5
    shares = result.tables["shares"]
    index = shares.columns.index("other_cpu_share")
    assert [(row[0], row[index]) for row in shares.rows] == [("all", 0.5), ("0", 0.75), ("1", 0.25)]


def test_warm_up_steps_are_left_out_as_long_as_others_remain():
    steps = [span(0, 10), span(10, 15, step=1)]
    ops = [op("a", 0, 15)]
    assert [row["step"] for row in parts(run(steps=steps, cpu_ops=ops, skip_first=1))] == [1]
    assert [row["step"] for row in parts(run(steps=steps, cpu_ops=ops, skip_first=5))] == [0, 1]


def test_without_steps_the_whole_capture_is_one_window():
    result = run(cpu_ops=[op("a", 10, 20), op("a", 40, 50)])
    assert parts(result)[0] == {
        "rank": 0, "repeat": 0, "step": -1, "step_time": 40, "communication": 0,
        "data_loading": 0, "other_cpu": 20, "idle": 20, "exposed_communication": 0,
        "hidden_communication": 0,
    }  # fmt: skip
    assert result.abstentions[0].reason.startswith("no step was marked")


def test_steps_of_another_capture_are_not_believed():
    result = run(steps=[span(10_000, 10_100)], cpu_ops=[op("a", 10, 20)])
    assert [row["step_time"] for row in parts(result)] == [10]
    assert result.abstentions[0].reason.startswith("the steps are those of another capture")


def test_nothing_recorded_is_said():
    assert run(steps=[span(0, 10)]).abstentions[0].what == "the parts of a step"


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("resnet50_num_workers_0/worker0.1623143089861.pt.trace.json.gz", 0),
        ("resnet50_num_workers_4/worker0.1623212756351.pt.trace.json.gz", 5),
    ],
)
def test_parts_equal_those_of_the_tensorboard_plugin(real_data, converted, name, line):
    folder = real_data / "kineto" / "tensorboard"
    checks = (folder / "result_check_file.txt").read_text().splitlines()
    expected = {row[0]: row[1::2] for row in json.loads(checks[line])["steps"]["rows"]}
    tables = converted(folder / name)
    names = ("steps", "cpu_ops", "kernels", "runtime_calls")
    result = breakdown.analyze.run(
        **{name: tables[name] for name in names}, config=breakdown.Config()
    )
    shown = [column for column in COLUMNS if column != "communication"]
    ours = {str(row["step"]): [row[column] for column in shown] for row in parts(result)}
    assert set(ours) == set(expected)
    for step, values in expected.items():
        # The plugin shows whole microseconds.
        assert [abs(a / 1000 - b) <= 1 for a, b in zip(ours[step], values, strict=True)] == [
            True
        ] * len(values)
