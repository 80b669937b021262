"""What names say."""

import pytest

from profkit.convert.linking.names import (
    copy_direction,
    is_collective,
    launches_communication,
    launches_work,
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
        "void dpsk::ep::internode::dispatch_ll<true, 3, 7168>(void*, float*)",
        "void deep_ep::internode_ll::combine<true, false, 7168, 9>(void*, void*)",
        "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>",
        "void (anonymous namespace)::multimem_one_shot_reduce_kernel<float, 16>",
        "void c10d::symmetric_memory::barrier_kernel(unsigned int**, unsigned long)",
        "void mscclpp::collective::allreduceAllPairs<(mscclpp::ReduceOp)0, __half>(__half*)",
        "allreduce7",
        "void quickreduce::allreduce_prototype_twoshot<AllReduceTwoshot<__half>>",
        "void aiter::reduce_scatter_cross_device_store<__half, 8>(aiter::RankData*)",
        "void tensorrt_llm::kernels::oneShotAllReduceKernel<__half, 8, true>",
        "void transformer_engine::userbuffers_fp16_sum_inplace_gpu_rr_rs_oop<8>(int)",
        "hcom_allReduce__428_0_1",
        "HcomReduceScatter",
        "hcclAicpuInit",
        "oneccl_allreduce_pcie",
        "nvshmemi_proxy_rma_entrypoint",
        "void mori::moe::EpDispatchIntraNodeKernel<hip_bfloat16>",
        "intranode_alltoall_kernel",
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
        "void flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<128>>",
        "void moe::dispatchKernel<float>",
        "void at::native::vectorized_gather_kernel<16, long>",
        "step::kernel",
        "void deep_gemm::sm90_fp8_gemm_1d2d_impl",
        "sleep::run",
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
        ("Memcpy UVM DtoH (Device -> Pageable)", "UVM DtoH"),
        ("Memcpy UVM prefetch HtoD (Pageable -> Device)", "UVM prefetch HtoD"),
    ],
)
def test_copies_name_their_direction(name, direction):
    assert copy_direction(name) == direction


def test_collective_operators_launch_communication():
    names = ["nccl:all_reduce", "c10d::allreduce_", "record_param_comms", "aten::copy_", "gloo:x"]
    assert [launches_communication(name) for name in names] == [True, True, True, False, False]


@pytest.mark.parametrize(
    ("call", "starts"),
    [
        ("cudaLaunchKernelExC", True),
        ("cuLaunchKernel", True),
        ("cudaLaunchCooperativeKernel", True),
        ("cudaMemcpyAsync", True),
        ("hipModuleLaunchKernel", True),
        ("hipExtModuleLaunchKernel", True),
        ("hipLaunchKernel", True),
        ("hipStreamGetCaptureInfo", False),
        ("cudaDeviceSynchronize", False),
    ],
)
def test_calls_that_start_work_are_known_of_every_runtime(call, starts):
    assert launches_work(call) == starts


@pytest.mark.parametrize(
    ("op", "found"),
    [
        ("_C::shm_allreduce", True),
        ("_C::shm_all_gather", True),
        ("sgl_kernel::shm_allreduce", True),
        ("sgl-kernel::all_reduce", True),
        ("vllm::reduce_scatter", True),
        ("deepspeed_shm_comm::inference_all_reduce_", True),
        ("torch_ccl::alltoall_base_", True),
        ("_c10d_functional::all_to_all_single", True),
        ("c10d::broadcast_", True),
        ("aten::broadcast_tensors", False),
        ("aten::scatter_reduce", False),
        ("prim::broadcast", False),
        ("symm_mem::fused_all_gather_matmul", False),
        ("vllm::fused_allreduce_rmsnorm", False),
        ("_c10d_functional::wait_tensor", False),
        ("autograd::engine::evaluate_function: all_reduce", False),
        ("gloo:all_reduce", False),
        ("all_reduce", False),
    ],
)
def test_operators_are_collectives_by_the_last_part_of_their_name(op, found):
    assert is_collective(op) == found
