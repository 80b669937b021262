"""Frames of stacks: how they are called, and whose code they are."""

import pytest

from profkit.analyze.shared.frame_kinds import NOT_RECORDED, of_call, of_stack


@pytest.mark.parametrize(
    ("call", "frame"),
    [
        ("train.py(9): main", ("program", "main (train.py:9)")),
        ("profkit/workloads/train.py(72): f", ("program", "f (profkit/workloads/train.py:72)")),
        ("profkit/capture/harness/rank.py(62): main", None),
        ("<frozen runpy>(88): _run_code", None),
        ("torch/optim/adam.py(3): step", ("library:torch", "step (torch/optim/adam.py:3)")),
        ("transformers/a.py(1): f", ("library:transformers", "f (transformers/a.py:1)")),
        ("datasets/mine.py(1): f", ("program", "f (datasets/mine.py:1)")),
        ("contextlib.py(502): f", ("library:Python", "f (contextlib.py:502)")),
        ("<built-in function next>", ("library:Python", "<built-in function next>")),
    ],
)
def test_a_call_is_of_the_program_or_a_library_or_starts_it(call, frame):
    assert of_call(call) == frame


@pytest.mark.parametrize(
    ("stack", "frames"),
    [
        ("", [NOT_RECORDED]),
        ("main (/x/profkit/capture/harness/rank.py:6);f (a.py:1)", [("program", "f (a.py:1)")]),
        ("run (threading.py:9);f (a.py:1)", [("program", "f (a.py:1)")]),
        ("nn.Module: Gpt_0;aten::mm", [("module", "Gpt_0"), ("operator", "aten::mm")]),
        (
            "at::native::add(at::Tensor) (Add.cpp:3);sum (built-in)",
            [
                ("library:C and C++", "at::native::add(at::Tensor) (Add.cpp:3)"),
                ("library:C and C++", "sum (built-in)"),
            ],
        ),
        ("f (C:\\venv\\Lib\\site-packages\\torch\\a.py:1)", [
            ("library:torch", "f (C:\\venv\\Lib\\site-packages\\torch\\a.py:1)")
        ]),
    ],
)  # fmt: skip
def test_a_stack_has_its_frames_from_the_program_on(stack, frames):
    assert of_stack(stack) == frames
