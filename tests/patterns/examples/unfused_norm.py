"""Examples of `unfused_norm`."""

from tests.patterns.recorded import kernel, op

NAMES = ("aten::pow", "aten::mean", "aten::add", "aten::rsqrt", "aten::mul")
OPS = [op(number, name, module="Model;RMSNorm") for number, name in enumerate(NAMES)]
KERNELS = [kernel(number, "elementwise_kernel", 30_000) for number in range(5)]

FOUND = {"cpu_ops": OPS, "kernels": KERNELS}
EXPECTED = ("gpu_computing.aten::add", 100_000, "torch.nn.RMSNorm")
PASSED = {
    "a fused norm": {"cpu_ops": [op(0, "aten::native_layer_norm", module="Norm")],
                     "kernels": KERNELS[:1]},
    "a mean in another module": {
        "cpu_ops": [row | {"module": row["name"]} for row in OPS], "kernels": KERNELS
    },
}  # fmt: skip
