"""A recording without a kernel tells whether a GPU worked, and of one that may have."""

import pytest

from profkit.analyze.division.unrecorded_gpu import (
    LOST,
    MAY_HAVE_WORKED,
    OF_APPLE,
    WORKED,
    unrecorded_gpu,
)
from profkit.analyze.shared.large_table import LargeTable
from profkit.tables import schema

GPU = [{"device": 0, "name": "NVIDIA A100"}]
CASES = {
    "a launch": (["aten::mm"], ["cudaLaunchKernel"], [], LOST),
    "a copy": (["aten::copy_"], ["hipMemcpyWithStream"], [], LOST),
    "an operator of cuDNN": (["aten::cudnn_convolution"], [], [], WORKED),
    "an LSTM of CPUs asks about cuDNN": (["aten::cudnn_is_acceptable"], [], [], ""),
    "so does CTC": (["aten::_use_cudnn_ctc_loss"], [], [], ""),
    "attention of GPUs": (["aten::_scaled_dot_product_flash_attention"], [], [], WORKED),
    "memory for a GPU": (["aten::_pin_memory", "aten::mkldnn_linear"], [], GPU, WORKED),
    "a GPU in the machine": (["aten::mm"], [], GPU, MAY_HAVE_WORKED),
    "a GPU that is recorded": (["aten::mm"], ["cudaDeviceSynchronize"], GPU, ""),
    "operators of CPUs": (["aten::mkldnn_convolution"], [], GPU, ""),
    "attention of CPUs": (["aten::_scaled_dot_product_flash_attention_for_cpu"], [], GPU, ""),
    "Apple's": (["aten::linear", "aten::linear_backward"], [], [], OF_APPLE),
    "a convolution of Apple's": (["aten::_mps_convolution"], [], [], OF_APPLE),
    "no GPU": (["aten::mm"], [], [], ""),
    "compiling for CPUs": (["pass.post_grad_passes.move_constructors_to_cuda"], [], [], ""),
    "nothing": ([], [], [], ""),
}


def test_operators_that_last_are_none_of_a_gpu_that_was_not_recorded():
    lasting = [
        {"name": "aten::addmm", "op": number, "parent": -1}
        | {"start_ns": number * 9_000_000, "end_ns": (number + 1) * 9_000_000}
        for number in range(3)
    ]
    given = (large("kernels", []), large("runtime_calls", []), schema.frame("devices", GPU))
    assert unrecorded_gpu(large("cpu_ops", lasting), *given) == ""
    start = {"name": "aten::empty", "op": 9, "start_ns": 0, "end_ns": 100_000_000, "parent": -1}
    assert unrecorded_gpu(large("cpu_ops", [*lasting, start]), *given) == MAY_HAVE_WORKED
    short = [row | {"end_ns": row["start_ns"] + 1_000_000} for row in lasting]
    assert unrecorded_gpu(large("cpu_ops", short), *given) == MAY_HAVE_WORKED


def large(table, rows):
    return LargeTable.of(schema.frame(table, rows))


@pytest.mark.parametrize(("names", "calls", "devices", "missing"), CASES.values(), ids=CASES)
def test_what_was_recorded_tells_whether_a_gpu_worked(names, calls, devices, missing):
    ops = large("cpu_ops", [{"name": name} for name in names])
    made = large("runtime_calls", [{"name": name} for name in calls])
    known = schema.frame("devices", devices)
    assert unrecorded_gpu(ops, large("kernels", []), made, known) == missing
    assert unrecorded_gpu(ops, large("kernels", [{"name": "gemm"}]), made, known) == ""
