import pytest

from profkit.tables.kernel_names import (
    LATER_TENSOR_CORES,
    OTHER,
    TENSORBOARD_TENSOR_CORES,
    contains_any,
    library,
    readable,
    short_names,
    uses_tensor_cores,
)


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        ("ncclDevKernel_AllGather_RING_LL(ncclDevComm*, unsigned long, ncclWork*)", "NCCL or RCCL"),
        ("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, cutlass::bfloat16_t>>(",
         "FlashAttention"),
        ("triton_poi_fused_add_cos_sin_0", "Triton"),
        ("create_flashinfer_kv_indices_triton", "Triton"),
        ("attn_fwd", "Triton"),
        ("void cutlass__5x_cudnn::Kernel<cutlass_tensorop_s1688fprop>(Params)", "cuDNN"),
        ("_ZN19cutlass_cudnn_train6KernelINS_4conv6kernel23ImplicitGemmConvolution", "cuDNN"),
        ("volta_scudnn_128x128_stridedB_splitK_small_nn_v1", "cuDNN"),
        ("void implicit_convolve_sgemm<float, float, 1024, 6, 7>(int, int, int)", "cuDNN"),
        ("sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc", "cuDNN"),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", "cuBLAS"),
        ("nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NNT", "cuBLAS"),
        ("ampere_sgemm_128x64_tn", "cuBLAS"),
        ("void cublasLt::splitKreduce_kernel<32, 16, int, float>(", "cuBLAS"),
        ("std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, float>", "cuBLAS"),
        ("void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64>", "CUTLASS"),
        ("fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::", "CUTLASS"),
        ("Cijk_Alik_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT32x32x64_MI16x16x1_SN",
         "hipBLASLt or rocBLAS"),
        ("igemm_fwd_gtcx2_nhwc_bf16_bx0_ex1_bt128x128x32", "MIOpen or CK"),
        ("SubTensorOpWithScalar1d", "MIOpen or CK"),
        ("void at_cuda_detail::cub::DeviceRadixSortSingleTileKernel<at_cuda_detail::cub::",
         "CUB or Thrust"),
        ("void at::native::vectorized_elementwise_kernel<4, thrust::pair<int, int>>", "ATen"),
        ("void (anonymous namespace)::softmax_warp_forward<float, float, float, 10>", "ATen"),
        ("split_embedding_backward_codegen_adagrad_unweighted_find_long_segments", "FBGEMM"),
        ("void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>>", "ATen"),
        ("void rotary_embedding_kernel<c10::BFloat16, true>(long const*)", "vLLM or SGLang"),
        ("void magma_sgemmEx_kernel<float, float, float, false, false>", "MAGMA"),
        ("void my_elementwise_kernel<c10::BFloat16>(c10::BFloat16*)", OTHER),
        ("", OTHER),
    ],
)  # fmt: skip
def test_a_kernel_is_given_to_who_wrote_it(kernel, expected):
    assert library(kernel) == expected


def test_a_product_on_cuda_cores_is_none_of_tensor_cores():
    plain = "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_ffma_aligna4_alignc4"
    assert not uses_tensor_cores(plain)
    assert uses_tensor_cores("sm90_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x32")
    assert uses_tensor_cores("of_a_later_day", ("later",))


@pytest.mark.parametrize(
    ("kernel", "tensorboard", "later"),
    [
        ("volta_sgemm_128x64_nn", False, False),
        ("volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn", True, False),
        ("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_16x6_nt_align4>", True, True),
        ("sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc", False, True),
        ("nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NNT", False, True),
        ("Cijk_Alik_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT32x32x64_MI16x16x1_SN", False, True),
    ],
)
def test_tensor_cores_are_told_by_parts_of_the_name(kernel, tensorboard, later):
    assert contains_any(kernel, TENSORBOARD_TENSOR_CORES) == tensorboard
    assert contains_any(kernel, LATER_TENSOR_CORES) == later


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        ("volta_sgemm_64x64_tn", "volta_sgemm_64x64_tn"),
        (
            "void cutlass::Kernel2<cutlass_80_s161616gemm_nt>(T1::Params)",
            "cutlass_80_s161616gemm_nt",
        ),
        (
            "void cutlass::device_kernel<cutlass::gemm::GemmUniversal<cute::tuple<int>>>(P)",
            "gemm::GemmUniversal<tuple<int>>",
        ),
        (
            "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, float>(int)",
            "gemvx::kernel<int, float>",
        ),
        ("enable_if<!T7, void>::type kernel<int, __half>(T13)", "kernel<int, __half>"),
        (
            "void at::native::vectorized_kernel<(int)4, at::native::FillFunctor<float>>(int)",
            "vectorized_kernel<4, FillFunctor<float>>",
        ),
        ("void copy<unsigned int, float const>(int)", "copy<unsigned int, float const>"),
        ("Memcpy HtoD (Pageable -> Device)", "HtoD"),
        (
            "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi16ELb0ELin1EEEvPT0_PT_PfS4_i",
            "aiter::add_rmsnorm_quant_kernel<256, 16, 0, -1>",
        ),
        (
            "_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalIN4cute5tupleIJiiiiEEENS1_Li2E",
            "gemm::kernel::GemmUniversal<2>",
        ),
        ("_ZN7sgl_hip7act_mulI14__hip_bfloat16TnPFT_R", "sgl_hip::act_mul<__hip_bfloat16>"),
        ("_Z7vec_addPKfS0_Pfi", "vec_add"),
        ("_ZN99cut", "cut"),
        ("_ZN", "_ZN"),
    ],
)
def test_a_kernel_is_called_as_people_know_it(kernel, name):
    assert readable(kernel) == name


def test_kernels_of_one_function_stay_apart_and_one_without_a_name_has_that_of_its_argument():
    kernels = ["void f<int>(int)", "void f<float>(int)", "void g<int>(int)", "void Kernel<gemm>(P)"]
    assert [*short_names(kernels).values()] == ["f<int>", "f<float>", "g", "gemm"]
