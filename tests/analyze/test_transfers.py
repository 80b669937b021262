import json
from functools import partial

import pytest

from profkit import testing
from profkit.analyze import transfers
from profkit.analyze.base import NO_GPU_WORK
from profkit.tables import schema
from profkit.testing import rows, span

IN = "Memcpy HtoD (Pageable -> Device)"
OUT = "Memcpy DtoH (Device -> Pinned)"


def copy(start, end, size, name=IN, **rest):
    return span(start, end, device=0, size_bytes=size, name=name, copy_kind=name[7:11]) | {
        "kind": "copy", **rest,
    }  # fmt: skip


run = partial(testing.run, transfers.analyze, skip_first=0, points=2)


def test_transfers_are_summed_by_direction_and_host_memory():
    result = run(
        steps=[span(0, 200)],
        kernels=[
            copy(0, 20, 400),
            copy(10, 40, 300, stream=8),
            copy(50, 60, 100, OUT),
            span(60, 62, kind="set", name="Memset (Device)", size_bytes=20, device=0),
            span(0, 200, kind="compute", name="k", device=0),
        ],
    )
    assert rows(result, "by_direction") == [
        {
            "direction": "HtoD", "host_memory": "pageable", "count": 2, "size_bytes": 700,
            "total_ns": 50, "covered_ns": 40, "bandwidth_bytes_per_s": 14e9,
            "best_bytes_per_s": 20e9, "mean_bytes": 350, "median_ns": 25, "covered_share": 0.2,
        },
        {
            "direction": "DtoH", "host_memory": "pinned", "count": 1, "size_bytes": 100,
            "total_ns": 10, "covered_ns": 10, "bandwidth_bytes_per_s": 10e9,
            "best_bytes_per_s": 10e9, "mean_bytes": 100, "median_ns": 10, "covered_share": 0.05,
        },
        {
            "direction": "set", "host_memory": "", "count": 1, "size_bytes": 20,
            "total_ns": 2, "covered_ns": 2, "bandwidth_bytes_per_s": 10e9, "best_bytes_per_s": 10e9,
            "mean_bytes": 20, "median_ns": 2, "covered_share": 0.01,
        },
    ]  # fmt: skip
    assert {name: metric.value for name, metric in result.metrics.items()} == {
        "covered_share": 0.26, "h2d_bytes_per_s": 14e9, "d2h_bytes_per_s": 10e9,
        "pageable_share": 0.875,
    }  # fmt: skip


def test_bandwidth_over_time_holds_every_byte():
    result = run(kernels=[copy(0, 30, 300), copy(20, 100, 800), copy(90, 100, 50, OUT)])
    found = {(row["direction"], row["time_ns"]): row for row in rows(result, "over_time")}
    assert {key: row["bandwidth_bytes_per_s"] for key, row in found.items()} == {
        ("HtoD", 0): 12e9,
        ("HtoD", 50): 10e9,
        ("DtoH", 0): 0.0,
        ("DtoH", 50): 1e9,
    }


def test_what_is_not_recorded_is_neither_zero_nor_pinned():
    result = run(
        steps=[span(0, 20)],
        kernels=[copy(0, 10, -1, "Memcpy HtoD (Host -> Device)"), copy(10, 20, 50)],
    )
    found = rows(result, "by_direction")
    assert [(row["host_memory"], row["bandwidth_bytes_per_s"]) for row in found] == [
        ("pageable", 5e9), ("unknown", None),
    ]  # fmt: skip
    assert [abstention.what for abstention in result.abstentions] == [
        "bandwidth of some transfers", "pageable or pinned",
    ]  # fmt: skip


def test_warm_up_is_left_out():
    result = run(
        steps=[span(-20, 20), span(20, 40, step=1)],
        kernels=[copy(0, 10, 100), copy(20, 30, 50, step=1)],
        skip_first=1,
    )
    assert [row["size_bytes"] for row in rows(result, "by_direction")] == [50]


def test_no_transfer_is_said():
    assert run().abstentions[0].reason == NO_GPU_WORK
    none = run(kernels=[span(0, 10, kind="compute")])
    assert none.abstentions[0].reason == "no copy or set was recorded"


TRACES = {
    "hta_nccl_data_A100": "hta/nccl_parser_config/nccl_data.json.gz",
    "hta_trace_diff_control_A100_rank3of8": "hta/trace_diff/control/control.json.gz",
    "kineto_resnet50_nw0_V100": (
        "tensorboard/resnet50_num_workers_0/worker0.1623143566756.pt.trace.json.gz"
    ),
    "param_dlrm_8rank_V100": "dlrm_8rank_v100/worker0_step_12.1694128201545.pt.trace.json.gz",
}


def test_a_copy_without_duration_long_after_the_others_is_no_infinite_bandwidth():
    year = 2**55
    result = run(kernels=[copy(0, 20, 400), copy(year, year, 300)])
    found = [row["bandwidth_bytes_per_s"] for row in rows(result, "over_time")]
    assert found == pytest.approx([400 * 2e9 / year, 300 * 2e9 / year])


@pytest.mark.parametrize("name", TRACES)
def test_counts_and_best_bandwidths_equal_those_of_hta(real_data, converted, name):
    expected = json.loads((real_data / "expected" / "hta" / f"{name}.json").read_text())
    tables = converted(real_data / "kineto" / TRACES[name])
    kernels = tables["kernels"]
    # HTA leaves out the last step.
    kept = kernels[kernels["step"].isin(expected["profiler_steps"])]
    result = transfers.analyze.run(
        kernels=kept, steps=schema.frame("steps"), config=transfers.Config()
    )
    ours = {row["direction"]: row for row in rows(result, "by_rank")}
    summary = expected["memory_bw_summary"]
    theirs = {
        direction.removeprefix("Memcpy ").replace("Memset", "set"): (values[0], 1e9 * values[-1])
        for (rank, direction), values in zip(summary["index"], summary["data"], strict=True)
        if rank == expected["temporal_breakdown"][0]["rank"]
    }
    assert {direction: row["count"] for direction, row in ours.items()} == {
        direction: count for direction, (count, _) in theirs.items()
    }
    for direction, (_, best) in theirs.items():
        least, most = bounds(kept, direction, 10 if name == "hta_nccl_data_A100" else 1000)
        assert least <= best <= most
        assert least <= ours[direction]["best_bytes_per_s"] <= most


def bounds(kernels, direction, error_ns):
    """Return the best bandwidth if durations are off by so much.

    HTA takes the bandwidth written beside a copy, which comes from nanoseconds; we take bytes over
    duration, and older files have durations in whole microseconds.
    """
    named = "kind" if direction == "set" else "copy_kind"
    moves = kernels[kernels[named] == direction]
    duration = moves["end_ns"] - moves["start_ns"]
    slow, fast = duration + error_ns, (duration - error_ns).clip(lower=1)
    return 1e9 * (moves["size_bytes"] / slow).max(), 1e9 * (moves["size_bytes"] / fast).max()
