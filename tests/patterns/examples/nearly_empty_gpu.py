"""Examples of `nearly_empty_gpu`."""

from tests.patterns.recorded import kernel, op

ADD = kernel(-1, "add(int, float*, float*)", 1_000_000, grid="[1,1,1]", block="[1,1,1]")
DEVICES = [{"rank": 0, "repeat": 0, "device": 0, "processors": 40}]

FOUND = {"kernels": [ADD], "devices": DEVICES}
EXPECTED = ("gpu_computing", 1_000_000 * (1 - 1 / (40 * 128)), "add runs in 1 block of 1 thread")
PASSED = {
    "many threads": {**FOUND, "kernels": [ADD | {"grid": "[40,1,1]", "block": "[128,1,1]"}]},
    "a short kernel": {**FOUND, "kernels": [ADD | {"end_ns": 5_000}]},
    "one that others hide": {
        **FOUND,
        "kernels": [ADD | {"charged_ns": 0}, kernel(-1, "gemm", 5_000)],
    },
    "a collective": {**FOUND, "kernels": [ADD | {"kind": "communication"}]},
    "sizes that were not recorded": {**FOUND, "kernels": [ADD | {"grid": "", "block": ""}]},
}
OF_PYTORCH = {
    "cpu_ops": [op(0, "aten::cumsum")],
    "kernels": [ADD | {"op": 0, "name": "scan", "grid": "[2,1,1]", "block": "[512,1,1]"}],
}
