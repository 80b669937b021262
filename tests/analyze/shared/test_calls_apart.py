"""What runs between steps is what no step calls."""

from collections import Counter

import pandas as pd
import pytest

from profkit.analyze.shared.calls_apart import calls_apart

LOOP = "train.py(9): main"
STEP = [("train.py(20): <module>", LOOP, "net.py(5): forward")] * 99


def by_call(between, inside=STEP):
    times = pd.Series({";".join(frames): ns for *frames, ns in between}, dtype=float)
    found = calls_apart(times, pd.Series(Counter(map(";".join, inside))))
    return [(row.place, row.call, round(row.share, 2)) for row in found]


def test_the_place_is_the_outermost_line_that_no_step_has():
    between = [
        (
            "train.py(20): <module>",
            "train.py(12): main",
            "eval.py(7): run",
            "net.py(5): forward",
            60,
        ),
        ("train.py(20): <module>", "train.py(12): main", "eval.py(8): run", "<built-in x>", 20),
        ("train.py(20): <module>", LOOP, "torch/serialization.py(834): save", 15),
        ("train.py(20): <module>", "train.py(13): main", 5),
    ]
    assert by_call(between) == [
        ("train.py(12): main", "eval.run", 0.8),
        (LOOP, "torch.serialization.save", 0.15),
        ("train.py(13): main", "", 0.05),
    ]


def test_a_line_that_few_looks_put_into_a_step_is_none_of_steps():
    late = ("train.py(20): <module>", "train.py(12): main", "eval.py(7): run")
    assert by_call([(*late, 10)], [*STEP, late]) == [("train.py(12): main", "eval.run", 1)]


@pytest.mark.parametrize(
    "frames",
    [
        (LOOP, "torch/profiler/profiler.py(900): step", "<built-in stop>"),
        (LOOP, "profkit/capture/harness/run.py(10): end"),
        (LOOP, "profkit/core/atomic_write.py(10): write", "<built-in function write>"),
    ],
)
def test_what_records_is_no_part_of_the_program(frames):
    test = ("train.py(20): <module>", "train.py(12): main", "eval.py(7): run")
    assert by_call([(*frames, 30), (*test, 10)]) == [("train.py(12): main", "eval.run", 1)]


def test_frames_of_profkit_around_a_program_are_passed_over():
    around = "profkit/workloads/script.py(5): main"
    between = [(around, "train.py(12): main", "eval.py(7): run", 10)]
    assert by_call(between, [(around, LOOP)]) == [("train.py(12): main", "eval.run", 1)]


@pytest.mark.parametrize(
    ("frames", "call"),
    [
        (["torch/utils/_contextlib.py(120): decorate_context", "eval.py(7): run"], "eval.run"),
        (["torch/nn/modules/module.py(1778): _wrapped_call_impl", "net.py(5): go"], "model(...)"),
        (["torch/_dynamo/eval_frame.py(9): f", "torch/nn/modules/module.py(8): g"], "model(...)"),
        ([], ""),
    ],
    ids=["a decorator", "the model", "a compiled model", "nothing"],
)
def test_a_call_has_the_name_that_the_program_knows(frames, call):
    between = [("train.py(20): <module>", "train.py(12): main", *frames, 10)]
    assert by_call(between) == [("train.py(12): main", call, 1)]


def test_what_a_library_calls_is_the_function_that_steps_do_not_have_as_well():
    around = ("train.py(12): main", "transformers/trainer.py(1576): train")
    lines = [
        (*around, f"transformers/trainer.py({line}): _run_epoch", *frames, count)
        for line, frames, count in [
            (1943, ("accelerate/optimizer.py(3): step",), 99),
            (2278, ("transformers/trainer.py(7): _evaluate", "transformers/x.py(3): evaluate"), 1),
        ]
    ]
    steps, evaluates = ([line[:-1]] * line[-1] for line in lines)
    between = [(*evaluates[0], 90)]
    assert by_call(between, [*steps, *evaluates]) == [
        ("train.py(12): main", "transformers.x.evaluate", 1)
    ]


def test_a_handler_of_the_program_is_where_it_calls_and_no_function_around_it():
    """As ignite calls what `trainer.on` decorates."""
    around = ("train.py(38): main", "ignite/engine/engine.py(9): run")
    handles = (*around, "ignite/engine/engine.py(3): wrapper", "train.py(34): log")
    between = [(*handles, "ignite/engine/engine.py(9): run", "train.py(14): forward", 10)]
    assert by_call(between, [(*around, "train.py(20): step")]) == [
        ("train.py(34): log", "ignite.engine.engine.run", 1)
    ]


def test_lines_that_train_and_evaluate_are_of_steps():
    forward = ("train.py(20): <module>", LOOP, "net.py(5): forward", "net.py(2): product")
    steps = [forward] * 3 + [("train.py(20): <module>", LOOP, "train.py(2): backward")] * 7
    assert by_call(
        [(*forward, 90), ("train.py(20): <module>", "train.py(13): main", 10)], steps
    ) == [("train.py(13): main", "", 0.1)]


def test_nothing_that_was_seen_is_no_row():
    assert by_call([]) == []


@pytest.mark.parametrize(("elsewhere", "line"), [(20, "net.py(5): forward"), (60, "")])
def test_the_line_that_most_of_a_call_is_in_is_the_innermost_of_the_program(elsewhere, line):
    layer = "torch/nn/modules/linear.py(125): forward"
    call = ("train.py(12): main", "eval.py(7): run")
    times = {(*call, "net.py(5): forward", layer): 60, ("train.py(12): main", "a.py(1): b"): 1}
    times |= {("train.py(12): main", "eval.py(8): run"): elsewhere}
    made = pd.Series({";".join(frames): ns for frames, ns in times.items()}, dtype=float)
    found = calls_apart(made, pd.Series({LOOP: 1.0}))
    assert [row.line for row in found if row.call == "eval.run"] == [line]
