"""Time, memory and FLOPs along the tree of nn.Modules."""

import gzip
import json
from collections import Counter

import pytest

from profkit.analyze.modules import Config, analyze
from profkit.tables.schema import frame

WHERE = {"rank": 0, "repeat": 0, "step": 0}
NET, LINEAR = "Net_0", "Net_0;Linear_0"


def rows(table, *given):
    return frame(table, [WHERE | row for row in given])


def span(start, end, **columns):
    return {"start_ns": start, "end_ns": end} | columns


def result(**changed):
    """Analyse one step of Net > Linear: forward, backward, and an optimizer outside of both."""
    tables = {
        "python_calls": rows(
            "python_calls",
            span(0, 100, call=0, caller=-1, name=NET, kind="module", module=NET),
            span(5, 90, call=1, caller=0, name="f", kind="function", module=NET),
            span(10, 70, call=2, caller=1, name="Linear_0", kind="module", module=LINEAR),
        ),
        "cpu_ops": rows(
            "cpu_ops",
            span(20, 60, op=0, name="aten::linear", module=LINEAR, phase="forward", forward=-1),
            span(30, 50, op=1, parent=0, name="aten::addmm", module=LINEAR, phase="forward")
            | {"input_shapes": "[[4],[2,3],[3,4]]"},
            span(200, 300, op=2, name="AddmmBackward0", module=LINEAR, phase="backward", forward=1),
            span(210, 220, op=3, parent=2, name="aten::mm", module=LINEAR, phase="backward")
            | {"input_shapes": "[[2,4],[4,3]]", "forward": 1},
            span(400, 450, op=4, name="aten::add_", phase="optimizer"),
        ),
        "kernels": rows(
            "kernels",
            span(100, 140, op=1, kind="compute", module=LINEAR, phase="forward"),
            span(140, 150, op=-1, kind="compute", module=NET, phase="forward"),
            span(300, 390, op=3, kind="compute", module=LINEAR, phase="backward"),
            span(460, 520, op=4, kind="compute", phase="optimizer"),
        ),
        "memory_events": rows(
            "memory_events",
            {"op": 1, "device": "cuda:0", "size_bytes": 512},
            {"op": 1, "device": "cuda:0", "size_bytes": -128},
            {"op": 1, "device": "cpu", "size_bytes": 64},
            {"op": 3, "device": "cuda:0", "size_bytes": 256},
        ),
    }
    return analyze.run(**(tables | changed), config=Config())


def test_each_module_has_what_ran_inside_forward_and_backward():
    found = result()
    table = found.tables["by_module"]
    assert table.columns == (
        *("module", "calls", "cpu_ns", "own_cpu_ns", "device_ns", "own_device_ns"),
        *("forward_cpu_ns", "backward_cpu_ns", "forward_device_ns", "backward_device_ns"),
        *("allocated_bytes", "kept_bytes", "forward_flops", "backward_flops"),
    )
    assert table.rows == (
        (NET, 1, 200, 40, 140, 10, 100, 100, 50, 90, 512, 384, 48, 48),
        (LINEAR, 1, 160, 160, 130, 130, 60, 100, 40, 90, 512, 384, 48, 48),
    )
    assert found.tables["by_class"].rows == (("Linear", 1, 160, 130), ("Net", 1, 40, 10))
    assert found.metrics["attributed_share"].value == pytest.approx(140 / 200)
    assert not found.abstentions


def test_without_modules_it_abstains():
    found = result(python_calls=frame("python_calls"))
    assert [abstention.what for abstention in found.abstentions] == ["modules"]


def test_numbers_are_means_over_the_steps_of_a_rank():
    calls = [
        span(10 * step, 10 * step + 4, call=step, kind="module", module=NET) | {"step": step}
        for step in range(4)
    ]
    nothing = {name: frame(name) for name in ("cpu_ops", "kernels", "memory_events")}
    table = result(python_calls=rows("python_calls", *calls), **nothing).tables["by_module"]
    assert table.rows == ((NET, 1, 4, 4, 4),)


def _innermost(modules, launch):
    inside = [
        module
        for module in modules
        if module["tid"] == launch["tid"]
        and module["ts"] <= launch["ts"] < module["ts"] + module["dur"]
    ]
    name = max(inside, key=lambda module: module["ts"])["name"] if inside else ""
    return name.removeprefix("nn.Module: ").rpartition("_")[0]


@pytest.mark.parametrize("part", ["h100", "mi300"])
def test_device_time_is_that_of_the_kernels_launched_inside_a_module(real_data, converted, part):
    path = real_data / f"kineto/tracelens/{part}/Falconsai_nsfw_image_detection__1016002.json.gz"
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    modules = [event for event in events if "nn.Module: " in event["name"]]
    launches = {
        event["args"]["correlation"]: event
        for event in events
        if event.get("cat") in ("cuda_runtime", "cuda_driver") and "correlation" in event["args"]
    }
    expected = Counter()
    for event in events:
        if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
            launch = launches[event["args"]["correlation"]]
            expected[_innermost(modules, launch)] += round(event["dur"] * 1000)
    tables = converted(path)
    names = ("python_calls", "cpu_ops", "kernels", "memory_events")
    found = analyze.run(**{name: tables[name] for name in names}, config=Config())
    table = found.tables["by_class"]
    column = table.columns.index("own_device_ns")
    got = {row[0]: row[column] for row in table.rows if row[column]}
    assert got == {name: time for name, time in expected.items() if time}
