import json

import pytest

from profkit import testing
from profkit.analyze import kernels
from profkit.analyze.base import NO_GPU_WORK
from profkit.testing import rows

WHERE = {"rank": 0, "repeat": 0, "device": 0, "stream": 7, "kind": "compute", "step": 0}


def work(name, start, end, **rest):
    return WHERE | {"name": name, "start_ns": start, "end_ns": end} | rest


def run(*launches, **settings):
    return testing.run(kernels.analyze, kernels=launches, **settings)


def test_kernels_are_summed_by_name_with_their_share_of_the_busy_time():
    result = run(work("gemm", 0, 30), work("gemm", 40, 50), work("relu", 60, 80))
    assert rows(result, "by_name") == [
        {"name": "gemm", "kind": "compute", "calls": 2, "total_ns": 40}
        | {"busy_share": 40 / 60, "mean_ns": 20.0, "min_ns": 10, "max_ns": 30},
        {"name": "relu", "kind": "compute", "calls": 1, "total_ns": 20}
        | {"busy_share": 20 / 60, "mean_ns": 20.0, "min_ns": 20, "max_ns": 20},
    ]


def test_calls_of_a_kernel_side_by_side_are_no_more_than_the_busy_time():
    result = run(
        work("copy", 0, 40),
        work("copy", 10, 50, stream=8),
        work("copy", 20, 30, stream=9),
        work("copy", 60, 70),
        work("copy", 0, 20, device=1),
    )
    (row,) = rows(result, "by_name")
    assert (row["calls"], row["total_ns"], row["busy_share"]) == (5, 120, 1.0)


def test_busy_time_is_the_union_over_streams_and_kinds():
    result = run(
        work("gemm", 0, 50),
        work("nccl", 20, 70, stream=9, kind="communication"),
        work("Memcpy HtoD", 100, 110, kind="copy", size_bytes=64),
        work("other device", 5, 6, device=1),
    )
    first, second = rows(result, "by_device")
    assert first == {
        "rank": 0, "repeat": 0, "device": 0, "streams": 2, "span_ns": 110, "busy_ns": 80,
        "busy_share": 80 / 110, "compute_ns": 50, "communication_ns": 50, "copy_ns": 10,
        "set_ns": 0,
    }  # fmt: skip
    assert (second["busy_ns"], second["busy_share"]) == (1, 1.0)
    assert result.metrics["busy_share"].value == 81 / 111
    assert [row["size_bytes"] for row in rows(result, "by_name")] == [None, None, 64.0, None]


def test_occupancy_is_weighted_by_time_and_unknown_where_no_kernel_tells():
    launches = [
        work("a", 0, 30, occupancy_percent=50.0),
        work("a", 30, 40, occupancy_percent=10.0),
        work("b", 40, 100),
    ]
    result = run(*launches)
    assert [row["occupancy_percent"] for row in rows(result, "by_name")] == [None, 40.0]
    assert result.metrics["occupancy_percent"].value == 40.0
    assert [abstention.what for abstention in run(launches[2]).abstentions] == ["occupancy"]


def test_small_kernels_and_launches_per_step_are_counted():
    result = run(
        work("a", 0, 5), work("b", 10, 40), work("c", 50, 51, kind="set"),
        work("d", 60, 99, step=1), work("e", 100, 200, step=-1), small_kernel_ns=10,
    )  # fmt: skip
    assert result.metrics["small_kernel_share"].value == 0.25
    assert result.metrics["calls_per_step"].value == 2.0


def test_no_device_work_is_said():
    assert run().abstentions[0].reason == NO_GPU_WORK


# Busy and total time in ms that TraceLens reports for the whole trace.
TRACELENS = {
    "h100/Falconsai_nsfw_image_detection__1016002.json.gz": (1.2253, 7.5598),
    "h100/gaunernst_bert-small-uncased__1016001.json.gz": (0.3094, 3.9078),
    "h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz": (45.6473, 49.6528),
    "mi300/Falconsai_nsfw_image_detection__1016002.json.gz": (1.7163, 6.8688),
    "mi210_gpu_only_trace.json.gz": (5.3434, 5.9795),
    "sglang_Qwen3-8B_decode.json.gz": (9.7729, 473.7499),
}


@pytest.mark.parametrize("name", TRACELENS)
def test_busy_time_equals_that_of_tracelens(real_data, converted, name):
    frame = converted(real_data / "kineto" / "tracelens" / name)["kernels"]
    result = kernels.analyze.run(frame, config=kernels.Config())
    (device,) = rows(result, "by_device")
    busy, span = TRACELENS[name]
    assert abs(device["busy_ns"] / 1e6 - busy) < 1e-3
    assert abs(device["span_ns"] / 1e6 - span) < 1e-3


def test_idle_shares_of_eight_ranks_equal_those_of_hta(real_data, converted):
    expected = json.loads((real_data / "expected/hta/param_dlrm_8rank_V100.json").read_text())
    idle = {int(row["rank"]): row["idle_time_pctg"] for row in expected["temporal_breakdown"]}
    for path in sorted((real_data / "kineto" / "dlrm_8rank_v100").glob("*.json.gz")):
        rank = int(path.name.removeprefix("worker").partition("_")[0])
        frame = converted(path, rank)["kernels"]
        (device,) = rows(kernels.analyze.run(frame, config=kernels.Config()), "by_device")
        assert abs(100 * (1 - device["busy_share"]) - idle[rank]) < 0.05
