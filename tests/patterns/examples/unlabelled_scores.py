"""Examples of `unlabelled_scores`."""

from tests.patterns.recorded import op

LOOKUP = op(0, "aten::embedding", 1_000, input_shapes="[[9000, 64], [4, 32], [], []]")
SCORES = [
    op(1, "aten::linear", 10_000, phase="forward", input_shapes="[[4, 32, 64], [9000, 64], []]"),
    op(2, "aten::addmm", 90_000, parent=1, input_shapes="[[9000], [128, 64], [64, 9000], [], []]"),
    op(3, "aten::_log_softmax", 50_000, phase="forward", input_shapes="[[128, 9000], [], []]"),
    op(4, "aten::mm", 50_000, phase="backward", input_shapes="[[9000, 128], [128, 64]]"),
]
REST = [
    op(5, "aten::linear", 70_000, phase="forward", input_shapes="[[4, 32, 64], [64, 64], []]"),
    op(6, "aten::mul_", 70_000, phase="backward", input_shapes="[[9000, 64], []]"),
    op(7, "Optimizer.step#AdamW.step", kind="annotation") | {"end_ns": 900_000},
    op(8, "aten::mul_", 70_000, parent=7, input_shapes="[[9000, 128], []]"),
]
GIVEN = [{"labels": 128, "ignored": 96}, {"labels": 128, "ignored": 96}]

FOUND = {"cpu_ops": [LOOKUP, *SCORES, *REST], "given_labels": GIVEN}
EXPECTED = ("cpu_operators.aten::addmm", 150_000, "75% of the labels are ignored by the loss")


def of_rows(rows):
    """Return the same where the last layer is given so many tokens."""
    return [
        row | {"input_shapes": row["input_shapes"].replace("128", f"{rows}").replace("4, 32", rows)}
        for row in SCORES
    ]


PASSED = {
    "most have a label": FOUND | {"given_labels": [{"labels": 128, "ignored": 12}]},
    "nothing is known of labels": {"cpu_ops": FOUND["cpu_ops"]},
    "only what has a label is scored": FOUND | {"cpu_ops": [LOOKUP, *of_rows("32"), *REST]},
    "nothing is scored": FOUND | {"cpu_ops": [LOOKUP, *of_rows("0"), *REST]},
    "no text": FOUND | {"cpu_ops": [*SCORES, *REST][2:]},
    "shapes are not known": FOUND
    | {"cpu_ops": [row | {"input_shapes": ""} for row in FOUND["cpu_ops"]]},
}
