"""One step by all tools, on a clock that begins with it."""

from functools import partial

import pytest

from profkit import testing
from profkit.analyze.step_view import Config, analyze
from profkit.tables import schema
from profkit.testing import rows

WHERE = {"rank": 0, "repeat": 0}
BEGIN = 1_795_000_000_000_000_001


def frame(table, *rows):
    return schema.frame(table, [{**WHERE, **row} for row in rows])


def span(start, end, **more):
    return {"start_ns": BEGIN + start, "end_ns": BEGIN + end, **more}


run = partial(testing.run, analyze)


STEPS = {
    "system": frame("steps", span(0, 50, step=3), span(100, 200, step=4), span(200, 300, step=5)),
    "torch_profiler": frame("steps", span(7000, 7150, step=4)),
}


def test_each_tool_is_on_the_clock_of_its_own_step():
    sampled = [
        {"time_ns": BEGIN + at, "device": "gpu0", "metric": metric, "kind": kind}
        | {"value": value, "unit": unit}
        for at, metric, kind, value, unit in [
            (50, "energy_j", "counter", 10.0, "j"),
            (150, "energy_j", "counter", 30.0, "j"),
            (150, "power_w", "level", 300.0, "w"),
            (250, "power_w", "level", 400.0, "w"),
        ]
    ]
    result = run(
        steps=STEPS,
        annotations={
            "system": frame(
                "annotations",
                span(110, 140, name="forward", kind="host"),
                span(140, 190, name="other", kind="host"),
            ),
            "torch_profiler": frame(
                "annotations",
                span(7000, 7010, name="forward", kind="host"),
                span(7020, 7090, name="forward", kind="device"),
            ),
        },
        kernels={
            "torch_profiler": frame(
                "kernels",
                span(7140, 7190, name="gemm", kind="compute", stream=7),
                span(7150, 7190, name="later", kind="compute", stream=7),
            )
        },
        samples={"system": frame("samples", *sampled)},
        memory_events={
            "torch_profiler": frame(
                "memory_events",
                {"time_ns": BEGIN + 7030, "device": "cuda:0", "allocated_bytes": 5},
                {"time_ns": BEGIN + 7040, "device": "cuda:0", "allocated_bytes": 9},
                {"time_ns": BEGIN + 7050, "device": "cuda:0", "allocated_bytes": 6},
            )
        },
    )
    found = {tuple(list(row.values())[:5]): row["value"] for row in rows(result, "timeline")}
    assert found == {
        ("system", "step", "step", 0, 100): None,
        ("system", "phase", "forward", 10, 40): None,
        ("torch_profiler", "step", "step", 0, 150): None,
        ("torch_profiler", "phase", "forward", 20, 90): None,
        ("torch_profiler", "kernel", "gemm", 140, 150): 7,
        ("torch_profiler", "memory", "cuda:0 most allocated", 40, 40): 9,
    }
    assert [list(row.values()) for row in rows(result, "samples")] == [
        ["system", "gpu0 energy_j (j_per_s)", 50, pytest.approx(20 / 100e-9)],
        ["system", "gpu0 power_w (w)", 50, 300],
    ]
    assert result.abstentions == ()


def test_the_shortest_kernels_are_left_out_before_anything_else():
    kernels = [
        span(7000 + at, 7000 + at + length, name=f"k{length}", kind="compute", stream=7)
        for at, length in [(0, 1), (10, 5), (20, 3)]
    ]
    peak = {"time_ns": BEGIN + 7030, "device": "cuda:0", "allocated_bytes": 5}
    given = dict.fromkeys(("annotations", "samples")) | {
        "steps": {"torch_profiler": STEPS["torch_profiler"]},
        "kernels": {"torch_profiler": frame("kernels", *kernels)},
        "memory_events": {"torch_profiler": frame("memory_events", peak)},
    }
    result = analyze.run(**given, config=Config(max_rows=4))
    shown = [row["name"] for row in rows(result, "timeline")]
    assert shown == ["step", "k5", "k3", "cuda:0 most allocated"]


def test_of_many_readings_every_so_many_of_each_series_are_kept():
    readings = [
        {"time_ns": BEGIN + 100 + at, "device": "gpu0", "metric": metric, "kind": "level"}
        | {"value": float(at), "unit": "w"}
        for at in range(10)
        for metric in ("a", "b")
    ]
    given = dict.fromkeys(("annotations", "kernels", "memory_events")) | {"steps": STEPS}
    given["samples"] = {"system": frame("samples", *readings)}
    result = analyze.run(**given, config=Config(max_rows=6, step=4))
    assert [(row["series"], row["time_ns"]) for row in rows(result, "samples")] == [
        *(("gpu0 a (w)", at) for at in (0, 4, 8)),
        *(("gpu0 b (w)", at) for at in (0, 4, 8)),
    ]


def test_what_no_tool_recorded_is_said():
    assert [abstention.what for abstention in run(steps=STEPS).abstentions] == [
        f"{source} rows of the step" for source in ("phase", "kernel", "sample", "memory")
    ]
