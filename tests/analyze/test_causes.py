"""The time of steps divided among causes, on recordings of a few rows."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from profkit.analyze import causes
from profkit.analyze.base import Recording
from profkit.analyze.division import long_steps
from profkit.analyze.division.partition import crossing
from profkit.analyze.division.pattern_matches import _is_of
from profkit.analyze.division.sampled_calls import IS_SELDOM, sampled_calls, seen_stacks
from profkit.analyze.shared.calls_apart import calls_apart
from profkit.core.hardware import Hardware
from profkit.core.result import Metric, Result, Table
from profkit.testing import ORIGIN_NS, frame, rows, run, span

MAIN, BACKWARD = 1, 2
US = 1000


def at(start_us, end_us, **columns):
    return span(start_us * US, end_us * US, **{"step": 5, "tid": MAIN, **columns})


def op(number, start_us, end_us, name="aten::mm", **columns):
    given = {"op": number, "parent": -1, "kind": "operator", **columns}
    return at(start_us, end_us, name=name, **given)


def kernel(correlation, start_us, end_us, name="gemm", kind="compute", **columns):
    given = {"correlation": correlation, "kind": kind, "device": 0, "stream": 7, "op": 0}
    row = at(start_us, end_us, name=name, **{**given, **columns})
    del row["tid"]
    return row


def call(correlation, start_us, end_us, name="cudaLaunchKernel", **columns):
    return at(start_us, end_us, name=name, correlation=correlation, op=0, **columns)


def step(start_us, end_us, number=5, **columns):
    row = at(start_us, end_us, **columns) | {"step": number, "samples": 1}
    del row["tid"]
    return row


def divided(**tables):
    given = {"hardware": Hardware(), "behaviour": {}} | tables
    return run(causes.analyze, **given)


def test_steps_of_several_repeats_have_a_bar_each():
    twice = {name: [*rows, *({**row, "repeat": 1} for row in rows)] for name, rows in CPU.items()}
    charts = [divided(**tables).charts[0] for tables in (CPU, twice)]
    assert [chart.x for chart in charts] == ["step", "step_and_repeat"]
    bars = [row["step_and_repeat"] for row in rows(divided(**twice), "by_step")]
    assert bars == [f"{step}, repeat {repeat}" for repeat in (0, 1) for step in (5, 6)]


def times(result, rank=0):
    """Return the time in µs of each part of the partition in the first period of a rank."""
    (row, *_) = [row for row in rows(result, "by_step") if row["rank"] == rank]
    parts = {
        name.removesuffix("_ns"): value
        for name, value in row.items()
        if name.endswith("_ns") and value and name != "step_time_ns"
    }
    assert sum(parts.values()) == row["step_time_ns"]
    return {name: value / US for name, value in parts.items()}


def tree(result, rank=0):
    return {row["id"]: row for row in rows(result, "causes") if row["rank"] == rank}


# 0 ms to 2 ms; the operator covers the launching, the rest of the CPU is Python.
GPU = {
    "steps": [step(0, 2000)],
    "cpu_ops": [
        op(0, 300, 1900),
        op(1, 0, 250, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"),
    ],
    "runtime_calls": [
        call(1, 300, 310),
        call(2, 310, 315, "cudaMemcpyAsync"),
        call(3, 320, 325),
        call(4, 1000, 1300, "cudaMalloc"),
        call(5, 1400, 1405),
        call(6, 1406, 1408),
    ],
    "kernels": [
        kernel(1, 305, 600),
        kernel(2, 550, 700, "Memcpy HtoD (Pageable -> Device)", "copy", copy_kind="HtoD"),
        kernel(3, 650, 900, "ncclDevKernel_AllReduce", "communication"),
        kernel(5, 1410, 1500),
        kernel(6, 1600, 1700, "Memset (Device)", "set"),
    ],
}


def test_each_cause_says_what_it_is_part_of():
    found = tree(divided(**GPU))
    wholes = {name: row["part_of"] for name, row in found.items()}
    assert (wholes["gpu_idle"], wholes["gpu_idle.python"]) == ("", "GPU idle")
    whole_ms = sum(row["ms_per_step"] for row in found.values() if not row["part_of"])
    assert whole_ms == pytest.approx(2.0)


def test_python_and_dispatch_say_how_much_is_in_operators():
    evidence = json.loads(tree(divided(**GPU))["gpu_idle.python"]["evidence"])
    # Of 565 us, 150 are around the operator.
    shares = [evidence[name] for name in ("in_operators_share", "operator_share")]
    assert (shares, evidence["operator"]) == ([0.735, 0.735], "aten::mm")


@pytest.mark.parametrize("name", ["ProfilerStep#5", "backward"])
def test_a_range_hides_no_operator_of_another_thread(name):
    ops = [
        op(0, 300, 1300),
        GPU["cpu_ops"][1],
        op(2, 0, 2000, name, kind="annotation"),
        op(3, 1300, 1900, "MmBackward0", tid=BACKWARD),
    ]
    (*calls, last) = GPU["runtime_calls"]
    calls += [last | {"tid": BACKWARD, "op": 3}]
    found = tree(divided(**GPU | {"cpu_ops": ops, "runtime_calls": calls}))
    evidence = json.loads(found["gpu_idle.python"]["evidence"])
    # As where the program's thread is in an operator all the time.
    assert (evidence["in_operators_share"], evidence["operator"]) == (0.735, "MmBackward0")


@pytest.mark.parametrize(("op_of_kernels", "launches"), [(0, True), (2, True), (1, False)])
def test_an_operator_that_launches_work_itself_or_below_it_is_known(op_of_kernels, launches):
    ops = [*GPU["cpu_ops"], op(2, 400, 500, "aten::addmm", parent=0)]
    kernels = [row | {"op": op_of_kernels} for row in GPU["kernels"]]
    found = tree(divided(**GPU | {"cpu_ops": ops, "kernels": kernels}))
    evidence = json.loads(found["gpu_idle.python"]["evidence"])
    assert evidence["operator"] == "aten::mm"
    assert evidence.get("is_launching", False) is launches


def test_each_instant_of_a_gpu_step_has_one_cause():
    assert times(divided(**GPU)) == {
        "gpu_computing": 295 + 90,
        "exposed_communication.waiting_or_transfer": 250,
        "exposed_copies.HtoD_pageable": 50,  # a kernel hides the first part, communication the last
        "exposed_sets": 100,
        "gpu_idle.loading_data": 250,
        "gpu_idle.blocked.cudaMalloc": 300,
        "gpu_idle.python": 55 + 100 + 110 + 300,
        "gpu_idle.not_started": 100,
    }


@pytest.mark.parametrize(
    ("above", "size_bytes", "name"),
    [
        (
            {"name": "FSDP::pre_forward (layers.3)", "kind": "annotation"},
            4 << 20,
            "HtoD_of_weights",
        ),
        ({"name": "Optimizer.step#CPUAdam.step", "phase": "optimizer"}, 4 << 20, "HtoD_of_weights"),
        ({"name": "FSDP::pre_forward (layers.3)", "kind": "annotation"}, 1 << 10, "HtoD"),
        ({"name": "aten::to"}, 4 << 20, "HtoD"),
    ],
    ids=["sharded", "updated on the CPU", "a few bytes", "inputs"],
)
def test_weights_that_are_copied_to_the_gpu_are_no_inputs(above, size_bytes, name):
    name_of = above.pop("name")
    made = [op(0, 100, 400, name_of, **above), op(1, 150, 300, "aten::copy_", parent=0)]
    moved = {"kind": "copy", "copy_kind": "HtoD", "size_bytes": size_bytes}
    copies = [
        kernel(1, 300, 500, "Memcpy HtoD (Pinned -> Device)", op=1, **moved),
        kernel(2, 600, 900, "Memcpy HtoD (Pinned -> Device)", **moved),  # launched before
    ]
    found = times(divided(steps=[step(0, 1000)], cpu_ops=made, kernels=copies))
    assert found[f"exposed_copies.{name}"] == 500


def test_pages_that_move_when_they_are_touched_are_no_copies_that_a_call_makes():
    moves = {"kind": "copy", "copy_kind": "UVM DtoH"}
    # A fault is handled within 100 us; what comes later is the program's own work.
    migrations = [
        kernel(0, start, start + 10, "Memcpy UVM DtoH", **moves) for start in (100, 150, 400)
    ]
    rows = {
        "steps": [step(0, 1000)],
        "cpu_ops": [op(0, 0, 1000)],
        "kernels": [kernel(1, 0, 100), *migrations],
        "runtime_calls": [call(1, 0, 10)],
    }
    found = divided(**rows)
    assert times(found)["exposed_copies.UVM DtoH"] == 60 + 10
    for migration in migrations:
        migration["copy_kind"] = "UVM prefetch DtoH"
    assert times(divided(**rows))["exposed_copies.UVM prefetch DtoH"] == 30
    assert "launches" not in {row["check"] for row in found.tables["trust"].records()}


@pytest.mark.parametrize(("number", "is_start"), [(0, True), (10, False)])
def test_the_first_communication_is_a_start_in_the_first_step_alone(number, is_start):
    lengths = [5000, 100, 100, 100, 100, 100]
    kernels = [
        kernel(index, 6000 * index, 6000 * index + length, "ncclDevKernel", "communication")
        for index, length in enumerate(lengths)
    ]
    rows = {"steps": [step(0, 40_000, number)], "kernels": kernels, "cpu_ops": [op(0, 0, 40_000)]}
    found = times(divided(**rows))
    assert ("exposed_communication.start_up" in found) == is_start
    assert found["exposed_communication.waiting_or_transfer"] == sum(lengths[is_start:])


def test_copies_in_several_modules_are_of_their_weights():
    moved = {"kind": "copy", "copy_kind": "HtoD", "size_bytes": 4 << 20}
    for modules, name in ((("a", "b"), "HtoD_of_weights"), (("a", "a"), "HtoD")):
        ops = [op(n, 100 * n, 100 * n + 50, "aten::copy_", module=m) for n, m in enumerate(modules)]
        copies = [
            kernel(n, 300 * n, 300 * n + 100, "Memcpy HtoD", op=n, module=m, **moved)
            for n, m in enumerate(modules)
        ]
        found = times(divided(steps=[step(0, 1000)], cpu_ops=ops, kernels=copies))
        assert found[f"exposed_copies.{name}"] == 200


@pytest.mark.parametrize("gpu", [{"kernels": [kernel(1, 900, 1000)]}, {}], ids=["GPU", "CPU"])
@pytest.mark.parametrize(
    ("count", "steps", "starts"),
    [(1, [], 300), (2, [], 0), (1, [step(0, 1000)], 0)],
    ids=["the only batch", "several", "a step"],
)
def test_workers_start_for_the_only_batch_of_a_recording_without_steps(gpu, count, steps, starts):
    name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
    waits = [op(n, 400 * n, 400 * n + 300, name, kind="annotation") for n in range(count)]
    ops = [*waits, op(9, 900, 1000)]
    calls = [call(1, 890, 895)] if gpu else []
    found = times(divided(steps=steps, cpu_ops=ops, runtime_calls=calls, **gpu))
    under = "gpu_idle." if gpu else ""
    assert found.get(f"{under}start_up.first_batch", 0) == starts
    assert found.get(f"{under}loading_data", 0) == 300 * count - starts


@pytest.mark.parametrize("ends_us", [[101_000], [101_000, 250_000], [99_000]])
def test_memory_that_is_asked_for_once_and_takes_long_starts_a_device(ends_us):
    asked = [op(n, 150_000 * n, end, "aten::empty_strided") for n, end in enumerate(ends_us)]
    found = times(divided(cpu_ops=[*asked, op(9, 300_000, 500_000)]))
    starts = found.get("start_up.first_use_of_a_device", 0)
    assert starts == (101_000 if ends_us == [101_000] else 0)


def test_compiled_code_computes_on_the_cpu_beside_its_operators():
    graph = op(0, 100, 900, "## Call CompiledFxGraph fqz3 ##", kind="annotation")
    made = divided(steps=[step(0, 1000)], cpu_ops=[graph, op(1, 200, 500, parent=0)])
    assert times(made) == {"cpu_operators": 800, "python": 200}


def test_recording_a_graph_is_not_compiling():
    named = {
        "recording_graph": "CUDAGraphNode.record (dynamo_timed)",
        "compiler": "compile_fx_inner (dynamo_timed)",
    }
    for cause, name in named.items():
        ops = [*GPU["cpu_ops"], op(2, 900, 1000, name, kind="annotation")]
        assert times(divided(**GPU | {"cpu_ops": ops}))[f"gpu_idle.{cause}"] == 100


def test_the_tree_adds_up_on_each_level_and_nothing_is_negative():
    found = tree(divided(**GPU))
    assert sum(row["ms_per_step"] for name, row in found.items() if "." not in name) == 2.0
    for name, row in found.items():
        parts = [
            one for one in found if one.startswith(f"{name}.") and "." not in one[len(name) + 1 :]
        ]
        assert row["ms_per_step"] >= 0
        if parts:
            assert sum(found[one]["ms_per_step"] for one in parts) == pytest.approx(
                row["ms_per_step"], rel=1e-12
            )
    assert found["gpu_computing.aten::mm"]["ms_per_step"] == 0.385


@pytest.mark.parametrize("tables", [GPU, {name: GPU[name] for name in ("steps", "cpu_ops")}])
def test_parts_by_operator_and_kernel_sum_to_each_cause(tables):
    result = divided(**tables)
    found = {}
    for row in rows(result, "parts"):
        found[row["cause"]] = found.get(row["cause"], 0.0) + row["ms_per_step"]
    whole = {cause: time / US for cause, time in times(result).items()}
    assert found == pytest.approx(whole)
    named = {(row["cause"], row["operator"], row["kernel"]) for row in rows(result, "parts")}
    of_gpu = ("gpu_computing", "aten::mm", "gemm")
    assert of_gpu in named or ("cpu_operators", "aten::mm", "") in named


@pytest.mark.parametrize(
    ("shapes", "lengths", "first_us"),
    [
        ("[[64]]", lambda _: [90, 10, 10, 10], 80),
        ("", lambda _: [90, 10, 10, 10], 0),  # perhaps it does more
        ("[[64]]", lambda _: [90, 10], 0),  # which of the two is usual
        ("[[64]]", lambda number: [10, 90 if number == 6 else 10, 10, 10], 0),  # in one step
    ],
)
def test_what_the_first_call_of_each_step_takes_longer_is_known_as_a_first_use(
    shapes, lengths, first_us
):
    steps = [step(200 * number, 200 * number + 200, number) for number in range(8)]
    ops = []
    for number in range(8):
        begin = 200 * number
        for length in lengths(number):
            given = {"step": number, "input_shapes": shapes}
            ops.append(op(len(ops), begin, begin + length, "aten::copy_", **given))
            begin += length
    parts = rows(divided(steps=steps, cpu_ops=ops), "parts")
    (copies,) = [row for row in parts if row["operator"] == "aten::copy_"]
    assert copies["first_use_ms_per_step"] == pytest.approx(first_us / US)
    assert copies["ms_per_step"] == pytest.approx(sum(lengths(0)) / US, rel=0.5)


def test_a_range_that_is_not_recorded_around_its_operators_takes_none_of_their_time():
    ranges = [op(0, 0, 1000, "Optimizer.step#SGD.step", kind="annotation"), op(1, 0, 900)]
    result = divided(steps=[step(0, 900)], cpu_ops=ranges)
    found = {row["operator"]: row["ms_per_step"] for row in rows(result, "parts")}
    assert found == pytest.approx({"aten::mm": 0.9})


def again(row, time):
    """Return a row of the next steps, `time` steps of 2 ms later."""
    shift = 2000 * US * time
    moved = {"start_ns": row["start_ns"] + shift, "end_ns": row["end_ns"] + shift}
    ids = {name: row[name] + 10 * time for name in ("correlation", "op") if name in row}
    return {**row, **moved, **ids, "step": 5 + time}


def test_a_call_that_blocks_in_steady_steps_is_named_with_its_number():
    three = {name: [again(row, n) for n in range(3) for row in GPU[name]] for name in GPU}
    malloc = tree(divided(**three))["gpu_idle.blocked.cudaMalloc"]
    assert malloc["ms_per_step"] == 0.3
    assert json.loads(malloc["evidence"])["calls_per_step"] == 1.0


@pytest.mark.parametrize(("names", "cause"), [("ab", "start_up"), ("aa", "blocked")])
def test_a_launch_that_blocks_loads_code_only_if_its_kernel_is_new(names, cause):
    found = divided(
        cpu_ops=[op(0, 0, 9_000, "aten::add_")],
        runtime_calls=[call(1, 0, 10), call(2, 1_000, 6_000)],
        kernels=[kernel(1, 20, 900, names[0]), kernel(2, 6_000, 9_000, names[1])],
    )
    row = tree(found)[f"gpu_idle.{cause}.cudaLaunchKernel"]
    assert row["ms_per_step"] == 5
    assert json.loads(row["evidence"])["first_launches"] == (cause == "start_up")


@pytest.mark.parametrize(
    ("steps", "ops", "is_known"),
    [([], [], True), ([step(0, 1000)], [], False), ([], [op(3, 50, 60)], False)],
    ids=["recorded whole", "steps", "operators"],
)
def test_before_and_after_its_work_a_gpu_is_not_idle_in_a_step(steps, ops, is_known):
    """As nsys records a program: it imports, connects, works, and ends."""
    phases = [
        op(number, 250 * number, 250 * number + 250, kind="annotation") for number in range(4)
    ]
    found = divided(
        steps=steps,
        cpu_ops=[*phases, *(row | {"op": 9} for row in ops)],
        runtime_calls=[call(1, 390, 395), call(2, 500, 600), call(3, 600, 605)],
        kernels=[kernel(1, 400, 500), kernel(3, 610, 700)],
    )
    around = times(found).get("gpu_idle.start_up.before_and_after_work", 0)
    assert around == (700 if is_known else 0)


@pytest.mark.parametrize(("lasts_us", "cause"), [(99_000, "blocked"), (101_000, "start_up")])
def test_memory_that_is_freed_is_start_up_only_if_it_takes_as_long_as_that(lasts_us, cause):
    found = divided(
        cpu_ops=[op(0, 0, 900_000)],
        runtime_calls=[
            call(1, 0, 10), call(2, 3_000, 3_000 + lasts_us, "cudaFree"), call(3, 890_000, 890_010)
        ],
        kernels=[kernel(1, 20, 3_000), kernel(3, 890_010, 900_000)],
    )  # fmt: skip
    assert times(found)[f"gpu_idle.{cause}.cudaFree"] == lasts_us


def test_waiting_for_the_gpu_is_blamed_for_the_empty_queue_after_it():
    """The CPU would have been ahead by what it waits, which is more than each gap."""
    begins = range(0, 1000, 200)
    waits = [call(n + 2, 9 + n, 121 + n, "cudaStreamSynchronize") for n in begins]
    found = times(
        divided(
            steps=[step(0, 1000)],
            cpu_ops=[op(0, 0, 990)],
            kernels=[kernel(n + 1, 10 + n, 120 + n) for n in begins],
            runtime_calls=[*(call(n + 1, 5 + n, 8 + n) for n in begins), *waits],
        )
    )
    assert found == {
        "gpu_computing": 550,
        "gpu_idle.python": 9,
        "gpu_idle.blocked.cudaStreamSynchronize": 4 * 90 + 80 + 1,
    }


def test_a_copy_to_the_gpu_that_waits_for_itself_alone_is_to_blame_for_no_empty_queue():
    """Before it the GPU had nothing to do: without the copy the CPU would be ahead by nothing."""
    copied = {"kind": "copy", "copy_kind": "HtoD"}
    found = times(
        divided(
            steps=[step(0, 1000)],
            cpu_ops=[op(0, 0, 990)],
            kernels=[
                kernel(1, 110, 300, "Memcpy HtoD (Pageable -> Device)", **copied),
                kernel(2, 505, 1000),
            ],
            runtime_calls=[
                call(1, 100, 310, "cudaMemcpyAsync"),
                call(3, 310, 320, "cudaStreamSynchronize"),
                call(2, 500, 502),
            ],
        )
    )
    assert found["gpu_idle.blocked.cudaStreamSynchronize"] == 10
    assert found["gpu_idle.python"] == 100 + 180 + 5


@pytest.mark.parametrize("streams", [1, 2])
def test_launched_work_that_does_not_start_says_on_how_many_streams_it_could_wait(streams):
    found = divided(
        steps=[step(0, 1000)],
        cpu_ops=[op(0, 0, 990)],
        kernels=[kernel(1, 5, 300), kernel(2, 700, 1000, stream=6 + streams)],
        runtime_calls=[call(1, 0, 4), call(2, 10, 14)],
    )
    evidence = json.loads(tree(found)["gpu_idle.not_started"]["evidence"])
    assert evidence == {"streams": streams, "longest_ns": 400_000}


def test_a_gpu_that_goes_from_kernel_to_kernel_waits_for_nothing():
    times = [(5 + 10 * number, 13 + 10 * number) for number in range(20)]
    found = divided(
        steps=[step(0, 205)],
        cpu_ops=[op(0, 0, 200)],
        kernels=[kernel(number, *time) for number, time in enumerate(times)],
        runtime_calls=[call(number, 0, 4) for number in range(20)],
    )
    evidence = json.loads(tree(found)["gpu_idle.not_started"]["evidence"])
    assert evidence["between_kernels_ns"] == 2_000
    assert evidence["gaps_per_step"] >= 19


def replayed(*kernels, launch="cudaGraphLaunch"):
    """Return what a step of a graph spends idle; the CPU waits for its end."""
    launches = [(7, 0, 4, launch), (8, 4, 5, launch)]
    waits = call(9, 6, 990, "cudaStreamSynchronize")
    found = divided(
        steps=[step(0, 1000)],
        cpu_ops=[op(0, 0, 990)],
        kernels=[kernel(*times) for times in kernels],
        runtime_calls=[*(call(*one) for one in launches), waits],
    )
    idle = {name: time for name, time in times(found).items() if name.startswith("gpu_idle.")}
    failed = [row["check"] for row in rows(found, "trust") if row["passed"] == "false"]
    return found, idle, failed


def test_what_is_missing_between_kernels_of_a_graph_is_no_waiting():
    """Kernels of one launch are those of a graph, which leaves no gaps as long as a kernel."""
    _, idle, failed = replayed((7, 5, 300), (7, 700, 1000))
    assert (idle, "graphs" in failed) == ({"gpu_idle.in_graph": 5 + 400}, True)
    # The first of a graph may be missing as well.
    _, idle, _ = replayed((7, 5, 300), (7, 700, 800), (8, 950, 970), (8, 970, 1000))
    assert idle == {"gpu_idle.in_graph": 5 + 400 + 150}
    _, idle, failed = replayed((7, 5, 300), (7, 340, 800), (8, 950, 970), (8, 970, 1000))
    assert (idle, "graphs" in failed) == ({"gpu_idle.not_started": 5 + 40 + 150}, False)
    found, idle, _ = replayed((7, 5, 300), (7, 700, 1000), launch="cudaLaunchKernelExC")
    assert idle == {"gpu_idle.not_started": 5 + 400}
    found, idle, _ = replayed((7, 5, 300), (8, 700, 1000))
    assert idle == {"gpu_idle.not_started": 5 + 400}
    evidence = json.loads(tree(found)["gpu_idle.not_started"]["evidence"])
    assert evidence == {"blocked_in": "cudaStreamSynchronize"}


CPU = {
    "steps": [step(0, 1000), step(1100, 2000, 6)],
    "cpu_ops": [
        op(0, 0, 300, "aten::linear"),
        op(1, 50, 250, "aten::addmm", parent=0),
        op(2, 200, 500, "gloo:all_reduce", tid=BACKWARD, kind="annotation"),
        op(3, 600, 700, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"),
        op(4, 1100, 2000, "aten::linear", step=6),
    ],
}


def test_each_instant_of_a_cpu_step_has_one_cause_and_lasts_until_the_next_step():
    found = divided(**CPU)
    assert times(found) == {
        "cpu_operators": 300,
        "exposed_communication.waiting_or_transfer": 200,
        "loading_data": 100,
        "python": 500,
    }
    assert tree(found)["cpu_operators.aten::addmm"]["ms_per_step"] == 0.1


def test_the_line_behind_python_between_operators_is_named():
    def function(number, caller, start_us, end_us, name):
        return at(start_us, end_us, call=number, caller=caller, name=name, kind="function")

    frames = [
        function(0, -1, 0, 1100, "train.py(3): main"),
        function(1, 0, 500, 600, "/usr/lib/python3.11/copy.py(66): copy"),
        function(2, 0, 700, 1100, "train.py(9): log"),
        function(3, 2, 700, 1090, "<built-in function print>"),
    ]
    found = tree(divided(**CPU, python_calls=frames))
    assert found["python"]["place"] == "train.py(9): log"
    assert found["python.train_py(9): log"]["ms_per_step"] == 0.2


def sampled(times_us, stack):
    where = {"rank": 0, "repeat": 0, "tid": MAIN}
    return [{**where, "time_ns": ORIGIN_NS + when * US, "stack": stack} for when in times_us]


def test_samples_name_the_line_where_no_stacks_were_recorded():
    samples = sampled(range(0, 500, 25), "train.py(3): main;torch/nn.py(1): forward")
    samples += sampled(range(500, 1100, 25), "train.py(4): main;train.py(9): log")
    found = tree(divided(**CPU, samples=samples))
    assert found["python"]["place"] == "train.py(9): log"
    assert found["python.train_py(9): log"]["ms_per_step"] == 0.25


def test_operators_have_the_line_that_was_sampled_around_them():
    samples = sampled(range(0, 2000, 25), "train.py(3): main;torch/nn.py(1): forward")
    found = tree(divided(**CPU, samples=samples))
    assert found["cpu_operators"]["place"] == "train.py(3): main"
    recorded = [{**row, "stack": "other.py(1): run"} for row in CPU["cpu_ops"]]
    found = tree(divided(**CPU | {"cpu_ops": recorded}, samples=samples))
    assert found["cpu_operators"]["place"] == "other.py(1): run"


@pytest.mark.parametrize("is_recorded", [False, True])
def test_what_backward_computes_is_at_the_line_that_it_is_the_gradient_of(is_recorded):
    ops = [
        op(0, 0, 200, "aten::conv2d"),
        op(1, 300, 400, "aten::mm"),
        op(2, 400, 1000, "autograd::engine::evaluate_function: ConvolutionBackward0", forward=0),
        op(3, 410, 990, "aten::convolution_backward", parent=2),
    ]
    samples = sampled(range(0, 220, 20), "train.py(5): main;model.py(9): forward")
    samples += sampled(range(280, 400, 20), "train.py(5): main;model.py(12): forward")
    samples += sampled(range(400, 1100, 20), "train.py(6): main;torch/_tensor.py(9): backward")
    if is_recorded:
        ops[0] |= {"stack": "other.py(1): run"}
    given = {"steps": [step(0, 1000)], "cpu_ops": ops}
    found = tree(divided(**given, samples=samples))
    line = "other.py(1): run" if is_recorded else "model.py(9): forward"
    assert found["cpu_operators"]["place"] == line
    largest = found["cpu_operators.aten::convolution_backward"]
    assert json.loads(largest["evidence"])["line"] == line


@pytest.mark.parametrize(
    ("stack", "place"),
    [
        ("train.py(3): main;{}/profkit/marks.py(30): step", "train.py(3): main"),
        ("train.py(3): main;{}/mylib/log.py(5): log", "{}/mylib/log.py(5): log"),
        ("{}/mylib/log.py(5): log;{}/torch/_tensor.py(9): item", "{}/mylib/log.py(5): log"),
    ],
    ids=["profkit", "a program that is installed", "torch"],
)
def test_python_is_of_the_program_and_never_of_profkit(stack, place):
    packages = "/usr/lib/python3.11/site-packages"
    samples = sampled(range(700, 1100, 20), stack.replace("{}", packages))
    found = tree(divided(**CPU, samples=samples))
    assert found["python"]["place"] == place.replace("{}", packages)


def looks(samples, *, are_seldom=False):
    return frame("python_samples", samples).assign(**{IS_SELDOM: are_seldom})


def test_a_stack_begins_with_what_no_operator_does_and_not_when_it_is_looked_at():
    ops = [op(0, 0, 100, "aten::mm"), op(1, 500, 510, "aten::mm")]
    samples = sampled([-600, -350, -50], "train.py(1): load")
    samples += sampled([200, 450], "train.py(2): nap") + sampled([700, 950], "train.py(3): main")
    rank = frame("cpu_ops", ops)
    calls = sampled_calls(seen_stacks(looks(samples), rank), (0, 0))
    nap = calls[calls["name"] == "train.py(2): nap"]
    times = [(int(nap[name].iloc[0]) - ORIGIN_NS) // US for name in ("start_ns", "end_ns")]
    assert times == [75, 510]


@pytest.mark.parametrize(
    ("cpu_us", "ops", "begins_us"),
    [
        (980, [], 60),
        (80, [], 900),
        (980, [op(0, 300, 400)], 900),
        (980, [op(0, 60, 90)], 90),
        (90, [op(0, 60, 90)], 900),
    ],
    ids=[
        "it ran",
        "it had no core",
        "operators ran, and no look came",
        "it ran after the last operator",
        "it had no core after that",
    ],
)
def test_a_call_that_kept_the_looks_from_coming_has_the_time_before_the_next(
    cpu_us, ops, begins_us
):
    samples = sampled([0, 20, 40], "train.py(2): step") + sampled([1000, 1020], "train.py(3): dump")
    used = (0, 20, 40, cpu_us, cpu_us + 20)
    samples = [{**row, "cpu_ns": us * US} for row, us in zip(samples, used, strict=True)]
    seen = seen_stacks(looks(samples), frame("cpu_ops", ops))
    at = ORIGIN_NS + 1000 * US
    (dump,) = seen[(seen["start_ns"] <= at) & (seen["end_ns"] > at)].to_dict("records")
    assert (dump["stack"], (dump["start_ns"] - ORIGIN_NS) // US) == ("train.py(3): dump", begins_us)


@pytest.mark.parametrize(
    ("cpu_us", "ends_us"),
    [((0, 1, 101, 201), 500), ((0, 100, 200, 300), 350), ((-1, -1, -1, -1), 350)],
    ids=["it waited", "it ran", "unknown"],
)
@pytest.mark.parametrize("ops", [[], [op(0, 320, 330), op(1, 480, 590)]], ids=["", "operators"])
def test_all_that_ran_did_so_after_a_wait(cpu_us, ends_us, ops):
    samples = sampled([0, 100], "train.py(2): nap") + sampled([600, 700], "train.py(3): main")
    samples = [
        {**row, "cpu_ns": us * US if us >= 0 else -1}
        for row, us in zip(samples, cpu_us, strict=True)
    ]
    seen = seen_stacks(looks(samples), frame("cpu_ops", ops))
    calls = sampled_calls(seen, (0, 0))
    nap = calls[calls["name"] == "train.py(2): nap"]
    ends_us = 320 if ops and ends_us == 500 else ends_us
    assert (int(nap["end_ns"].iloc[0]) - ORIGIN_NS) // US == ends_us


def test_few_samples_in_the_steps_are_helped_out_by_those_of_other_steps():
    samples = sampled(range(-9000, -8000, 50), "train.py(4): main;train.py(9): log")
    assert tree(divided(**CPU, samples=samples))["python"]["place"] == "train.py(9): log"
    assert tree(divided(**CPU, samples=samples[:1]))["python"]["place"] == ""


SAVES = "train.py(4): main;train.py(9): keep;torch/serialization.py(966): save"
OTHERWISE = ("train.py(3): main", "train.py(3): main", "train.py(4): main;train.py(9): keep")


def with_long_steps(  # noqa: PLR0913 (a recording has many sides)
    lines,
    traced="train.py(3): main;torch/nn.py(1): forward",
    *,
    long_us=3000,
    queued_us=0,
    paused_us=0,
    period_us=20,
):
    """Return the matches in Python in 9 steps of 1 or 3 ms, most of which is at a line of a kind.

    Those of the first kind are short, each third one is of the second, and the last of the third.
    Two steps before them were traced. In each long one the thread has no core for `queued_us`, and
    the collector of garbage runs for `paused_us`.
    """
    samples = sampled(range(0, 1100, 20), "train.py(3): main;torch/nn.py(1): forward")
    samples += sampled(range(1100, 2000, 20), traced)
    start, after, waited_us, pauses = 2000, [], 0, []
    for number, kind in enumerate([0, 0, 1, 0, 0, 1, 0, 0, 2]):
        end = start + (long_us if kind else 1000)
        after.append(step(start, end, 9 + number) | {"rank": 0, "repeat": 0})
        samples += sampled(range(start, start + 300, period_us), "train.py(3): main")
        times = range(start + 300, end, period_us)
        for at, row in enumerate(sampled(times, lines[kind])):
            waits = waited_us + (queued_us * at // len(times) if kind else 0)
            samples.append(row | {"queued_ns": waits * US})
        waited_us += queued_us if kind else 0
        if kind and paused_us:
            at = ORIGIN_NS + (start + 320) * US
            pauses.append({"rank": 0, "repeat": 0, "start_ns": at, "end_ns": at + paused_us * US})
        start = end
    steps = [{key: value for key, value in row.items() if key != "samples"} for row in after]
    made = divided(**CPU, samples=samples, sampled_steps=steps, pauses=pauses)
    return [row for row in rows(made, "matches") if row["pattern"] != "too_few_workers"]


@pytest.mark.parametrize(
    ("saved_in", "found"),
    [((1,), ["2 of 9"]), ((0, 1), []), ((), [])],
    ids=["in some steps", "in all", "in none"],
)
def test_what_is_seen_only_in_long_steps_after_the_trace_is_found_in_those(saved_in, found):
    lines = [SAVES if kind in saved_in else line for kind, line in enumerate(OTHERWISE)]
    matched = with_long_steps(lines)
    saving = [row for row in matched if row["pattern"].startswith("checkpoints")]
    assert [row["in_steps"] for row in saving] == found
    for row in saving:
        assert row["covered_ms"] == pytest.approx(2 * 2.7 / 9, rel=0.02)
        assert row["place"] == "train.py(9): keep"
        assert [*json.loads(row["evidence"])] == ["time_share"], "no count of calls in each step"


def test_a_call_that_no_pattern_knows_is_found_in_the_steps_that_make_it():
    called = "train.py(4): main;torch/utils/_contextlib.py(1): f;rl.py(9): rollout;rl.py(7): act"
    (row,) = with_long_steps(["train.py(3): main", called, called])
    assert (row["title"], row["place"]) == ("rl.rollout", "train.py(4): main")
    assert row["in_steps"] == "3 of 9"
    assert row["covered_ms"] == pytest.approx(3 * 2.7 / 9, rel=0.02)
    assert json.loads(row["evidence"])["time_share"] == pytest.approx(3 * 2.7 / 15, rel=0.02)


ROLLS = "train.py(4): main;rl.py(9): rollout;rl.py(7): act"


@pytest.mark.parametrize(("queued_us", "count"), [(300, 1), (700, 0)])
def test_steps_that_other_work_made_long_show_nothing_of_what_the_program_does(queued_us, count):
    assert len(with_long_steps(["train.py(3): main", ROLLS, ROLLS], queued_us=queued_us)) == count


@pytest.mark.parametrize(
    ("long_us", "looks", "count"), [(1200, 50, 0), (1200, 5, 1), (3000, 50, 1)]
)
def test_what_few_looks_at_other_steps_did_not_see_may_be_chance_unless_it_is_longer(
    long_us, looks, count, monkeypatch
):
    """The call takes all but 0.3 ms of a long step, and a usual one takes 1."""
    monkeypatch.setattr(long_steps, "_LOOKS_EXPECTED", looks)
    monkeypatch.setattr(long_steps, "_LONG", 1.1)
    lines = ["train.py(3): main", ROLLS, ROLLS]
    assert len(with_long_steps(lines, long_us=long_us, period_us=100)) == count


@pytest.mark.parametrize(("paused_us", "count"), [(300, 1), (700, 0)])
def test_steps_that_the_collector_made_long_show_nothing_of_what_the_program_does(paused_us, count):
    assert len(with_long_steps(["train.py(3): main", ROLLS, ROLLS], paused_us=paused_us)) == count


def test_a_collection_that_the_program_asks_for_in_some_steps_is_found():
    asks = "train.py(4): main;<built-in function collect>"
    (found,) = with_long_steps(["train.py(3): main", asks, asks], paused_us=700)
    assert (found["pattern"], found["in_steps"]) == ("collections_on_demand", "3 of 9")


def test_a_call_of_which_no_line_of_the_program_is_known_is_left_out():
    deep = "torch/fx/interpreter.py(9): run;torch/fx/node.py(3): f"
    assert not with_long_steps(["train.py(3): main", deep, deep])


@pytest.mark.parametrize(
    ("frames", "count"),
    [
        ("torch/optim/optimizer.py(533): wrapper;torch/optim/adam.py(238): step", 0),
        ("torch/optim/lr_scheduler.py(13): wrapper;torch/optim/optimizer.py(5): wrapper", 0),
        ("accelerate/accelerator.py(2): backward;torch/_tensor.py(625): backward", 0),
        ("torch/optim/swa_utils.py(289): update_parameters;<built-in function lerp>", 1),
        ("rl.py(9): inner_loop;torch/optim/adam.py(238): step", 1),
    ],
)
def test_a_phase_that_each_step_has_is_not_of_some_alone(frames, count):
    called = f"train.py(4): main;{frames}"
    assert len(with_long_steps(["train.py(3): main", called, called])) == count


def test_a_pattern_goes_before_the_call_if_it_knows_most_of_it():
    called = "train.py(4): main;train.py(8): fit"
    other = f"{called};csv.py(9): writerow"
    (row,) = with_long_steps(["train.py(3): main", f"{called};{SAVES}", other])
    assert (row["pattern"], row["in_steps"]) == ("checkpoints_in_steps", "2 of 9")
    (row,) = with_long_steps(["train.py(3): main", other, f"{called};{SAVES}"])
    assert (row["title"], row["in_steps"]) == ("train.fit", "3 of 9")


def test_a_barrier_in_some_steps_waits_for_what_another_rank_does():
    waits = (
        "train.py(4): main;torch/distributed/c10d_logger.py(83): wrapper"
        ";torch/distributed/distributed_c10d.py(9): barrier;<built-in function wait>"
    )
    (row,) = with_long_steps(["train.py(3): main", waits, waits])
    assert row["title"] == "torch.distributed.distributed_c10d.barrier"
    assert row["advice"].startswith("It waits for other ranks: share out")


def test_a_compiler_at_work_in_some_steps_is_no_call_of_the_model():
    called = "train.py(4): main;torch/nn/modules/module.py(9): _call_impl"
    compiles = f"{called};torch/_dynamo/convert_frame.py(9): compile_inner"
    (row,) = with_long_steps(["train.py(3): main", compiles, compiles])
    assert (row["pattern"], row["title"]) == ("recompilation", "Recompilation in steps")
    assert "dynamic=True" in row["advice"]


def test_what_a_traced_step_shows_of_a_call_that_others_do_not_make_is_of_that():
    called = f"train.py(4): main;train.py(8): fit;{SAVES}"
    (row,) = with_long_steps(["train.py(3): main", called, called], traced=called)
    assert (row["pattern"], row["in_steps"]) == ("checkpoints_in_steps", "3 of 9")
    assert row["place"] == "train.py(9): keep"
    assert "save many in one file" in row["advice"]
    assert row["covered_ms"] == pytest.approx(3 * 2.7 / 9, rel=0.02)


@pytest.mark.parametrize(
    ("place", "calls", "is_of_it"),
    [
        ("torch/serialization.py(3): save", 1.0, True),
        ("train.py(3): fit", 0.2, True),
        ("train.py(3): fit", 1.0, False),
    ],
)
def test_what_is_seldom_at_the_line_of_a_call_is_of_that_call(place, calls, is_of_it):
    found = calls_apart(
        pd.Series({"train.py(3): fit;torch/serialization.py(3): save": 9.0}),
        pd.Series({"train.py(3): fit": 9.0}),
    )
    row = {"place": place, "evidence": json.dumps({"calls_per_step": calls})}
    assert _is_of(row, found[0]) == is_of_it


def test_what_steps_of_all_kinds_do_in_a_call_stays_theirs():
    step = f"train.py(3): main;{SAVES.partition(';')[2]}"
    called = f"train.py(4): main;train.py(8): fit;{SAVES.partition(';')[2]}"
    found = with_long_steps([step, called, called], traced=step)
    assert {(row["pattern"], row["in_steps"]) for row in found} == {
        ("checkpoints_in_steps", ""),
        ("", "3 of 9"),
    }


def test_what_long_steps_do_is_not_taken_for_that_of_steps_without_a_look():
    seldom = sampled([5000, 6000], "train.py(4): main;train.py(9): log")
    for are_seldom, count in ((False, 6), (True, 0)):
        samples = looks(seldom, are_seldom=are_seldom)
        seen = seen_stacks(samples, frame("cpu_ops", PHASES["cpu_ops"]))
        assert (seen["end_ns"] < ORIGIN_NS + 3000 * US).sum() == count


def mark(start_us, end_us, phase, name=""):
    return op(start_us, start_us, end_us, name or phase, kind="annotation", phase=phase)


PHASES = {
    "steps": [step(0, 1000), step(1000, 2000, 6)],
    "cpu_ops": [
        op(0, 0, 990, "ProfilerStep#5", kind="annotation"),
        mark(100, 300, "forward"),
        mark(310, 320, "optimizer", "Optimizer.zero_grad#SGD.zero_grad"),
        mark(350, 600, "backward"),
        mark(610, 700, "optimizer", "Optimizer.step#SGD.step"),
        op(1, 800, 810, "aten::item", phase="forward"),
        op(2, 1000, 1990, "ProfilerStep#6", kind="annotation"),
        mark(1100, 1300, "forward"),
        mark(1350, 1600, "backward"),
        mark(1610, 1700, "optimizer", "Optimizer.step#SGD.step"),
    ],
}
BETWEEN = "between the optimizer's step and the next forward"


def test_a_sampled_stack_does_not_reach_beyond_its_phase():
    samples = sampled([200, 290, 1210, 1290], "train.py(5): main;model.py(2): forward")
    samples += sampled([400, 1400], "train.py(6): main")
    result = divided(**PHASES, samples=samples)
    assert tree(result)[f"python.{BETWEEN}"]["ms_per_step"] == pytest.approx(0.39)
    assert tree(result)["python"]["place"] == BETWEEN
    seen = seen_stacks(looks(samples), frame("cpu_ops", PHASES["cpu_ops"]))
    of_forward = seen[seen["stack"].astype(str).str.endswith("forward")]
    times = (of_forward[["start_ns", "end_ns"]] - ORIGIN_NS) // US
    assert times.to_numpy().tolist() == [[200, 245], [245, 300], [1100, 1250], [1250, 1300]]


@pytest.mark.parametrize(
    ("others", "place"),
    [([50], BETWEEN), ([50, 60], "train.py(9): log"), ([5000, 6000], "train.py(9): log")],
    ids=["one look is too few", "in another step", "in steps that were not traced"],
)
def test_the_same_part_of_another_step_says_what_was_not_looked_at(others, place):
    samples = sampled([200, 1200], "train.py(5): main;model.py(2): forward")
    samples += sampled(others, "train.py(4): main;train.py(9): log")
    assert tree(divided(**PHASES, samples=samples))["python"]["place"] == place


def test_what_fills_a_long_time_between_phases_says_nothing_of_short_ones_of_its_kind():
    forwards = [(20, 200), (210, 300), (310, 400), (800, 990)]
    ops = [op(0, 0, 990, "ProfilerStep#5", kind="annotation")]
    ops += [mark(start, end, "forward") for start, end in forwards]
    model = "train.py(5): main;model.py(2): forward"
    samples = sampled([150, 250, 350, 900], model)
    returns = sampled([500, 600, 700, 5000], "train.py(6): main;train.py(9): returns")
    seen = seen_stacks(looks(samples + returns), frame("cpu_ops", ops))
    of_returns = seen[seen["stack"].astype(str).str.endswith("returns")]
    assert ((of_returns[["start_ns", "end_ns"]] - ORIGIN_NS) // US).min().tolist() >= [400, 400]


def test_looks_at_the_model_in_other_steps_tell_of_phases_at_their_line():
    stack = "train.py(5): main;torch/nn/modules/module.py(9): _call_impl"
    samples = looks(sampled([200, 5000, 6000], stack))
    seen = seen_stacks(samples, frame("cpu_ops", PHASES["cpu_ops"]))
    spans = (seen[["start_ns", "end_ns"]] - ORIGIN_NS) // US
    assert spans[spans["end_ns"] == 1300]["start_ns"].tolist() == [1233]
    in_backward = (spans["end_ns"] > 350) & (spans["start_ns"] < 600)
    assert not in_backward.any()


def test_of_many_times_without_a_look_each_has_a_few_of_the_samples_and_all_have_each_as_often():
    calls = range(0, 8000, 4)
    ops = [mark(start, start + 2, "forward") for start in calls]
    seen_in_other_steps = [f"train.py(5): main;model.py({line}): forward" for line in range(1, 31)]
    samples = [
        sample
        for number, stack in enumerate(seen_in_other_steps)
        for sample in sampled([4 * number + 1, 9000 + number], stack)
    ]
    seen = seen_stacks(looks(samples), frame("cpu_ops", ops))
    count = seen["stack"].astype(str).value_counts()
    assert len(count) == len(seen_in_other_steps)
    assert len(seen) < 12 * len(calls)
    assert count.max() < 1.1 * count.min()


@pytest.mark.parametrize(
    ("called", "found"),
    [
        ("csv.py(3): writerow", ["work_beside_the_model"]),
        ("torch/distributed/distributed_c10d.py(3): all_reduce", []),
        ("torch/distributed/distributed_c10d.py(3): all_gather_object", ["objects_sent"]),
    ],
    ids=["it works", "it communicates", "it pickles"],
)
def test_communication_in_a_line_is_no_work_of_that_line(called, found):
    samples = sampled([200, 1200], "train.py(5): main;model.py(2): forward")
    samples += sampled(range(720, 1090, 20), f"train.py(5): main;train.py(9): average;{called}")
    samples += sampled(range(1720, 1980, 20), f"train.py(5): main;train.py(9): average;{called}")
    made = divided(**PHASES, samples=samples)
    matched = rows(made, "matches") if "matches" in made.tables else []
    assert [row["pattern"] for row in matched][:1] == found


def test_ranges_that_end_after_the_one_that_they_began_in_cut_across_it():
    spans = np.array([[0, 100], [10, 90], [20, 110], [30, 60], [110, 130], [120, 130]])
    assert np.flatnonzero(crossing(spans)).tolist() == [2]


@pytest.mark.parametrize(
    ("frame", "place"),
    [
        ("torch/_tensor.py(224): __deepcopy__", "train.py(9): log"),
        ("torch/nn/modules/module.py(9): state_dict", "train.py(9): log"),
        ("torch/optim/optimizer.py(9): state_dict", "train.py(9): log"),
        ("torch/optim/lr_scheduler.py(9): step", "train.py(9): log"),
        ("torch/_tensor.py(224): backward", BETWEEN),
        ("torch/nn/modules/module.py(9): _call_impl", BETWEEN),
        ("torch/optim/sgd.py(9): step", BETWEEN),
    ],
)
def test_only_frames_of_phases_keep_a_look_in_another_step_from_telling(frame, place):
    samples = sampled([200, 1200], "train.py(5): main;model.py(2): forward")
    samples += sampled([5000, 6000], f"train.py(4): main;train.py(9): log;{frame}")
    assert tree(divided(**PHASES, samples=samples))["python"]["place"] == place


def looked_at(stack, cpu_share, *, tid=MAIN, queued_share=0):
    """Return looks at a thread in the first step of `CPU`, whose last 300 us are Python.

    It has a core for the `cpu_share` of the time, and is ready without one for the `queued_share`.
    """
    step_us = 20
    looks = sampled(range(0, 1100, step_us), stack)
    return [
        {
            **row,
            "tid": tid,
            "cpu_ns": round(number * step_us * US * cpu_share),
            "queued_ns": round(number * step_us * US * queued_share),
        }
        for number, row in enumerate(looks)
    ]


def test_a_thread_without_a_core_in_a_call_that_acquires_waits_for_a_lock():
    stack = "train.py(9): flush;<built-in function __enter__>"
    holder = looked_at("train.py(4): write;<built-in function sleep>", 0, tid=BACKWARD)
    idle = looked_at("monitor.py(2): run;/usr/lib/python3.11/threading.py(3): wait", 0, tid=9)
    samples = sampled(range(0, 700, 20), "train.py(3): main")
    samples = [{**row, "cpu_ns": number * 20 * US} for number, row in enumerate(samples)]
    waiting = [row for row in looked_at(stack, 0) if row["time_ns"] >= ORIGIN_NS + 700 * US]
    samples += [{**row, "cpu_ns": samples[-1]["cpu_ns"]} for row in waiting]
    threads = [row for row in holder if row["time_ns"] >= ORIGIN_NS + 700 * US] + idle
    result = divided(**CPU, samples=samples, threads=threads)
    assert times(result)["waiting_for_thread.lock"] == 400
    lock = tree(result)["waiting_for_thread.lock"]
    assert lock["place"] == "train.py(9): flush"
    assert json.loads(lock["evidence"]) == {"thread": "train.py(4): write"}


@pytest.mark.parametrize("waits", [False, True])
def test_a_wait_for_a_queue_says_so(waits):
    stack = "train.py(9): main;/usr/lib/python3.11/queue.py(171): get;<built-in function acquire>"
    inside = ";<built-in function sleep>" if waits else ""
    filling = looked_at(f"train.py(4): decode{inside}", 0 if waits else 1, tid=BACKWARD)
    result = divided(**CPU, samples=looked_at(stack, 0), threads=filling)
    lock = tree(result)["waiting_for_thread.lock"]
    evidence = {"thread": "train.py(4): decode", "waits_for": "a queue"}
    evidence |= {"thread_waits": True} if waits else {}
    assert json.loads(lock["evidence"]) == evidence


@pytest.mark.parametrize(("cpu_share", "waits"), [(0, True), (1, False)], ids=["idle", "works"])
def test_a_call_that_sleeps_is_a_wait_with_its_line_and_name(cpu_share, waits):
    samples = looked_at("train.py(9): load;<built-in function sleep>", cpu_share)
    found = tree(divided(**CPU, samples=samples))
    assert ("waiting_in_call" in found) == waits
    if waits:
        cause = found["waiting_in_call"]
        assert (cause["place"], json.loads(cause["evidence"])) == (
            "train.py(9): load",
            {"call": "sleep"},
        )
    else:
        assert found["python"]["place"] == "train.py(9): load"


def test_a_wait_is_no_work_for_what_may_have_run_before_the_next_look():
    samples = sampled(range(0, 700, 20), "train.py(3): main")
    samples += sampled([720], "train.py(9): load;<built-in function sleep>")
    samples += sampled([1720], "train.py(3): main")
    used = (*range(0, 700, 20), 680, 1480)
    samples = [{**row, "cpu_ns": us * US} for row, us in zip(samples, used, strict=True)]
    found = tree(divided(**CPU, samples=samples))
    assert found["waiting_in_call"]["place"] == "train.py(9): load"


@pytest.mark.parametrize(
    ("inner", "call"),
    [
        (
            "subprocess.py(548): run;subprocess.py(1200): communicate;<built-in method poll>",
            "subprocess.run",
        ),
        (
            "multiprocessing/queues.py(103): get;multiprocessing/connection.py(395): _recv",
            "multiprocessing.queues.get",
        ),
    ],
    ids=["a program", "another process"],
)
def test_what_waits_is_named_as_the_program_called_it(inner, call):
    samples = looked_at(f"train.py(9): stamp;{inner}", 0)
    cause = tree(divided(**CPU, samples=samples))["waiting_in_call"]
    assert json.loads(cause["evidence"]) == {"call": call}


@pytest.mark.parametrize(
    ("called", "share_of_other", "waits"),
    [("mm", 1, True), ("sleep", 1, False), ("mm", 0, False)],
    ids=["another thread runs", "it sleeps by itself", "no other thread runs"],
)
def test_a_thread_without_a_core_while_another_one_runs_waits_for_the_gil(
    called, share_of_other, waits
):
    samples = looked_at(f"train.py(9): loop;<built-in function {called}>", 0)
    threads = looked_at("train.py(4): count", share_of_other, tid=BACKWARD)
    result = divided(**CPU, samples=samples, threads=threads)
    found = tree(result).get("waiting_for_thread.gil")
    assert (found is not None) == waits
    assert not waits or json.loads(found["evidence"]) == {"thread": "train.py(4): count"}


def test_another_thread_of_which_no_time_is_known_holds_nothing_up():
    threads = [{**row, "cpu_ns": -1} for row in looked_at("train.py(4): count", 0, tid=BACKWARD)]
    samples = looked_at("train.py(9): loop;<built-in function mm>", 0)
    assert "waiting_for_thread.gil" not in tree(divided(**CPU, samples=samples, threads=threads))


@pytest.mark.parametrize(
    ("own_queue", "others_queue", "waits"),
    [(0, 1, True), (1, 0, False), (1, 1, False)],
    ids=["the holder has no core", "this one has no core", "none has a core"],
)
def test_a_thread_that_asks_for_a_core_in_vain_does_not_wait_for_the_gil(
    own_queue, others_queue, waits
):
    samples = looked_at("train.py(9): loop", 0, queued_share=own_queue)
    threads = looked_at("train.py(4): count", 1 - others_queue, tid=9, queued_share=others_queue)
    result = divided(**CPU, samples=samples, threads=threads)
    assert ("waiting_for_thread.gil" in tree(result)) == waits
    failed = [row["check"] for row in rows(result, "trust") if row["passed"] == "false"]
    assert ("cores" in failed) == bool(own_queue)


SERVING = "serve.py(9): main;socketserver.py(233): serve_forever;<built-in function poll>"
WORKER = (
    "multiprocessing/managers.py(822): _callmethod;connection.py(9): recv;<built-in function read>"
)
RECEIVING = "socket.py(706): readinto;<built-in function recv_into>"
ASKING = f"serve.py(4): look_up;{RECEIVING}"
LOOP = "serve.py(30): main;asyncio/base_events.py(1922): _run_once"
QUEUE = "thread.py(81): _worker;<built-in function get>"


@pytest.mark.parametrize(
    ("own", "server", "share", "waits"),
    [
        ("", SERVING, 0, True),
        (QUEUE, "base_events.py(1898): _run_once;<built-in function select>", 0, True),
        (QUEUE, "serve.py(5): main;socket.py(296): accept;<built-in function _accept>", 0, True),
        (SERVING, "thread.py(3): run;<built-in function sleep>", 0, True),
        (WORKER, "", 0, True),
        ("serve.py(4): answer", SERVING, 0, False),
        ("", SERVING, 1, False),
        (QUEUE, "load.py(5): fetch;<built-in function poll>", 0, False),
        (ASKING, SERVING, 0, False),
        (f"{LOOP};serve.py(9): rank;{ASKING}", SERVING, 0, False),
        (f"{LOOP};selectors.py(4): select;<built-in function select>", "", 0, True),
        ("thread.py(3): run;serve.py(2): serve;<built-in function recv>", SERVING, 0, True),
        (f"{LOOP};serve.py(9): answer;<built-in function sleep>", "", 0, False),
        (f"http/server.py(424): handle_one_request;{RECEIVING}", "", 0, True),
    ],
    ids=[
        *(
            "its thread has ended",
            "a loop of events",
            "a socket",
            "its own thread",
            "a worker process",
        ),
        *("a thread runs Python", "the server is at work", "it waits for something else"),
        *("asks a service", "asks one in a loop of events", "its loop", "waits for its client"),
        *("sleeps in its answer", "reads a request"),
    ],
)
def test_a_server_that_nothing_asks_waits_for_requests(own, server, share, waits):
    samples, threads = looked_at(own, 0), looked_at(server, share, tid=BACKWARD)
    found = tree(divided(**CPU, samples=samples, threads=threads))
    assert ("waiting_for_requests" in found) == waits
    if waits:
        assert found["waiting_for_requests"]["place"] == ""
        assert found.get("python", {"ms_per_step": 0})["ms_per_step"] < 0.1


@pytest.mark.parametrize(("hosts", "threads"), [(("a", "a"), 4), (("a", "b"), 0)])
def test_workers_of_one_host_share_its_cores_though_none_knows_of_the_others(hosts, threads):
    both = {
        name: [row | {"rank": rank} for rank in (0, 1) for row in CPU[name]]
        for name in ("steps", "cpu_ops")
    }
    process = {"rank": 0, "start_ns": ORIGIN_NS, "end_ns": ORIGIN_NS + 2_000 * US, "cores": 2}
    process |= {"ranks_on_host": 1, "operator_threads": 2, "queued_ns": 1_000 * US}
    process |= {"cpu_ns": 900 * US, "involuntary_switches": 9, "repeat": 0}
    where = [{"rank": rank, "repeat": 0, "host": host} for rank, host in enumerate(hosts)]
    samples = looked_at("train.py(4): step", 0, queued_share=0.5)
    result = divided(**both, samples=samples, processes=[process], hosts=where)
    found = [row for row in rows(result, "matches") if row["pattern"] == "oversubscribed_cores"]
    assert [json.loads(row["evidence"])["threads"] for row in found] == [threads] * bool(threads)


def test_a_server_of_one_thread_waits_for_requests_and_in_no_call():
    working = {**looked_at("serve.py(4): answer", 1)[0], "time_ns": ORIGIN_NS + 600 * US}
    samples = [row for row in looked_at(SERVING, 0) if row["time_ns"] >= ORIGIN_NS + 700 * US]
    found = tree(divided(**CPU, samples=[{**working, "cpu_ns": 0}, *samples]))
    assert found["waiting_for_requests"]["ms_per_step"] >= 0.2
    assert "waiting_in_call" not in found


def test_a_training_waits_for_no_request():
    ops = [{**row, "forward": 0 if row["op"] else -1} for row in CPU["cpu_ops"]]
    threads = looked_at(SERVING, 0, tid=BACKWARD)
    found = tree(divided(**{**CPU, "cpu_ops": ops}, samples=looked_at("", 0), threads=threads))
    assert "waiting_for_requests" not in found


def test_a_call_that_acquires_is_work_where_it_keeps_its_core():
    samples = looked_at("train.py(9): flush;<built-in function acquire>", 1)
    assert "waiting_for_thread.lock" not in tree(divided(**CPU, samples=samples))


@pytest.mark.parametrize(
    ("nodes", "unseen_us"),
    [([(850, 900)], 650), ([(310, 900)], 0), ([(600, 650)], 0)],
    ids=["on another thread", "on the thread of the program", "of a small model"],
)
def test_backward_on_a_thread_that_was_not_recorded_is_no_python(nodes, unseen_us):
    """For a GPU autograd works on a thread of its own, and the program waits for it."""
    evaluated = "autograd::engine::evaluate_function: MmBackward0"
    found = divided(
        steps=[step(0, 1000)],
        cpu_ops=[
            op(0, 0, 150),
            op(1, 200, 940, "## backward ##", kind="annotation"),
            *(op(n, *times, evaluated) for n, times in enumerate(nodes, 2)),
        ],
    )
    assert times(found).get("not_recorded", 0) == unseen_us


def test_calls_of_collectives_are_communication_on_the_cpu():
    """Of small messages the call takes longer than what is recorded of the transfer."""
    stack = "train.py(9): average;torch/distributed/distributed_c10d.py(3): all_reduce"
    found = times(divided(**CPU, samples=sampled(range(700, 1100, 20), stack)))
    assert found["exposed_communication.waiting_or_transfer"] == 200 + 400


def test_a_collective_that_an_operator_calls_is_communication():
    ops = [
        op(1, 0, 1000, "ProfilerStep#5", kind="annotation"),
        op(2, 100, 500, "autograd::engine::evaluate_function: AccumulateGrad"),
        op(3, 200, 400, "c10d::allreduce_", parent=2),
        op(4, 250, 300, "aten::copy_", parent=3),
    ]
    found = times(divided(steps=[step(0, 1000)], cpu_ops=ops))
    assert found["cpu_operators"] == 400 - 200 + 50
    assert found["exposed_communication.waiting_or_transfer"] == 200 - 50


@pytest.mark.parametrize(
    ("thread", "next_us", "known_us"),
    [(MAIN, 720, 680), (MAIN, 950, 680), (BACKWARD, 720, 680), (BACKWARD, 950, 0)],
)
def test_communication_of_the_program_is_known_however_few_operators_there_are(
    thread, next_us, known_us
):
    """What it does beside that of other threads is not, unless it goes on when that ends."""
    ops = [
        op(1, 0, 20, "aten::add_"),
        op(2, 20, 700, "gloo:send", tid=thread),
        op(3, 60, 690, "gloo:recv", tid=thread),
        op(4, next_us, next_us + 20, "aten::add_"),
    ]
    found = times(divided(cpu_ops=ops, steps=[step(0, 1000)]))
    assert found["cpu_operators"] == 40
    assert found.get("exposed_communication.waiting_or_transfer", 0) == known_us
    assert found["not_recorded"] == 960 - known_us


def test_collectives_of_other_libraries_on_the_cpu_are_communication():
    ops = [
        op(1, 0, 300, "sgl_kernel::weight_packed_linear"),
        op(2, 300, 500, "_C::shm_allreduce"),
        op(3, 310, 350, "aten::empty", parent=2),
        op(4, 500, 700, "vllm::all_gather"),
        op(5, 700, 900, "aten::scatter_reduce_"),
        op(6, 900, 1000, "aten::broadcast_to"),
    ]
    assert times(divided(cpu_ops=ops, steps=[step(0, 1000)])) == {
        "cpu_operators": 300 + 40 + 300,
        "exposed_communication.waiting_or_transfer": 160 + 200,
    }


LOST = {
    "cpu_ops": [
        op(0, 0, 500, "aten::randn"),
        op(1, 10, 490, "aten::normal_", parent=0),
        op(2, 500, 900, "aten::copy_"),
        op(3, 900, 1000, "aten::mul"),
    ],
    "runtime_calls": [
        call(1, 520, 890, "cudaMemcpyAsync") | {"op": 2},
        call(2, 910, 920) | {"op": 3},
        call(3, 1000, 1500, "cudaFree") | {"op": -1},
    ],
    "steps": [step(0, 2000), step(2000, 2100, 6)],
}


def test_calls_of_a_gpu_that_was_not_recorded_block_and_are_no_python():
    assert times(divided(**LOST)) == {
        "cpu_operators": 500 + 30 + 100,
        "blocked.cudaMemcpyAsync": 370,
        "blocked.cudaFree": 500,
        "python": 500,
    }


@pytest.mark.parametrize(("drawn_with", "is_known"), [(0, True), (1, False)])
def test_what_the_cpu_computes_is_known_whatever_the_gpu_did(drawn_with, is_known):
    """Drawing numbers makes no call, or launches."""
    launch = [call(4, 100, 110) | {"op": drawn_with}] * drawn_with
    found = divided(**LOST | {"runtime_calls": [*LOST["runtime_calls"], *launch]})
    (check,) = [row for row in rows(found, "trust") if row["check"] == "kernels"]
    assert check["passed"] == "false"
    assert ("cpu_operators" not in check["silences"].split()) == is_known
    assert "python" in check["silences"]


def test_collections_while_the_compiler_runs_are_a_part_of_that():
    pause = {"rank": 0, "repeat": 0, "tid": MAIN}
    pause |= {"start_ns": ORIGIN_NS + 700 * US, "end_ns": ORIGIN_NS + 750 * US}
    span = {"tid": MAIN, "kind": "annotation", "start_ns": ORIGIN_NS + 690 * US}
    compiling = CPU["cpu_ops"][0] | span | {"op": 90, "name": "dynamo_timed", "parent": -1}
    compiling["end_ns"] = ORIGIN_NS + 760 * US
    tables = CPU | {"cpu_ops": [*CPU["cpu_ops"], compiling]}
    found = times(divided(**tables, pauses=[pause]))
    assert found["compiler"] == 70
    assert "garbage_collection" not in found


@pytest.mark.parametrize(("looked_at", "gained"), [(0, 25), (2, 25), (20, 2.5)])
def test_a_collection_in_few_traced_steps_counts_over_all_that_were_looked_at(looked_at, gained):
    pause = {"rank": 0, "repeat": 0, "tid": MAIN}
    pause |= {"start_ns": ORIGIN_NS + 700 * US, "end_ns": ORIGIN_NS + 750 * US}
    seen = [step(number * 1_000, number * 1_000 + 900, number) for number in range(looked_at)]
    seen = [{name: of[name] for name in of if name != "samples"} for of in seen]
    found = tree(divided(**CPU, pauses=[pause], sampled_steps=seen))["garbage_collection"]
    assert (found["ms_per_step"], found["gain_ms"]) == (0.025, pytest.approx(gained / 1e3))


def test_garbage_collection_is_a_cause_of_its_own():
    pause = {"rank": 0, "repeat": 0, "tid": MAIN}
    pause |= {"start_ns": ORIGIN_NS + 700 * US, "end_ns": ORIGIN_NS + 750 * US}
    assert times(divided(**CPU, pauses=[pause]))["garbage_collection"] == 50
    assert times(divided(**GPU, pauses=[pause])).get("gpu_idle.garbage_collection") is None


@pytest.mark.parametrize(
    ("phase", "operation", "evidence"),
    [
        ("backward", "allreduce", {"operation": "allreduce", "operation_share": 0.8}),
        ("forward", "send", {"operation": "send", "operation_share": 0.8, "program": "inference"}),
        ("backward", "", {"operation": "barrier", "operation_share": 1.0}),
    ],
)
@pytest.mark.parametrize(
    ("ranges", "library"),
    [
        ("DistributedDataParallel.forward", "DDP"),
        ("FSDP::pre_forward (layers.0)", "FSDP"),
        ("DeepSpeedEngine.forward", "ZeRO"),
        ("epoch", "none"),
    ],
)
def test_exposed_communication_says_what_most_of_it_is(phase, operation, evidence, ranges, library):
    def collective(number, start_us, end_us, what):
        row = at(start_us, end_us, kind="host", operation=what, group="g", group_size=2)
        del row["tid"]
        return row | {"collective": number, "sequence": -1, "op": -1, "call_ns": row["start_ns"]}

    ops = [
        op(1, 0, 500, "aten::linear", phase=phase),
        op(2, 400, 900, "gloo:all_reduce", tid=BACKWARD, kind="annotation"),
        op(3, 900, 1000, "gloo:barrier", tid=BACKWARD, kind="annotation"),
        op(4, 0, 10, ranges, kind="annotation"),
    ]
    calls = [collective(0, 400, 900, operation), collective(1, 900, 1000, "barrier")]
    found = tree(divided(steps=[step(0, 1000)], cpu_ops=ops, collectives=calls))
    exposed = json.loads(found["exposed_communication.waiting_or_transfer"]["evidence"])
    assert exposed == evidence | {"on_cpu": 1, "library": library}


@pytest.mark.parametrize(("phase", "read", "count"), [
    ("forward", "aten::item", 3), ("forward", "aten::mul", None), ("backward", "aten::item", None),
])  # fmt: skip
def test_calls_outside_of_backward_whose_results_are_read_as_numbers_are_counted(
    phase, read, count
):
    ops = [op(9, 0, 100)]
    for number, start in enumerate((200, 400, 600)):
        ops += [
            op(10 + number, start, start + 10, "c10d::allreduce_", phase=phase),
            op(20 + number, start + 10, start + 90, "gloo:all_reduce", tid=BACKWARD,
               kind="annotation"),
            op(30 + number, start + 100, start + 110, read, phase=phase),
        ]  # fmt: skip
    rows = []
    for number, start in enumerate((200, 400, 600)):
        row = at(start, start + 90, kind="host", operation="allreduce", group="g", group_size=2)
        del row["tid"]
        rows.append(row | {"collective": number, "sequence": -1, "op": -1, "size_bytes": -1,
                           "call_ns": row["start_ns"]})  # fmt: skip
    found = tree(divided(steps=[step(0, 1000)], cpu_ops=ops, collectives=rows))
    evidence = json.loads(found["exposed_communication.waiting_or_transfer"]["evidence"])
    assert evidence.get("calls_per_step") == count


@pytest.mark.parametrize(
    ("function", "inside", "computed"),
    [
        # The program's own function waits, from its call on, for what is sent by another thread.
        ("Reduce", "aten::mul", 300 + 50 + 60 + 20),
        ("Reduce", "_c10d_functional::wait_tensor", 300 + 50 + 20),
        # What a compiler made computes without operators.
        ("CompiledFunction", "aten::mul", 300 + 600 - 20),
    ],
)
def test_an_operator_that_waits_for_its_collective_does_not_compute(function, inside, computed):
    ops = [
        op(0, 0, 300),
        op(1, 400, 1000, function),
        op(2, 450, 470, "c10d::allreduce_", parent=1),
        op(3, 470, 980, "gloo:all_reduce", tid=BACKWARD, kind="annotation"),
        op(4, 800, 860, inside, parent=1),
    ]
    assert times(divided(steps=[step(0, 1000)], cpu_ops=ops))["cpu_operators"] == computed


@pytest.mark.parametrize("is_known", [True, False])
def test_exposed_communication_says_what_calls_of_its_size_take_at_best(is_known):
    """Four sends of one size take 10 us, and one waits; one of another size is alone."""
    lengths = {10: 100, 20: 100, 30: 100, 40: 100, 500: 100, 300: 5_000}
    calls, ops, start = [], [op(0, 0, 2_000)], 10
    for number, (us, size) in enumerate(lengths.items()):
        row = at(start, start + us, kind="device", operation="sendrecv", dtype="bfloat16")
        row["size_bytes"] = size if is_known else -1
        del row["tid"]
        calls.append(row | {"collective": number, "op": -1, "call_ns": row["start_ns"]})
        start += us
    kernels = [kernel(1, 0, 10), kernel(2, 10, start, "ncclDevKernel_SendRecv", "communication")]
    found = tree(divided(cpu_ops=ops, kernels=kernels, collectives=calls))
    evidence = json.loads(found["exposed_communication.waiting_or_transfer"]["evidence"])
    known = {"message_bytes": 100, "fastest_ns": 10_000, "dtype": "bfloat16"}
    known["at_best_share"] = round((5 * 10 + 300) / 900, 3)
    operation = {"operation": "sendrecv", "operation_share": 1.0, "program": "inference"}
    assert evidence == operation | {"library": "none"} | (known if is_known else {})


def arriving(*arrivals_us):
    """Return the tables of ranks that come to one collective at these times, which ends at 900."""

    def on(rank, arrives_us):
        collective = {"collective": 0, "operation": "allreduce", "group": "g", "sequence": 1}
        collective |= {"group_size": len(arrivals_us), "correlation": 2, "op": 0, "name": "nccl"}
        allreduce = at(arrives_us, 900, rank=rank, kind="device", **collective)
        del allreduce["tid"]
        return {
            "steps": [step(0, 1000, rank=rank)],
            "cpu_ops": [op(0, 0, 1000, rank=rank)],
            "collectives": [allreduce],
            "kernels": [
                kernel(1, 10, 300, rank=rank),
                kernel(2, arrives_us, 900, "ncclDevKernel", "communication", rank=rank),
            ],
            "runtime_calls": [
                call(1, 5, 6, rank=rank),
                call(2, arrives_us - 5, arrives_us - 4, rank=rank),
            ],
        }

    ranks = [on(rank, arrives_us) for rank, arrives_us in enumerate(arrivals_us)]
    return {name: [row for rank in ranks for row in rank[name]] for name in ranks[0]}


def test_who_waits_in_a_collective_is_told_from_who_is_waited_for():
    result = divided(**arriving(400, 800))
    assert times(result, 0)["exposed_communication.waiting"] == 400
    assert times(result, 1).get("exposed_communication.waiting", 0) == 0
    assert {times(result, rank)["exposed_communication.transfer"] for rank in (0, 1)} == {100}
    evidence = json.loads(tree(result)["exposed_communication.waiting"]["evidence"])
    assert evidence["late_rank"] == 1
    assert [row["rank"] for row in rows(result, "ranks") if row["decisive"] == "true"] == [0]


def test_of_a_program_of_which_ranges_alone_are_known_the_innermost_ones_say_where_it_was():
    ranges = [
        op(0, 0, 1000, "ProfilerStep#5", kind="annotation"),
        op(1, 0, 900, "detect", kind="annotation", parent=0),
        op(2, 100, 700, "backbone", kind="annotation", parent=1),
        op(3, 900, 1000, "draw", kind="annotation", parent=0),
    ]
    (row,) = rows(divided(cpu_ops=ranges, steps=[step(0, 1000)]), "causes")
    assert (row["id"], row["place"]) == ("not_recorded", "backbone")
    assert json.loads(row["evidence"]) == {"at_place_share": 0.6}


def test_without_operators_a_rank_is_held_up_once_it_calls_no_further_collective():
    """Rank 0 comes at 100 and 300, works in between, and waits for rank 1, which comes at 700."""

    def on(rank, *arrivals_us):
        calls = [
            at(arrives_us, end_us, rank=rank, kind="host", operation="allreduce", group="g")
            | {"group_size": 2, "sequence": number, "collective": number, "op": -1}
            for number, (arrives_us, end_us) in enumerate(zip(arrivals_us, (730, 800), strict=True))
        ]
        for row in calls:
            row["call_ns"] = row["start_ns"]
            del row["tid"]
        phase = op(0, 0, 50, "data", kind="annotation", rank=rank)
        steps = [step(0, 1000, rank=rank), step(1000, 1900, 6, rank=rank)]
        return {"steps": steps, "cpu_ops": [phase], "collectives": calls}

    both = [on(0, 100, 300), on(1, 650, 700)]
    result = divided(**{name: both[0][name] + both[1][name] for name in both[0]})
    assert times(result, 0) == {
        "loading_data": 50,
        "exposed_communication.waiting": 400,
        "exposed_communication.transfer": 100,
        "not_recorded": 450,
    }
    assert times(result, 1).get("exposed_communication.waiting", 0) == 0
    assert {row["step"] for row in rows(result, "by_step")} == {5}, "no collective of step 6"


def test_slow_first_steps_and_the_profilers_own_end_are_left_out():
    steps = [step(0, 900, 5), step(900, 1000, 6), step(1000, 1100, 7), step(1100, 1600, 8)]
    ops = [
        op(n, row["start_ns"] // US - ORIGIN_NS // US, 0, step=row["step"])
        for n, row in enumerate(steps)
    ]
    for row, made in zip(steps, ops, strict=True):
        made["start_ns"], made["end_ns"] = row["start_ns"], row["start_ns"] + 90 * US
    ops[0]["end_ns"] = steps[0]["end_ns"]
    found = divided(steps=steps, cpu_ops=ops)
    even = [step(n * 100, n * 100 + 100, n + 5) for n in range(4)]
    work = [op(n, n * 100, n * 100 + 60, step=n + 5) for n in range(4)]
    kept = rows(divided(steps=even, cpu_ops=work), "by_step")
    assert {row["step_time_ns"] // US for row in kept} == {100}
    lengths = [row["step_time_ns"] // US for row in rows(found, "by_step")]
    assert lengths == [100, 100, 90]
    (check,) = [row for row in rows(found, "trust") if row["check"] == "steps"]
    assert "1 slow first step (900 µs) left out" in check["message"]


@pytest.mark.parametrize(("queued_us", "whole_us"), [(5000, 100), (500, 610)])
@pytest.mark.parametrize("name", ["cudaLaunchKernel", "hipMemcpyWithStream"])
def test_a_recording_begins_with_a_kernel_that_waited_for_work_from_before(
    queued_us, whole_us, name
):
    """A synchronous copy has been launched when its call begins, and ends with that."""
    until_us = queued_us + 60 if name == "hipMemcpyWithStream" else 10
    found = divided(
        steps=[],
        cpu_ops=[op(0, 0, 10)],
        runtime_calls=[call(1, 5, until_us, name=name), call(2, 6, 10)],
        kernels=[
            kernel(1, queued_us + 10, queued_us + 60),
            kernel(2, queued_us + 60, queued_us + 110),
        ],
    )
    parts = times(found)
    computing = sum(time for name, time in parts.items() if name.startswith("gpu_computing"))
    assert (computing, sum(parts.values())) == (100, whole_us)


@pytest.mark.parametrize(("small_us", "whole_us"), [(5, 100), (500, 5110)])
def test_a_stream_that_waits_for_work_from_before_begins_the_recording(small_us, whole_us):
    """Another stream has done little meanwhile, or as much as the first may have waited for."""
    found = divided(
        steps=[],
        cpu_ops=[op(0, 0, 10)],
        runtime_calls=[call(1, 0, 2), call(2, 3, 5), call(3, 6, 10)],
        kernels=[
            kernel(1, 5, 5 + small_us, stream=7),
            kernel(2, 5010, 5060, stream=9),
            kernel(3, 5060, 5110, stream=9),
        ],
    )
    assert sum(times(found).values()) == whole_us


@pytest.mark.parametrize(
    ("recorded", "step_us", "is_doubted"), [((2, 3, 4), 300, False), ((2,), 1200, True)]
)
def test_the_first_step_begins_when_the_gpu_is_done_with_what_was_launched_before(
    recorded, step_us, is_doubted
):
    """The first kernel has no launch. Where later ones have none as well, it was lost."""
    found = divided(
        steps=[step(0, 500)],
        cpu_ops=[op(0, 0, 500)],
        runtime_calls=[call(number, 100 * number, 100 * number + 10) for number in recorded],
        kernels=[
            kernel(1, 5, 900),
            *(kernel(number, 100 * number + 710, 100 * number + 800) for number in (2, 3, 4)),
        ],
    )
    (row,) = rows(found, "by_step")
    assert row["step_time_ns"] == step_us * US
    assert any(row["check"] == "launches" for row in rows(found, "trust")) == is_doubted


@pytest.mark.parametrize(
    ("begun_us", "step_us", "said"),
    [
        (5, 300, "; 900 µs of earlier GPU work left out: one-off"),
        (800, 1200, "1 steady step traced in 1 repeat: one-off"),
    ],
    ids=["busy", "idle"],
)
def test_a_step_is_whole_where_work_from_before_left_the_gpu_idle(begun_us, step_us, said):
    """Else what the CPU did meanwhile, as loading data, would be missing."""
    found = divided(
        steps=[step(0, 500)],
        cpu_ops=[op(0, 0, 500)],
        runtime_calls=[call(number, 100 * number, 100 * number + 10) for number in (2, 3, 4)],
        kernels=[
            kernel(1, begun_us, 900),
            *(kernel(number, 100 * number + 710, 100 * number + 800) for number in (2, 3, 4)),
        ],
    )
    (row,) = rows(found, "by_step")
    assert row["step_time_ns"] == step_us * US
    assert any(said in row["message"] for row in rows(found, "trust"))


@pytest.mark.parametrize("steps", [[], [step(0, 5600)]], ids=["no step", "one step"])
def test_patterns_know_operators_of_what_the_gpu_does_after_work_from_before(steps):
    """The GPU begins with the recording 5 ms after the CPU, which has launched all of it then."""
    number = 5 if steps else -1
    names = ["aten::bmm", "aten::div", "aten::_softmax", "aten::bmm"]
    found = divided(
        steps=steps,
        cpu_ops=[op(n, 10 * n, 10 * n + 9, name, step=number) for n, name in enumerate(names)],
        runtime_calls=[call(n, 10 * n + 5, 10 * n + 7, step=number) for n in range(4)],
        kernels=[
            kernel(n, 5000 + 100 * n, 5100 + 100 * n, "sgemm", op=n, step=number) for n in range(4)
        ],
    )
    covered = {row["pattern"]: row["covered_ms"] for row in rows(found, "matches")}
    assert covered["unfused_attention"] == pytest.approx(0.2)


def test_what_the_profiler_slows_down_is_no_idle_time_of_the_gpu():
    """The step of 2,000 µs takes 1,600 without: a GPU that waits for Python waits so much less."""
    slowdown = {"recordings": {"x": Recording()}, "observer_tax": slowed(4, 1600)}
    plain, found = tree(divided(**GPU)), tree(divided(**GPU | slowdown))
    assert found["profiler_overhead"]["ms_per_step"] == pytest.approx(0.4)
    assert found["profiler_overhead"]["gain_ms"] == 0
    assert found["gpu_computing"] == plain["gpu_computing"]
    less = ("gpu_idle.python", "gpu_idle.loading_data")
    before, after = (sum(one[name]["ms_per_step"] for name in less) for one in (plain, found))
    assert before - after == pytest.approx(0.4)
    for name in less:
        ratio = found[name]["gain_ms"] / plain[name]["gain_ms"]
        assert ratio == pytest.approx(after / before)
    assert found["gpu_idle.blocked"] == plain["gpu_idle.blocked"]
    tops = [row["ms_per_step"] for name, row in found.items() if "." not in name]
    assert sum(tops) == pytest.approx(2)
    assert tree(divided(**CPU | slowdown)) == tree(divided(**CPU))
    all_of_it = tree(divided(**GPU | slowdown | {"observer_tax": slowed(1000)}))
    assert not {*less, "gpu_idle.python"} & all_of_it.keys()


def test_where_all_kernels_are_misplaced_and_no_operator_is_there_nothing_is_divided():
    far = [kernel(1, -5e9, -4.9e9), kernel(2, -4.8e9, -4.7e9)]
    calls = [call(1, 300, 310), call(2, 320, 330)]
    found = divided(kernels=far, runtime_calls=calls)
    assert not found.tables
    assert "far from their launches" in found.abstentions[0].reason


@pytest.mark.parametrize(
    ("name", "says"),
    [("cudaLaunchKernel", "GPU work was launched"), ("cudaGetDevice", "no operator and no kernel")],
)
def test_where_nothing_but_calls_was_recorded_it_is_said_whether_there_was_work(name, says):
    found = divided(runtime_calls=[call(1, 300, 310) | {"name": name}])
    assert found.abstentions[0].reason.startswith(says)


def slowed(ratio, unprofiled_us=0):
    metric = Metric(value=ratio, unit="ratio", title="")
    usual = Metric(value=unprofiled_us * US, unit="ns", title="")
    return Result(metrics={"x_slowdown_ratio": metric, "unprofiled_step_time_ns": usual})


@pytest.mark.parametrize(("traced_us", "passed"), [(2_500, False), (1_100, True)])
def test_traced_steps_that_are_slower_than_most_without_the_profiler_too_are_said_to_be(
    traced_us, passed
):
    by_tool = Table(title="", columns=("tool", "baseline_ns"), rows=(("x", traced_us * US),))
    tax = replace(slowed(1.0, 1_000), tables={"by_tool": by_tool})
    found = divided(**CPU, recordings={"x": Recording()}, observer_tax=tax)
    failed = [row["message"] for row in rows(found, "trust") if row["check"] == "usual steps"]
    assert (not failed) == passed
    assert passed or "take 2.5 times as long as steps of the whole run" in failed[0]


@pytest.mark.parametrize(
    ("tables", "check", "part"),
    [
        ({"kernels": GPU["kernels"], "steps": GPU["steps"]}, "CPU", "not recorded"),
        (
            {"cpu_ops": CPU["cpu_ops"], "steps": [], "devices": [{"device": 0}]},
            "GPU",
            "no work of it",
        ),
        ({"cpu_ops": CPU["cpu_ops"]}, "steps", "No step was marked"),
        (
            GPU | {"kernels": [*GPU["kernels"], kernel(6, -5e9, -4.9e9)]},
            "misplaced kernels",
            "1 kernel lies far from its launch",
        ),
        (
            CPU | {"recordings": {"x": Recording(notes=("3 samples were lost.",))}},
            "lost events",
            "3",
        ),
        (
            CPU | {"recordings": {"x": Recording(warnings=("other processes took 20 %",))}},
            "machine",
            "Other processes",
        ),
        (
            CPU | {"recordings": {"x": Recording()}, "observer_tax": slowed(2.5)},
            "profiler overhead",
            "2.50 times as long",
        ),
    ],
)
def test_a_recording_that_cannot_be_trusted_says_why(tables, check, part):
    failed = {
        row["check"]: row for row in rows(divided(**tables), "trust") if row["passed"] == "false"
    }
    assert part in failed[check]["message"]


@pytest.mark.parametrize(
    ("operator_us", "copy_us", "is_excerpt"),
    [(19_000, 100, False), (100, 19_000, False), (9, 9, True)],
)
def test_few_rows_that_fill_the_step_on_either_side_are_no_excerpt(
    operator_us, copy_us, is_excerpt
):
    found = divided(
        steps=[step(0, 20_000)],
        cpu_ops=[op(0, 0, operator_us, "aten::normal_")],
        kernels=[kernel(1, 20_000 - copy_us, 20_000, "Memcpy HtoD", "copy", copy_kind="HtoD")],
        runtime_calls=[call(1, 20_000 - copy_us - 6, 20_000 - copy_us - 2, "cudaMemcpyAsync")],
    )
    failed = {row["check"] for row in rows(found, "trust") if row["passed"] == "false"}
    assert ("excerpt" in failed) == is_excerpt


def test_times_of_today_lose_no_nanosecond():
    odd = {**GPU, "kernels": [{**row, "end_ns": row["end_ns"] + 1} for row in GPU["kernels"]]}
    assert times(divided(**odd))["gpu_computing"] == 385.002


def test_of_many_ranks_some_and_that_of_the_verdict_have_parts():
    lengths = {0: 2000, 1: 2000, 2: 2001, 3: 2500}
    ranks = [
        {
            "steps": [step(0, length, rank=rank)],
            "cpu_ops": [op(0, 300, 1900, rank=rank)],
            "kernels": [kernel(1, 305, 600, rank=rank)],
            "runtime_calls": [call(1, 300, 310, rank=rank)],
        }
        for rank, length in lengths.items()
    ]
    every = {name: [row for rank in ranks for row in rank[name]] for name in ranks[0]}
    whole, some = divided(**every), divided(**every, most_ranks=2)
    assert {row["rank"] for row in rows(whole, "parts")} == {0, 1, 2, 3}
    kept = [row for row in rows(whole, "parts") if row["rank"] in (0, 3)]
    assert rows(some, "parts") == kept
    assert [tree(some, rank) for rank in (0, 3)] == [tree(whole, rank) for rank in (0, 3)]
    times_of = [
        {cause: row["ms_per_step"] for cause, row in tree(result, 1).items()}
        for result in (some, whole)
    ]
    assert times_of[0].items() < times_of[1].items()
    assert rows(some, "by_step") == rows(whole, "by_step")
    assert [one.what for one in some.abstentions] == ["modules, operators and lines of 2 ranks"]
    one = divided(**every, most_ranks=1)
    assert {row["rank"] for row in rows(one, "parts")} == {0, 3}


def test_of_many_ranks_the_one_that_the_verdict_waits_for_has_parts_too():
    waiting = arriving(600, 400, 800, 700)
    whole, some = divided(**waiting), divided(**waiting, most_ranks=1)
    assert {row["rank"] for row in rows(some, "parts")} == {0, 1, 2}
    assert [tree(some, rank) for rank in (0, 1, 2)] == [tree(whole, rank) for rank in (0, 1, 2)]
    assert tree(some, 1)["exposed_communication.waiting"]["ms_per_step"] == 0.4
    assert [one.reason.partition(":")[0] for one in some.abstentions] == [
        "ranks 0, 1, 2 stand for all 4"
    ]


@pytest.mark.parametrize(("at_us", "are_empty"), [(600, False), (5000, True)])
def test_steps_in_which_nothing_ran_are_none(at_us, are_empty):
    ran = [op(0, 0, 400, step=-1), op(1, 500, 1000, step=-1 if are_empty else 5)]
    found = divided(steps=[step(at_us, at_us + 20)], cpu_ops=[*ran, op(2, 6000, 6100, step=-1)])
    reasons = [one.reason for one in found.abstentions]
    said = "the steps that were marked are empty"
    assert any(reason.startswith(said) for reason in reasons) == are_empty
