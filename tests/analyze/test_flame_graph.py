"""Flame graphs of steps: which frames they have, what these add up to, and what is left out."""

import pytest

from profkit.analyze.flame_graph import analyze
from profkit.analyze.shared.large_table import LargeTable
from profkit.tables import schema
from profkit.testing import ORIGIN_NS, run
from tests.recorded_ranks import LATE_US, LENGTHS_US, US, tables

STEP = {"rank": 0, "repeat": 0, "step": 5, "tid": 7}


def drawn(name="step_frames", **more):
    given = {table: rows for table, rows in tables().items() if table in analyze.tables}
    return run(analyze, **(given | more)).drawings[name]


def frames(tree):
    """Return kind, text and own numbers by path."""
    texts = [tree["names"][name] for name in tree["name"]]
    paths = []
    for text, above in zip(texts, tree["above"], strict=True):
        paths.append(f"{paths[above]};{text}" if above >= 0 else text)
    return dict(zip(paths, zip(*tree["own"], strict=True), strict=True))


def test_a_kernel_is_below_its_operator_and_this_below_its_modules():
    found = frames(drawn().details[0].data())
    assert found == {
        "Net": (0, 0),
        "Net;Linear": (0, 0),
        "Net;Linear;aten::mm": (0, 40 * US),
        "Net;Linear;aten::mm;aten::copy_": (0, 40 * US),
        "Net;Linear;aten::mm;aten::copy_;gemm": (140 * US, 0),
        "ncclAllReduce": (sum(LENGTHS_US.values()) * US // 3 - 300 * US, 0),
    }


def test_each_rank_is_a_part_with_its_threads_and_phases():
    drawing = drawn()
    assert [detail.name for detail in drawing.details] == [
        "rank 0 (least work)",
        "rank 1 (most work)",
    ]
    other = drawing.details[1].data()
    assert other["of"] == 3
    assert other["groups"] == [["main thread", "forward"], ["unknown thread", ""]]
    assert (
        other["own"][0][-1] == frames(drawing.details[0].data())["ncclAllReduce"][0] - LATE_US * US
    )


def test_what_began_first_in_a_step_comes_first():
    tree = drawn().details[0].data()
    roots = [row for row, above in enumerate(tree["above"]) if above < 0]
    texts = [tree["names"][tree["name"][row]] for row in roots]
    assert texts == ["Net", "ncclAllReduce"]
    assert [tree["kinds"][kind] for kind in tree["kind"]] == [
        "module", "module", "operator", "operator", "kernel", "kernel",
    ]  # fmt: skip


def test_the_smallest_frames_of_a_caller_are_joined_and_nothing_is_lost():
    every, few = (frames(drawn(max_frames=most).details[0].data()) for most in (5000, 3))
    assert "(smaller frames)" in " ".join(few)
    assert len(few) < len(every)
    assert [sum(column) for column in zip(*few.values(), strict=True)] == [
        sum(column) for column in zip(*every.values(), strict=True)
    ]


CALLS = [
    (0, -1, "<frozen runpy>(198): _run_module_as_main", 0, 400),
    (1, 0, "profkit/capture/harness/rank.py(62): main", 0, 400),
    (2, 1, "train.py(9): main", 0, 400),
    (3, 2, "torch/nn/modules/module.py(1775): _call_impl", 100, 300),
    (4, 3, "model.py(3): forward", 150, 250),
    (5, 2, "train.py(20): save", 5000, 6000),
]


def called(first=0, **where):
    return [
        STEP
        | {"call": first + call, "caller": caller if caller < 0 else first + caller}
        | {"kind": "function", "name": name}
        | {"start_ns": ORIGIN_NS + start * US, "end_ns": ORIGIN_NS + end * US}
        | where
        for call, caller, name, start, end in CALLS
    ]


@pytest.fixture(scope="module")
def python():
    drawing = drawn("python_frames", python_calls=called())
    assert drawing.data["first"] == ["main thread"]
    return drawing.details[0].data()


def test_python_is_that_of_the_steps_and_of_the_program(python):
    assert frames(python) == {
        "main (train.py:9)": (200 * US // 3,),
        "main (train.py:9);_call_impl (torch/nn/modules/module.py:1775)": (100 * US // 3,),
        "main (train.py:9);_call_impl (torch/nn/modules/module.py:1775);forward (model.py:3)": (
            100 * US // 3,
        ),
    }


@pytest.mark.parametrize("size", [1, 2, 4, 7])
def test_python_is_the_same_in_whatever_portions_its_calls_are_read(size):
    calls = [*called(), *called(first=len(CALLS), tid=8), *called(rank=1)]
    parts = [schema.frame("python_calls", calls[at : at + size]) for at in range(0, 18, size)]
    others = {name: rows for name, rows in tables().items() if name in analyze.tables}
    given = {name: schema.frame(name, rows) for name, rows in others.items()}
    at_once, portions = (
        analyze.run(
            **given, python_calls=rows, samples=None, sampled_steps=None, config=analyze.config()
        )
        .drawings["python_frames"]
        .details
        for rows in (schema.frame("python_calls", calls), LargeTable(lambda: iter(parts)))
    )
    assert [detail.data() for detail in portions] == [detail.data() for detail in at_once]
    assert [len(detail.data()["groups"]) for detail in at_once] == [2, 1]


def test_frames_of_libraries_say_of_which(python):
    kinds = dict(
        zip(python["names"], map(python["kinds"].__getitem__, python["kind"]), strict=True)
    )
    assert kinds["_call_impl (torch/nn/modules/module.py:1775)"] == "library:torch"
    assert kinds["forward (model.py:3)"] == "program"


def test_sampled_stacks_take_the_place_of_calls_that_were_not_recorded():
    ops = schema.frame("cpu_ops", tables()["cpu_ops"])[list(analyze.columns["cpu_ops"])]
    stacks = ["train.py(9): main;model.py(3): forward", "train.py(9): main"]
    samples = [
        STEP | {"time_ns": ORIGIN_NS + at * 20 * US, "cpu_ns": -1, "stack": stacks[at % 2]}
        for at in range(40)
    ]
    for sample in samples:
        del sample["step"]
    tree = drawn("python_frames", cpu_ops=ops, samples=samples).details[0].data()
    assert tree["names"] == ["main (train.py:9)", "forward (model.py:3)"]
    assert 0 < sum(tree["own"][0]) <= 800 * US


def test_without_kernels_there_is_cpu_time_alone():
    (measure,) = drawn(kernels=[], runtime_calls=[]).data["measures"]
    assert measure == {"title": "CPU time", "column": 1}
