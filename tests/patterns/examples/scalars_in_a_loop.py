"""Examples of `scalars_in_a_loop`."""

from tests.patterns.recorded import causes, op


def reads(count):
    made = [op(n, "aten::item", 40_000 // count, stack="train.py(8): count") for n in range(count)]
    return {"cpu_ops": made, "causes": causes(("python", 0.05, ""))}


def checks(count):
    """Return the reads of anomaly detection, in functions of the backward pass."""
    nodes = [op(2 * n, "autograd::engine::evaluate_function: MulBackward0") for n in range(count)]
    items = [op(2 * n + 1, "aten::item", 400, parent=2 * n) for n in range(count)]
    return {"cpu_ops": nodes + items, "causes": causes(("python", 0.05, ""))}


def looks(count, together):
    """Return reads of which some follow each other, and then much else, as a model's call."""
    names = [*["aten::item"] * together, *["aten::mm"] * 12]
    made = [op(n, names[n % len(names)], 400) for n in range(count * len(names))]
    return {"cpu_ops": made, "causes": causes(("python", 0.05, ""))}


FOUND = reads(200)
EXPECTED = ("python", 90_000, ".tolist()")
PASSED = {
    "a few": reads(10),
    "no reads": {"causes": causes(("python", 0.5, ""))},
    "a mask for each expert": looks(200, 1),
    "checks of the arguments of each call": looks(100, 4),
    "checks of gradients": checks(200),
}
