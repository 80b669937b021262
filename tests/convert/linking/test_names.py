"""What names say."""

import pytest

from profkit.convert.linking.names import (
    copy_direction,
    launches_communication,
    names_communication,
)


@pytest.mark.parametrize(
    "kernel",
    [
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)",
        "rcclGenericKernel",
        "mscclKernel_Sum_half",
        "void nvshmemi_transfer_rma",
        "void deep_ep::intranode::dispatch<8, 768>(int4*)",
        "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 4>(vllm::RankData*)",
        "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<8>",
        "two_shot_all_reduce_kernel",
    ],
)
def test_communication_has_many_names(kernel):
    assert names_communication(kernel)


@pytest.mark.parametrize(
    "kernel",
    [
        "void at::native::reduce_kernel<512>",
        "sm80_gemm_async_clone",
        "triton_poi_fused_all_reduce_lift_fresh_0",
    ],
)
def test_compute_is_not_communication(kernel):
    assert not names_communication(kernel)


@pytest.mark.parametrize(
    ("name", "direction"),
    [
        ("Memcpy HtoD (Pageable -> Device)", "HtoD"),
        ("Memcpy PtoP (Device -> Device)", "PtoP"),
        ("Memcpy M2D (MEMORY(Unknown) -> DEVICE)", "HtoD"),
        ("Memcpy D2M (DEVICE -> MEMORY(Unknown))", "DtoH"),
        ("Memcpy S2D (SHARED -> DEVICE)", ""),
    ],
)
def test_copies_name_their_direction(name, direction):
    assert copy_direction(name) == direction


def test_collective_operators_launch_communication():
    names = ["nccl:all_reduce", "c10d::allreduce_", "record_param_comms", "aten::copy_", "gloo:x"]
    assert [launches_communication(name) for name in names] == [True, True, True, False, False]
