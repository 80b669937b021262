"""Examples of `separate_tables`."""

from tests.patterns.recorded import op, python


def ops(tables, lookup="aten::embedding", **columns):
    """Return the lookups, gradients and updates of some `tables`."""
    made = []
    for rows, width in tables:
        number, of = 10 * len(made), f"[[{rows}, {width}], [64]]"
        made += [
            op(number, lookup, 2_000, input_shapes=of, **columns),
            op(number + 1, "aten::index_select", 3_000, number),
            op(number + 2, "autograd::engine::evaluate_function: EmbeddingBackward0", 1_000),
            op(number + 3, "torch::autograd::AccumulateGrad", 1_000, input_shapes=of),
            op(number + 4, "Optimizer.step#Adam.step", kind="annotation"),
            op(number + 5, "aten::mul_", 3_000, number + 4, input_shapes=of),
        ]
    return made


LINE = [python(0, 10_000_000, "model.py(8): forward")]
TABLES = [(rows, 16) for rows in range(100, 120)]
FOUND = {"cpu_ops": ops(TABLES), "python_calls": LINE}
EXPECTED = ("cpu_operators", 190_000, "20 tables of width 16 are looked up one by one")
PASSED = {
    "few tables": {"cpu_ops": ops(TABLES[:7])},
    "tables of many widths": {"cpu_ops": ops([(100, width) for width in range(8, 28)])},
    "one table that is looked up often": {
        "cpu_ops": [
            op(number, "aten::embedding", 10_000, input_shapes="[[100, 16], [64]]")
            for number in range(20)
        ]
    },
    "tables that take long": {
        "cpu_ops": [row | {"charged_ns": 90_000} for row in FOUND["cpu_ops"]]
    },
    "nothing": {},
}
