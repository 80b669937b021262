"""What names in reports of Nsight Systems mean."""

import pytest

from profkit.convert.nsys.names import Range, function, nvtx_range, round_of, step_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("forward", Range("forward")),
        ("all_reduce grad [a, b]", Range("all_reduce grad [a, b]")),
        ("aten::mm, op_id = 5", Range("aten::mm", True)),
        (
            "aten::mm, seq = 3, op_id = 5, sizes = [[2, 3], [3]]",
            Range("aten::mm", True, 3, False, "[[2,3],[3]]"),
        ),
        ("MmBackward0, seq = 3, op_id = 9", Range("MmBackward0", True, 3, True)),
        ("aten::relu", Range("aten::relu", True)),
    ],
)
def test_ranges_of_pytorch_are_taken_apart(text, expected):
    assert nvtx_range(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("step#12", ("step#", 12)),
        ("ProfilerStep#3", ("ProfilerStep#", 3)),
        ("iteration 4", ("iteration ", 4)),
        ("train_step_7", ("train_step_", 7)),
        ("Warm-up Step 2", ("Warm-up Step ", 2)),
        ("benchmark_iter_3", ("benchmark_iter_", 3)),
        ("batch 9", ("batch ", 9)),
        ("optimizer step 3", None),
        ("backward", None),
        ("stepping 3", None),
        ("optimizer.step", None),
    ],
)
def test_steps_are_known_by_their_names(text, expected):
    assert step_of(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("token_12_processing", ("token_", 12)),
        ("decode token 3", ("decode token ", 3)),
        ("frame:7", ("frame:", 7)),
        ("layer_3", None),
        ("tokenizer", None),
        ("step 4", None),
    ],
)
def test_rounds_are_known_by_their_names(text, expected):
    assert round_of(text) == expected


def test_functions_lose_their_versions_only():
    names = ["cudaLaunchKernel_v7000", "cuMemcpyAsync_ptsz", "cudaMemcpyAsync_ptsz_v7000", "cuInit"]
    assert [function(name) for name in names] == [
        "cudaLaunchKernel", "cuMemcpyAsync_ptsz", "cudaMemcpyAsync", "cuInit",
    ]  # fmt: skip
