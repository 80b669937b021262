import json
import math

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

from profkit.analyze.costs import torch_flops
from profkit.tables import schema


def count(name, shapes, inputs):
    """Return the FLOPs of one call."""
    row = {"name": name, "input_shapes": shapes, "inputs": inputs}
    return torch_flops.flops(schema.frame("cpu_ops", [row]))[0]


def workload():
    conv = torch.nn.Conv2d(4, 8, (3, 5), stride=2, padding=(1, 0), dilation=(1, 2), groups=2)
    linear = torch.nn.Linear(16, 32)
    images = conv(torch.randn(2, 4, 17, 19))
    hidden = linear(torch.randn(5, 16)) * 2 + 1
    (images.sum() + hidden.sum()).backward()
    torch.bmm(torch.randn(3, 4, 5), torch.randn(3, 5, 6))
    torch.baddbmm(torch.randn(3, 4, 6), torch.randn(3, 4, 5), torch.randn(3, 5, 6))
    torch.add(torch.randn(3, 1), torch.randn(1, 4))


def test_flops_equal_those_of_the_profiler(tmp_path):
    with profile(
        activities=[ProfilerActivity.CPU], record_shapes=True, with_flops=True
    ) as profiler:
        workload()
    profiler.export_chrome_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    ops = schema.frame(
        "cpu_ops",
        [
            {
                "name": event["name"],
                "input_shapes": json.dumps(event["args"]["Input Dims"]),
                "inputs": json.dumps(event["args"]["Concrete Inputs"]),
            }
            for event in events
            if event.get("cat") == "cpu_op" and "Input Dims" in event["args"]
        ],
    )
    ours = ops.assign(flops=torch_flops.flops(ops)).groupby("name", observed=True)["flops"].sum()
    theirs = {row.key: row.flops for row in profiler.key_averages() if row.flops}
    assert {name: int(value) for name, value in ours.items() if value} == theirs
    assert set(theirs) == {name for name in torch_flops.FORMULAS if "attention" not in name}


def test_attention_is_counted_as_the_flop_counter_does():
    from torch.utils import flop_counter

    query, key, value = [2, 8, 8, 16], [2, 4, 10, 16], [2, 4, 10, 12]
    out = [2, 8, 8, 12]
    name = "aten::_scaled_dot_product_flash_attention_for_cpu"
    forward = count(name, json.dumps([query, key, value]), "")
    backward = count(f"{name}_backward", json.dumps([out, query, key, value]), "")
    assert forward == flop_counter.sdpa_flop_count(query, key, value)
    assert backward == flop_counter.sdpa_backward_flop_count(out, query, key, value)


def test_what_is_not_counted_is_unknown_and_never_zero():
    same = json.dumps(["", "", "", "[1, 1]", "", "[1, 1]", "1"])
    cases = [
        ("aten::relu", "[[2, 3]]", ""),
        ("aten::mm", "", ""),
        ("aten::mm", "[[2, 3]]", ""),
        ("aten::mm", '[[2, "x"], [3, 4]]', ""),
        ("aten::mm", "[[2, 3", ""),
        ("aten::add", "[[[2, 3], [4]], []]", ""),
        ("aten::conv2d", "[[1, 3, 9, 9], [8, 3, 3, 3], [8], [], [], [], []]", same),
    ]
    assert all(math.isnan(count(*case)) for case in cases)


def test_a_product_with_an_empty_matrix_costs_nothing():
    assert count("aten::mm", "[[0, 4], [4, 5]]", "") == 0


def test_a_table_without_rows_has_no_flops():
    assert torch_flops.flops(schema.frame("cpu_ops")).shape == (0,)


def test_every_call_gets_the_flops_of_its_own_shapes():
    rows = [
        {"name": "aten::mul", "input_shapes": "[[2, 3], []]"},
        {"name": "aten::relu", "input_shapes": "[[2, 3]]"},
        {"name": "aten::mul", "input_shapes": "[[4], [4]]"},
        {"name": "aten::mul", "input_shapes": "[[2, 3], []]"},
    ]
    np.testing.assert_array_equal(
        torch_flops.flops(schema.frame("cpu_ops", rows)), [6.0, np.nan, 4.0, 6.0]
    )
