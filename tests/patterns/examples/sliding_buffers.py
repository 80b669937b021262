"""Examples of `sliding_buffers`."""

from tests.patterns.recorded import op


def queue(shapes="[[[128, 65536], [128, 64]], []]"):
    return [
        op(0, "aten::cat", 90_000, input_shapes=shapes),
        op(1, "aten::contiguous", 1_000, input_shapes="[[128, 65536], []]"),
        op(2, "aten::copy_", 60_000, parent=1, input_shapes="[[128, 65536], [128, 65536]]"),
        op(3, "aten::contiguous", 60_000, input_shapes="[[128, 64], []]"),
    ]


FOUND = {"cpu_ops": queue()}
EXPECTED = ("cpu_operators.aten::cat", 151_000, "copies a tensor of 128 x 65,536 to add little")
PASSED = {
    "halves": {"cpu_ops": queue("[[[128, 65536], [128, 65536]], []]")},
    "small ones": {"cpu_ops": queue("[[[128, 512], [128, 1]], []]")},
    "several": {"cpu_ops": queue("[[[128, 65536], [128, 64], [128, 64]], []]")},
    "nothing new": {"cpu_ops": queue("[[[128, 65536], [128, 0]], []]")},
    "a part of the model": {
        "cpu_ops": [*queue(), op(4, "CatBackward0", forward=0, phase="backward")]
    },
    "shapes are not known": {"cpu_ops": queue("")},
}
