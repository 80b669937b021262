"""Examples of `gradients_in_inference`."""

from tests.patterns.recorded import kernel, op


def forward(count, *, makes_nodes=True, charged_ns=900, **columns):
    """Return as many layers, each with the next number of its thread if it makes a node."""
    rows = []
    for number in range(count):
        sequence = 70 + number * makes_nodes
        rows += [
            op(2 * number, "aten::linear", charged_ns // 3, sequence=sequence, **columns),
            op(2 * number + 1, "aten::t", charged_ns - charged_ns // 3, parent=2 * number,
               sequence=sequence, **columns),
        ]  # fmt: skip
    return rows


FOUND = {"cpu_ops": forward(100)}
EXPECTED = ("cpu_operators.aten::linear", 90_000, "in 99 operators per step")
BUSY = [kernel(2 * number, "gemm", 90_000) for number in range(100)]
PASSED = {
    "no_grad": {"cpu_ops": [row | {"sequence": -1} for row in forward(100)]},
    "nothing needs a gradient": {"cpu_ops": forward(100, makes_nodes=False)},
    "training": {
        "cpu_ops": [*forward(100), op(900, "autograd::engine::evaluate_function: AddmmBackward0")]
    },
    "training without backward's operators": {
        "cpu_ops": [*forward(100), op(900, "Optimizer.step#SGD.step", kind="annotation")]
    },
    "the GPU is busy meanwhile": {"cpu_ops": forward(100, charged_ns=0), "kernels": BUSY},
}
