import json
import math

import pytest
import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile

from profkit.analyze import costs
from profkit.analyze.costs import PRODUCTS
from profkit.tables import schema


def recorded(work, path):
    """Return the operators of a real profile of `work` as the table has them, without nesting."""
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        work()
    profiler.export_chrome_trace(str(path))
    events = json.loads(path.read_text())["traceEvents"]
    return schema.frame(
        "cpu_ops",
        [
            {
                "name": event["name"],
                "input_shapes": json.dumps(event["args"]["Input Dims"]),
                "input_types": json.dumps(event["args"]["Input type"]),
                "inputs": json.dumps(event["args"]["Concrete Inputs"]),
            }
            for event in events
            if event.get("cat") == "cpu_op" and "Input Dims" in event["args"]
        ],
    )


def cost(name, shapes, types, inputs):
    """Return kind, type, FLOPs, recomputed FLOPs and bytes of one call."""
    row = {"name": name, "input_shapes": shapes, "input_types": types, "inputs": inputs}
    return tuple(costs.costs(schema.frame("cpu_ops", [row])).iloc[0])


def convolutions():
    for layer, size in (
        (torch.nn.Conv1d(4, 6, 3, stride=2), (2, 4, 17)),
        (torch.nn.Conv2d(4, 8, (3, 5), stride=2, padding=(1, 0), dilation=(1, 2)), (2, 4, 17, 19)),
        (torch.nn.Conv3d(2, 3, 2), (1, 2, 5, 6, 7)),
        (torch.nn.ConvTranspose2d(4, 6, 3, stride=2, output_padding=1), (2, 4, 5, 5)),
    ):
        layer(torch.randn(size, requires_grad=True)).sum().backward()


def products():
    hidden = torch.nn.Linear(16, 32)(torch.randn(5, 7, 16, requires_grad=True))
    torch.nn.Linear(32, 8, bias=False)(hidden).sum().backward()
    torch.bmm(torch.randn(3, 4, 5), torch.randn(3, 5, 6))
    torch.baddbmm(torch.randn(3, 4, 6), torch.randn(3, 4, 5), torch.randn(3, 5, 6))
    query = torch.randn(2, 4, 8, 16, requires_grad=True)
    with sdpa_kernel(SDPBackend.MATH):
        functional.scaled_dot_product_attention(query, query, query).sum().backward()


@pytest.mark.parametrize("work", [products, convolutions], ids=lambda work: work.__name__)
def test_flops_of_products_equal_those_of_the_flop_counter(work, tmp_path):
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        work()
    theirs = {
        str(name).replace("aten.", "aten::"): value
        for name, value in counter.get_flop_counts()["Global"].items()
    }
    ops = recorded(work, tmp_path / "trace.json")
    ours = ops[ops["name"].isin(theirs)]
    found = costs.costs(ours).assign(name=ours["name"].astype(str).to_numpy())
    assert theirs
    assert found.groupby("name")["flops"].sum().to_dict() == theirs
    assert set(found["kind"]) <= set(PRODUCTS)


def test_a_grouped_convolution_multiplies_within_its_groups():
    shapes = json.dumps([[2, 4, 9, 9], [8, 2, 3, 3], [], [], [], [], [], [], []])
    inputs = ["", "", "", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "2"]
    forward = cost("aten::convolution", shapes, "", json.dumps(inputs))
    # Each of 8 output channels sees 2 of the 4 input channels.
    assert forward[2] == 2 * 2 * 9 * 9 * 8 * 2 * 3 * 3
    # FlopCounterMode takes the gradient of the weight `groups` times too large: not followed.
    back = json.dumps([[2, 8, 9, 9], [2, 4, 9, 9], [8, 2, 3, 3], *([[]] * 8)])
    inputs = ["", "", "", "[0]", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "2",
              "[True, True, False]"]  # fmt: skip
    assert cost("aten::convolution_backward", back, "", json.dumps(inputs))[2] == 2 * forward[2]


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("add", [[], []]),
        ("copy_", [[], []]),
        ("sum", [[]]),
        ("_softmax", [[], []]),
        ("fill_", [[], []]),
        ("mm", [[], []]),
        ("addmm", [[], [], []]),
        ("native_layer_norm", [[], []]),
        ("embedding", [[], []]),
        ("_foreach_add", [[[], []], [[], []]]),
    ],
)
def test_what_has_no_known_shape_costs_nothing_known(name, shapes):
    types = ["TensorList" if name.startswith("_foreach") else "float"] * len(shapes)
    found = cost(f"aten::{name}", json.dumps(shapes), json.dumps(types), "")
    assert not found[2] > 0, "a set has no operations"
    assert math.isnan(found[4])


def test_flops_of_a_product_need_no_known_bias():
    types = json.dumps(["float"] * 3)
    found = cost("aten::addmm", json.dumps([[], [4, 5], [5, 6]]), types, "")
    assert found[2] == 2 * 4 * 5 * 6
    assert math.isnan(found[4])


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("add", 2),
        ("exp", 1),
        ("where", 3),
        ("addcmul", 3),
        ("eq", 2),
        ("logical_not", 1),
        ("mm", 2),
    ],
)
def test_what_out_names_is_written_and_not_read(name, inputs):
    def call(count):
        shapes, types = json.dumps([[8, 8]] * count), json.dumps(["float"] * count)
        return cost(f"aten::{name}", shapes, types, "")

    assert call(inputs + 1) == call(inputs)
    assert not math.isnan(call(inputs)[4])


def test_what_out_names_is_written_in_a_real_profile(tmp_path):
    left, right, out = torch.randn(8, 8), torch.randn(8, 8), torch.empty(0)
    ops = recorded(lambda: torch.add(left, right, out=out), tmp_path / "trace.json")
    (add,) = costs.costs(ops[ops["name"] == "aten::add"]).to_dict("records")
    assert (add["flops"], add["bytes"]) == (64, 3 * 64 * 4)


@pytest.mark.parametrize("kind", ["flash_attention", "fused_attention_overrideable"])
def test_the_backward_of_fused_attention_recomputes_the_scores(kind):
    query, key, value = [2, 8, 8, 16], [2, 4, 10, 16], [2, 4, 10, 12]
    name, types = f"aten::_scaled_dot_product_{kind}", json.dumps(["c10::Half"] * 4)
    forward = cost(name, json.dumps([query, key, value]), types, "")
    backward = cost(f"{name}_backward", json.dumps([query, query, key, value]), types, "")
    scores = 2 * 2 * 8 * 8 * 10
    assert forward == ("attention", "c10::Half", scores * 28, 0, 2 * (2048 + 1280 + 960 + 1536))
    assert backward[2:4] == (scores * (3 * 16 + 2 * 12), scores * 16)


@pytest.mark.parametrize(
    ("name", "shapes", "types", "inputs", "expected"),
    [
        ("add", [[4, 1, 3], [5, 1], []], ["float", "float", "Scalar"], [],
         ("elementwise", "float", 60, 4 * (12 + 5 + 60))),
        ("mul", [[4, 3], []], ["c10::BFloat16", "double"], [],
         ("elementwise", "c10::BFloat16", 12, 2 * 24 + 8)),
        ("eq", [[4, 3], []], ["float", "Scalar"], [], ("elementwise", "float", 12, 48 + 12)),
        ("copy_", [[4, 3], [3], []], ["c10::Half", "float", "Scalar"], [],
         ("elementwise", "c10::Half", 0, 24 + 12)),
        ("zero_", [[4, 3]], ["float"], [], ("elementwise", "float", 0, 48)),
        ("sum", [[4, 3, 2], [], [], []], ["float", "ScalarList", "Scalar", ""],
         ["", "[0, -1]", "False", ""], ("reduction", "float", 24, 96 + 12)),
        ("mean", [[4, 3], []], ["float", ""], ["", ""], ("reduction", "float", 12, 48 + 4)),
        ("_softmax", [[4, 3], [], []], ["float", "Scalar", "Scalar"], ["", "1", "False"],
         ("softmax", "float", 60, 96)),
        ("native_layer_norm", [[4, 3], [], [3], [3], []],
         ["float", "ScalarList", "float", "float", "Scalar"], [],
         ("normalisation", "float", 84, 96 + 24)),
        ("embedding", [[100, 8], [2, 5], [], [], []],
         ["float", "long int", "Scalar", "Scalar", "Scalar"], [],
         ("embedding", "float", 0, 2 * 320 + 80)),
        ("_embedding_bag", [[100, 8], [10], [2]], ["float", "long int", "long int"], [],
         ("embedding", "float", 80, 320 + 64 + 80)),
        ("embedding_dense_backward", [[10, 8], [10], [], [], []],
         ["float", "long int", "Scalar", "Scalar", "Scalar"], ["", "", "100", "-1", "False"],
         ("embedding", "float", 80, 320 + 80 + 3200)),
        ("_fused_adamw_", [*([[[3, 4], [5]]] * 4), [], [[], []]], ["TensorList"] * 6, [],
         ("optimizer", "", 14 * 17, 4 * (4 * 17 + 2 + 3 * 17))),
        ("_foreach_addcdiv_", [[[3], [4]]] * 3, ["TensorList"] * 3, [],
         ("optimizer", "", 21, 4 * 28)),
        ("_scaled_mm", [[16, 32], [32, 8], [], [], [], [], [], []],
         ["c10::Float8_e4m3fn"] * 2 + ["float", "float", "", "", "Scalar", "Scalar"],
         ["", "", "", "", "", "", "15", "True"],
         ("matmul", "c10::Float8_e4m3fn", 2 * 16 * 32 * 8, 512 + 256 + 256)),
        ("linear", [[2, 3, 4], [5, 4], [5]], ["float"] * 3, [],
         ("matmul", "float", 2 * 6 * 4 * 5, 4 * (24 + 20 + 5 + 30))),
        ("mv", [[3, 4], [4]], ["float"] * 2, [], ("matmul", "float", 24, 4 * (12 + 4 + 3))),
    ],
)  # fmt: skip
def test_costs_by_hand(name, shapes, types, inputs, expected):
    found = cost(f"aten::{name}", json.dumps(shapes), json.dumps(types), json.dumps(inputs))
    kind, dtype, work, again, moved = found
    assert (kind, dtype, work, moved, again) == (*expected, 0)


@pytest.mark.parametrize(
    ("name", "shapes", "types", "inputs"),
    [
        ("mm", "", "", ""),
        ("mm", "[[2, 3]]", "", ""),
        ("mm", '[[2, "x"], [3, 4]]', "", ""),
        ("mm", "[[2, 3", "", ""),
        ("mm", "3", "", ""),
        ("add", "[[2, 3], [4]]", '["float", "float"]', ""),
        ("add", "[[[2, 3], [4]], []]", "[]", ""),
        ("linear", "[[2, 3], [5, 4]]", "", ""),
        ("mv", "[[2, 3], [4]]", "", ""),
        ("convolution", "[[1, 3, 9, 9], [8, 3, 3, 3], [], [], [], [], [], [], []]", "", ""),
        ("native_layer_norm_backward", "[[2, 3], [2, 4]]", "", ""),
        ("embedding_dense_backward", "[[10, 8], [10]]", "", ""),
    ],
)  # fmt: skip
def test_what_cannot_be_worked_out_is_unknown_and_never_zero(name, shapes, types, inputs):
    found = cost(f"aten::{name}", shapes, types, inputs)
    assert all(math.isnan(number) for number in found[2:])


def test_without_types_flops_are_known_and_bytes_are_not():
    kind, dtype, work, _, moved = cost("aten::mm", "[[2, 3], [3, 4]]", "", "")
    assert (kind, dtype, work) == ("matmul", "", 48)
    assert math.isnan(moved)


def test_rows_keep_their_places_and_operators_without_a_formula_have_no_kind():
    rows = [("aten::mm", "[[2, 3], [3, 4]]"), ("aten::roll", "[[2]]"), ("aten::mm", ""),
            ("aten::mm", "[[2, 3], [3, 4]]")]  # fmt: skip
    ops = schema.frame("cpu_ops", [{"name": name, "input_shapes": shapes} for name, shapes in rows])
    found = costs.costs(ops)
    assert found["kind"].tolist() == ["matmul", "", "matmul", "matmul"]
    assert found["flops"].fillna(-1).tolist() == [48, -1, -1, 48]
    assert costs.costs(schema.frame("cpu_ops")).empty
