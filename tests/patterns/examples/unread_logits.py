"""Examples of `unread_logits`."""

from tests.patterns.recorded import op

LAYER = "[[4, 64, 256], [32000, 256], []]"
SCORES = "[[4, 64, 32000], [], []]"


def answers(*readers, layer=LAYER):
    """Return words and last layer of two requests, and what reads its scores."""
    rows = []
    for at in (0, 10):
        rows.append(op(at + 9, "aten::embedding", input_shapes="[[32000, 256], [4, 64]]"))
        rows.append(op(at, "aten::linear", 1_000, input_shapes=layer))
        rows.append(op(at + 1, "aten::mm", 64_000, parent=at, input_shapes="[[256, 256]]"))
        readers_at = enumerate(readers, at + 2)
        rows += [op(number, name, 2_000, input_shapes=SCORES) for number, name in readers_at]
    return rows


FOUND = {"cpu_ops": answers("aten::to", "aten::select")}
# Of 63 of 64 positions: the layer, its product, the copy in other precision and what selects.
EXPECTED = ("cpu_operators.aten::mm", 2 * 69_000 * 63 / 64, "for 64 positions")
PASSED = {
    "every position is read": {"cpu_ops": answers("aten::log_softmax", "aten::select")},
    "nothing is selected": {"cpu_ops": answers("aten::to")},
    "few positions": {"cpu_ops": answers("aten::select", layer="[[4, 4, 256], [32000, 256]]")},
    "a wide layer of features": {
        "cpu_ops": [
            row | {"input_shapes": row["input_shapes"].replace("64, 32000]", "64, 22016]")}
            for row in answers("aten::slice", layer="[[4, 64, 256], [22016, 256]]")
        ],
    },
    "training by all positions but one": {
        "cpu_ops": [
            *answers("aten::slice"),
            op(29, "aten::log_softmax", input_shapes="[[252, 32000], [], []]"),
            op(30, "Optimizer.step#SGD.step", kind="annotation"),
        ]
    },
}
