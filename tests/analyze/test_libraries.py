from functools import partial

import pytest

from profkit import testing
from profkit.analyze import libraries
from profkit.testing import rows, span

GEMM, ADD = "ampere_sgemm_128x64_tn", "void at::native::vectorized_elementwise_kernel<4>"
TENSOR = "volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn"


def kernel(start, end, name, **rest):
    return span(start, end, name=name, kind="compute", device=0) | rest


run = partial(testing.run, libraries.analyze, skip_first=0)


def test_shares_are_of_the_time_in_which_kernels_run():
    result = run(
        steps=[span(0, 100)],
        kernels=[
            kernel(0, 20, GEMM),
            kernel(10, 30, GEMM, stream=2),
            kernel(20, 40, ADD),
            kernel(40, 50, TENSOR),
            span(50, 90, name="Memcpy HtoD (Pinned -> Device)", kind="copy", device=0),
        ],
    )
    assert rows(result, "by_library") == [
        {"library": "cuBLAS", "calls": 3, "names": 2, "total_ns": 50, "covered_ns": 40,
         "share": 0.8, "tensor_core_share": 0.2},
        {"library": "ATen", "calls": 1, "names": 1, "total_ns": 20, "covered_ns": 20,
         "share": 0.4, "tensor_core_share": 0.0},
    ]  # fmt: skip
    assert [abstention.what for abstention in result.abstentions] == ["SM efficiency", "occupancy"]


def test_efficiency_is_over_the_steps_and_occupancy_over_the_kernels():
    result = run(
        steps=[span(0, 100)],
        kernels=[
            kernel(0, 20, GEMM, blocks_per_sm=0.5, occupancy_percent=40.0),
            kernel(10, 30, ADD, blocks_per_sm=0.75, occupancy_percent=10.0),
            kernel(40, 50, TENSOR, blocks_per_sm=8.0, occupancy_percent=100.0),
            kernel(50, 60, ADD, blocks_per_sm=-1.0),
        ],
    )
    assert rows(result, "by_device") == [
        {
            "rank": 0, "repeat": 0, "device": 0, "time_ns": 100, "kernel_ns": 60,
            "busy_share": 0.5, "sm_efficiency_share": 0.325,
            "occupancy_percent": 40.0, "tensor_core_share": pytest.approx(1 / 6),
            "tensorboard_tensor_core_share": pytest.approx(1 / 6),
        }
    ]  # fmt: skip
    assert result.metrics["sm_efficiency_share"].value == pytest.approx(0.325)


def test_what_runs_outside_the_steps_that_count_is_left_out():
    result = run(
        steps=[span(-50, 50), span(50, 100, step=1)],
        kernels=[
            kernel(0, 50, ADD, blocks_per_sm=1.0),
            kernel(60, 80, GEMM, step=1, blocks_per_sm=1.0),
        ],
        skip_first=1,
    )
    found = {row["library"]: row["share"] for row in rows(result, "by_library")}
    assert found == {"cuBLAS": 1.0, "ATen": 0.0}
    assert result.metrics["sm_efficiency_share"].value == pytest.approx(0.4)


def test_kernels_of_no_known_library_are_listed():
    result = run(kernels=[kernel(0, 10, "mine"), kernel(10, 40, "yours"), kernel(40, 45, "mine")])
    assert rows(result, "unknown") == [
        {"name": "yours", "calls": 1, "total_ns": 30},
        {"name": "mine", "calls": 2, "total_ns": 15},
    ]


def test_no_kernel_is_said():
    assert run(steps=[span(0, 10)]).abstentions[0].what == "libraries"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("resnet50_num_workers_0/worker0.1623143089861.pt.trace.json.gz", (55.51, 54.68, 49.13)),
        ("resnet50_num_workers_4/worker0.1623212756351.pt.trace.json.gz", (70.27, 69.22, 48.91)),
    ],
)
def test_efficiency_equals_that_of_the_tensorboard_plugin(real_data, converted, path, expected):
    tables = converted(real_data / "kineto" / "tensorboard" / path)
    result = libraries.analyze.run(
        kernels=tables["kernels"], steps=tables["steps"], config=libraries.Config()
    )
    found = {name: metric.value for name, metric in result.metrics.items()}
    ours = (
        100 * found["busy_share"], 100 * found["sm_efficiency_share"], found["occupancy_percent"],
    )  # fmt: skip
    # The plugin counts the time between the marks of two steps too: 134 us in the second trace.
    assert ours == pytest.approx(expected, abs=0.02)
    assert found["tensorboard_tensor_core_share"] == 0
