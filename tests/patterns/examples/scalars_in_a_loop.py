"""Examples of `scalars_in_a_loop`."""

from tests.patterns.recorded import causes, op


def reads(count):
    made = [op(n, "aten::item", 40_000 // count, stack="train.py(8): count") for n in range(count)]
    return {"cpu_ops": made, "causes": causes(("python", 0.05, ""))}


FOUND = reads(200)
EXPECTED = ("python", 90_000, ".tolist()")
PASSED = {"a few": reads(10), "no reads": {"causes": causes(("python", 0.5, ""))}}
