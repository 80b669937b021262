"""Examples of `fp32_matmuls`."""

from profkit.core.hardware import Hardware
from tests.patterns.recorded import kernel, op

A100 = Hardware(name="A100", peak_flops={"fp32": 19.5e12, "tf32": 156e12})


def gpu(name, capability):
    """Return the row of a GPU."""
    return {"rank": 0, "repeat": 0, "device": 0, "name": name, "capability": capability}


OPS = [op(0, "aten::mm", input_types='["float", "float"]')]

FOUND = {
    "kernels": [
        kernel(0, "ampere_sgemm_128x64_nn", 30_000),
        kernel(1, "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_ffma_aligna4", 50_000),
    ],
    "cpu_ops": [*OPS, op(1, "aten::mm", input_types='["float", "float"]')],
    "hardware": A100,
}
EXPECTED = ("gpu_computing.aten::mm", 70_000, "set_float32_matmul_precision")
PASSED = {
    "TF32 by cuBLAS": {
        "kernels": [kernel(0, "sm90_xmma_gemm_f32f32_tf32f32_f32_nn_n", 80_000)],
        "cpu_ops": OPS,
    },
    "TF32": {"kernels": [kernel(0, "ampere_tf32_s1688gemm_128x64", 80_000)], "cpu_ops": OPS},
    "a GPU without tensor cores": {
        "kernels": [kernel(0, "maxwell_sgemm_128x64_nn", 80_000)],
        "devices": [gpu("Tesla P4", "6.1")],
    },
    "one of a later kind": {
        "kernels": [kernel(0, "volta_sgemm_128x64_nn", 80_000)],
        "devices": [gpu("NVIDIA GeForce GTX 1650", "7.5")],
    },
}
