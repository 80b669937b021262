"""Operators of two runs matched along the module tree."""

import pytest

from profkit.analyze.shared.matched_parts import matched, stacks
from profkit.analyze.shared.paired_parts import paired_parts
from profkit.analyze.shared.waterfall import waterfall_of
from profkit.core.result import Result, Table

COLUMNS = ("rank", "repeat", "cause", "module", "operator", "kernel", "calls_per_step")


def causes(*parts, repeats=1):
    """Return a result of ``causes`` with (module, operator, kernel, ms of each repeat)."""
    rows = tuple(
        (0, repeat, "gpu_computing", module, operator, kernel, 1, ms + repeat * 0.01)
        for module, operator, kernel, ms in parts
        for repeat in range(repeats)
    )
    return Result(tables={"parts": Table(title="", columns=(*COLUMNS, "ms_per_step"), rows=rows)})


def found(before, after):
    made = matched(paired_parts(causes(*before), causes(*after)))
    total = sum(ms for *_, ms in after) - sum(ms for *_, ms in before)
    assert sum(one.bar.difference_ms for one in made) == pytest.approx(total)
    return {(one.module, " + ".join(one.before), " + ".join(one.after)): one.change for one in made}


def test_operators_and_stacks_sum_to_the_difference_of_the_waterfall():
    before = causes(("", "aten::mm", "gemm", 4.0), ("", "aten::add", "add", 1.0), repeats=3)
    rows = [(0, repeat, "gpu_computing", "", "aten::mm", "gemm", 1, ms)
            for repeat, ms in enumerate((5.0, 9.0, 30.0))]  # fmt: skip
    columns = (*COLUMNS, "ms_per_step")
    after = Result(tables={"parts": Table(title="", columns=columns, rows=tuple(rows))})
    parts = paired_parts(before, after)
    whole = waterfall_of(parts).difference_ms
    made = matched(parts)
    assert sum(one.bar.difference_ms for one in made) == pytest.approx(whole)
    drawn = stacks(parts, made)
    assert sum(one.after_ms - one.before_ms for one in drawn) == pytest.approx(whole)


def test_a_rank_of_which_no_time_was_divided_has_no_parts():
    one = causes(("", "aten::mm", "gemm", 4.0))
    assert paired_parts(one, one, (0, 0))
    assert paired_parts(one, one, (0, 3)) is None


BLOCK = (
    ("Net_0;Block_0;Linear_0", "aten::mm", "gemm", 4.0),
    ("Net_0;Block_0", "aten::add", "add", 1.0),
    ("Net_0;Block_0", "aten::relu", "clamp", 1.0),
)


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (
            [("Net_0;Block_0", "triton_poi_fused_add_relu_0", "triton", 1.0)],
            {("Net_0;Block_0", "aten::add + aten::relu", "triton_poi_fused_add_relu_0"): "fused"},
        ),
        (
            [("Net_0;Block_0", "aten::add_", "add", 1.0)],
            {
                ("Net_0;Block_0", "aten::add", "aten::add_"): "renamed",
                ("Net_0;Block_0", "aten::relu", ""): "removed",
            },
        ),
        (
            [
                ("Net_0;Block_0", "aten::add", "other_add", 1.0),
                ("Net_0;Block_0", "aten::relu", "clamp", 1.0),
                ("Net_0;Block_0", "aten::dropout", "drop", 1.0),
            ],
            {
                ("Net_0;Block_0", "aten::add", "aten::add"): "other kernels",
                ("Net_0;Block_0", "", "aten::dropout"): "new",
            },
        ),
    ],
)
def test_operators_of_a_module_are_the_same_renamed_fused_new_or_removed(after, expected):
    changed = found(BLOCK, [BLOCK[0], *after])
    assert {key: change for key, change in changed.items() if change} == expected


def test_modules_are_matched_by_class_and_then_by_what_runs_in_them():
    after = [
        (module.replace("Block_0", "Block_7").replace("Linear_0", "LoRA_3"), *rest)
        for module, *rest in BLOCK
    ]
    assert found(BLOCK, after) == {
        ("Net_0;Block_7;LoRA_3", "aten::mm", "aten::mm"): "",
        ("Net_0;Block_7", "aten::add", "aten::add"): "",
        ("Net_0;Block_7", "aten::relu", "aten::relu"): "",
    }


def test_a_compiled_function_does_what_operators_without_a_module_did():
    before = [("", "aten::mm", "gemm", 4.0), ("", "aten::add", "add", 1.0)]
    after = [("", "CompiledFunction", "triton", 2.0), ("", "CompiledFunctionBackward", "t", 1.0)]
    key = ("", "aten::mm + aten::add", "CompiledFunction + CompiledFunctionBackward")
    assert found(before, after) in (
        {key: "fused"},
        {(key[0], "aten::add + aten::mm", key[2]): "fused"},
    )


def test_stacks_are_those_of_both_runs_and_know_their_pairs():
    before = causes(*BLOCK, repeats=3)
    after = causes(("Net_0;Block_0;Linear_0", "aten::mm", "gemm", 7.0), *BLOCK[1:], repeats=3)
    parts = paired_parts(before, after)
    made = {stack.frames[-1]: stack for stack in stacks(parts, matched(parts))}
    assert made["gemm"].frames == ("Net_0", "Block_0", "Linear_0", "aten::mm", "gemm")
    assert made["gemm"].kinds == ("module", "module", "module", "operator", "kernel")
    assert len(made["gemm"].by_pair) == 3
    assert made["add"].by_pair == (0.0, 0.0, 0.0)


def test_what_separates_frames_may_stand_in_a_name():
    before = causes(("Net_0", "a;b", "k<1;2>", 5.0))
    parts = paired_parts(before, causes(("Net_0", "a;b", "k<1;2>", 7.0)))
    (made,) = stacks(parts, matched(parts))
    assert made.frames == ("Net_0", "a,b", "k<1,2>")
    assert made.kinds == ("module", "operator", "kernel")
