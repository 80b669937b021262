"""Examples of `attention_on_hopper`."""

from tests.patterns.recorded import kernel

FLASH = kernel(0, "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64>>", 450_000)

FOUND = {"kernels": [FLASH, kernel(1, "sm90_xmma_gemm_bf16", 10_000)]}
EXPECTED = ("gpu_computing", 225_000, "CUDNN_ATTENTION")
PASSED = {
    "a small part of the step": {
        "kernels": [{**FLASH, "charged_ns": 90_000}, kernel(1, "sm90_xmma_gemm_bf16", 10_000)]
    },
    "an older GPU": {"kernels": [FLASH, kernel(1, "ampere_bf16_s1688gemm", 10_000)]},
    "FlashAttention 3": {
        "kernels": [kernel(0, "flash_fwd_sm90", 450_000), kernel(1, "nvjet_tst", 10_000)]
    },
}
