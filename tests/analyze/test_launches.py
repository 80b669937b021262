import json
from functools import partial

import numpy as np
import pytest

from profkit import testing
from profkit.analyze import launches
from profkit.analyze._launch_queue import queue
from profkit.analyze.base import NO_GPU_WORK
from profkit.testing import rows, span


def kernel(start, end, correlation, **rest):
    return span(start, end, correlation=correlation, device=0, stream=7, kind="compute") | rest


def call(start, end, correlation, name="cudaLaunchKernel", **rest):
    return span(start, end, correlation=correlation, name=name) | rest


run = partial(testing.run, launches.analyze, skip_first=0, points=2)


def test_cost_and_delay_of_launches_and_kernels_shorter_than_them():
    result = run(
        steps=[span(0, 100)],
        kernels=[kernel(8, 28, 1), kernel(30, 33, 2), kernel(40, 50, 3, stream=8)],
        runtime_calls=[
            call(0, 10, 1),
            call(10, 16, 2),
            call(16, 20, 3, name="cudaMemcpyAsync"),
            call(20, 90, 0, name="cudaStreamSynchronize"),
        ],
    )
    assert rows(result, "by_call") == [
        {
            "name": "cudaLaunchKernel", "launches": 2, "kernels": 2, "call_ns": 16,
            "mean_call_ns": 8, "median_call_ns": 8, "kernel_ns": 23, "mean_delay_ns": 7,
            "median_delay_ns": 7, "max_delay_ns": 14, "shorter_share": 0.5,
        },
        {
            "name": "cudaMemcpyAsync", "launches": 1, "kernels": 1, "call_ns": 4,
            "mean_call_ns": 4, "median_call_ns": 4, "kernel_ns": 10, "mean_delay_ns": 20,
            "median_delay_ns": 20, "max_delay_ns": 20, "shorter_share": 0,
        },
    ]  # fmt: skip
    (rank,) = rows(result, "by_rank")
    assert rank["launch_share"] == 0.2
    # Stream 7 has 1 entry from 0 to 8 and 10 to 30, of 30 ns; stream 8 from 16 to 40, of 24.
    assert rank["mean_length"] == pytest.approx((28 + 24) / 54)
    assert [row["mean_length"] for row in rows(result, "by_stream")] == [28 / 30, 1]
    assert [(row["time_ns"], row["mean_length"], row["max_length"]) for row in rows(result, "queue")
            ] == [(0, 13 / 15, 1), (15, 1, 1)]  # fmt: skip


def test_a_call_that_holds_the_cpu_is_no_launch():
    pageable = {"kind": "copy", "name": "Memcpy HtoD (Pageable -> Device)"}
    result = run(
        steps=[span(0, 1_000_000)],
        kernels=[
            kernel(8, 28, 1),
            kernel(200_000, 200_010, 2) | pageable,
            kernel(700_000, 700_100, 3),
        ],
        runtime_calls=[
            call(0, 10, 1),
            call(100, 200_100, 2, name="cudaMemcpyAsync"),
            call(300_000, 700_000, 3),
        ],
    )
    assert result.metrics["call_ns"].value == 10, "the others hold the CPU: a copy, a cold kernel"
    assert result.metrics["shorter_share"].value == 0
    (rank,) = rows(result, "by_rank")
    assert (rank["launch_share"], rank["held_share"]) == (1e-5, 0.6)


def test_a_graph_shares_one_launch_among_its_kernels():
    result = run(
        kernels=[kernel(20, 24, 1), kernel(24, 26, 1), kernel(26, 30, 1)],
        runtime_calls=[call(0, 9, 1, name="cudaGraphLaunch")],
    )
    (row,) = rows(result, "by_call")
    assert (row["launches"], row["kernels"], row["call_ns"]) == (1, 3, 9)
    assert row["shorter_share"] == pytest.approx(1 / 3)
    assert rows(result, "by_stream")[0]["max_length"] == 3


def test_a_full_queue_blocks_the_calls_meanwhile():
    result = run(
        kernels=[kernel(50, 60, 1), kernel(60, 70, 2), kernel(70, 80, 3)],
        runtime_calls=[call(0, 5, 1), call(5, 10, 2), call(10, 30, 3)],
        steps=[span(0, 100)],
        full_queue=2,
    )
    (row,) = rows(result, "by_stream")
    # Two entries or more wait from 5 to 60; the calls in that time take 5 and 20.
    assert (row["full_ns"], row["blocked_ns"], row["max_length"]) == (55, 25, 3)
    assert result.metrics["blocked_share"].value == 0.25


def test_work_that_begins_before_its_launch_never_makes_a_queue_negative():
    line = queue(np.array([10, 20]), np.array([5, 25]))
    assert line.times_ns.tolist() == [10, 10, 20, 25]
    assert line.length.tolist() == [1, 0, 1, 0]


def test_warm_up_steps_and_unknown_launches_are_left_out():
    result = run(
        kernels=[kernel(5, 9, 1), kernel(25, 29, 2, step=1), kernel(30, 31, 9, step=1)],
        runtime_calls=[call(0, 5, 1), call(20, 25, 2, step=1)],
        steps=[span(0, 20), span(20, 32, step=1)],
        skip_first=1,
    )
    assert rows(result, "by_call")[0]["kernels"] == 1
    assert result.abstentions[0].reason == (
        "of 1 of 2 kernels, copies and sets the launch was not recorded"
    )


def test_no_launch_is_said():
    assert run().abstentions[0].reason == NO_GPU_WORK
    assert run(kernels=[kernel(0, 10, 1)]).abstentions[0].reason.startswith("no call")


def whole(rows):
    """Return times in whole microseconds as HTA has them: starts rounded up, ends down."""
    return rows.assign(
        start_ns=-(-rows["start_ns"] // 1000) * 1000, end_ns=rows["end_ns"] // 1000 * 1000
    )


TRACES = {
    "hta_nccl_data_A100": "hta/nccl_parser_config/nccl_data.json.gz",
    "hta_trace_diff_control_A100_rank3of8": "hta/trace_diff/control/control.json.gz",
    "hta_trace_diff_test_V100_rank1of2": "hta/trace_diff/test/test.json.gz",
    "kineto_resnet50_nw0_V100": (
        "tensorboard/resnet50_num_workers_0/worker0.1623143566756.pt.trace.json.gz"
    ),
    "param_dlrm_8rank_V100": "dlrm_8rank_v100/worker0_step_12.1694128201545.pt.trace.json.gz",
}
# What HTA counts as launches.
COUNTED = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cudaMemcpyAsync", "cudaMemsetAsync")


@pytest.mark.parametrize("name", TRACES)
def test_launches_and_queues_equal_those_of_hta(real_data, converted, name):
    expected = json.loads((real_data / "expected" / "hta" / f"{name}.json").read_text())
    tables = converted(real_data / "kineto" / TRACES[name])
    kernels, calls = tables["kernels"], tables["runtime_calls"]
    result = launches.analyze.run(
        kernels=whole(kernels[kernels["step"].isin(expected["profiler_steps"])]),
        runtime_calls=whole(calls[calls["name"].isin(COUNTED)]),
        steps=tables["steps"],
        config=launches.Config(),
    )
    rank, theirs = next(iter(expected["kernel_launch_stats"].items()))
    (ours,) = rows(result, "by_rank")
    assert ours["kernels"] == theirs["n"]
    assert ours["call_ns"] == 1000 * theirs["cpu_dur"]
    assert ours["kernel_ns"] == 1000 * theirs["gpu_dur"]
    assert ours["mean_delay_ns"] == pytest.approx(1000 * theirs["delay_mean"])
    assert ours["max_delay_ns"] == 1000 * theirs["delay_max"]
    streams = {row["stream"]: row for row in rows(result, "by_stream")}
    summary = expected["queue_length_summary"]
    for (of_rank, stream), values in zip(summary["index"], summary["data"], strict=True):
        if of_rank == int(rank):
            line = streams[stream]
            assert (2 * line["kernels"], line["max_length"]) == (values[0], values[-1])
            # Where a launch and a start share a microsecond HTA takes them in any order.
            assert line["mean_after_changes"] == pytest.approx(values[1], rel=1e-3, abs=0.02)
