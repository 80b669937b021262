"""Examples of `rows_by_index`."""

from tests.patterns.recorded import op

NODE = "autograd::engine::evaluate_function: IndexBackward0"


def picked(rows, of=3000, width=64):
    into = f"[[{of}, {width}], [], [{rows}, 64], [], []]"
    backward = {"phase": "backward", "forward": 0}
    return [
        op(0, "aten::index", 100_000, input_shapes=f"[[{of}, {width}], []]"),
        op(1, NODE, **backward),
        op(2, "aten::_index_put_impl_", 400_000, 1, input_shapes=into, **backward),
    ]


FOUND = {"cpu_ops": picked(30_000)}
EXPECTED = ("cpu_operators.aten::_index_put_impl_", 300_000, "`x.index_select(0, index)`")
PASSED = {
    "maybe a mask": {"cpu_ops": picked(2_000)},
    "parts of rows": {"cpu_ops": picked(30_000, width=128)},
    "a row of numbers": {
        "cpu_ops": [row | {"input_shapes": "[[3000], [], [9000], [], []]"} for row in picked(9)],
    },
    "no gradients": {"cpu_ops": picked(30_000)[:1]},
}
