"""Examples of `experts_on_all_rows`."""

from tests.patterns.recorded import op


def passed(*, experts=8, rows=64, each=2, chooses="aten::topk", products=None):
    """Return a pass of a mixture of experts, each of two layers, and a part of its backward."""
    whole = op(0, "forward", kind="annotation") | {"end_ns": op(79, "")["start_ns"]}
    choice = op(1, chooses, input_shapes=f"[[{rows}, {experts}], [], [], [], []]")
    told = op(2, "aten::eq", input_shapes=f"[[{rows}, {each}], []]")
    made = [whole, choice, told]
    for number in range(3, 3 + 2 * (experts if products is None else products)):
        shapes = "[[32], [64, 16], [16, 32]]" if number % 2 else "[[16], [64, 32], [32, 16]]"
        made.append(op(number, "aten::addmm", 4_000, input_shapes=shapes))
    made.append(op(80, "AddmmBackward0", forward=3, phase="backward"))
    made.append(op(81, "aten::mm", 8_000, parent=80, phase="backward"))
    return {"cpu_ops": made}


AT_ONCE = {
    "cpu_ops": [
        *passed(products=0)["cpu_ops"],
        op(40, "aten::bmm", 48_000, input_shapes="[[8, 64, 16], [8, 16, 32]]"),
    ]
}
FOUND = passed()
EXPECTED = ("cpu_operators.aten::addmm", 54_000, "Each of 8 experts computes all rows, and a row")
PASSED = {
    "experts with rows of their own": passed(rows=256),
    "fewer layers than experts": passed(products=3),
    "all of them": passed(each=8),
    "few experts": passed(experts=2, each=1),
    "the best of many words": passed(experts=50_000, products=8),
    "a choice outside of the model": {"cpu_ops": passed()["cpu_ops"][1:]},
    "a sort": passed(chooses="aten::sort"),
}
