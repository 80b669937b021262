"""Which Python calls of a large trace causes and patterns get to see."""

import importlib

import pytest

from profkit.analyze.division import kept_calls
from profkit.analyze.shared.large_table import LargeTable
from profkit.patterns import patterns
from profkit.patterns.base import pattern
from profkit.testing import found, frame, span

MODEL = "torch/nn/modules/module.py(1743): _call_impl"
# call, caller, its name, its start and its end; the program calls what then sleeps
CALLS = [
    (0, -1, "train.py(1): <module>", 0, 1000),
    (1, 0, "train.py(9): step", 0, 500),
    (2, 1, MODEL, 0, 400),
    (3, 2, "torch/_device.py(100): __torch_function__", 10, 390),
    (4, 3, "model.py(7): forward", 20, 380),
    (5, 4, "torch/functional.py(3): linear", 30, 370),
    (6, 5, "<built-in method linear>", 40, 360),
    (7, 0, "subprocess.py(506): run", 600, 900),
    (8, 7, "subprocess.py(1165): communicate", 610, 890),
    (9, 8, "<built-in function sleep>", 620, 880),
]
KEPT = {0: -1, 1: 0, 4: 1, 7: 0, 8: 7, 9: 8}


def portions(size):
    rows = [
        span(start, end, call=call, caller=caller, name=name, kind="function", tid=1)
        for call, caller, name, start, end in CALLS
    ]
    parts = [frame("python_calls", rows[at : at + size]) for at in range(0, len(rows), size)]
    return LargeTable(lambda: iter(parts))


def callers(size, kernels=()):
    kept = kept_calls.kept_calls(portions(size), frame("kernels", kernels))
    return dict(zip(kept["call"].tolist(), kept["caller"].tolist(), strict=True))


def test_calls_of_the_program_are_kept_and_all_that_is_around_a_sleep():
    assert callers(len(CALLS), [span(0, 9)]) == KEPT


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7])
def test_calls_that_a_portion_ends_in_are_kept_as_well_and_no_other_link_changes(size):
    kept = callers(size, [span(0, 9)])
    assert kept.keys() >= KEPT.keys()
    for call, above in KEPT.items():
        while (nearest := kept[call]) not in KEPT and nearest >= 0:
            call = nearest  # noqa: PLW2901 (climb)
        assert nearest == above


def test_calls_that_are_looked_for_without_a_gpu_are_kept_where_there_is_none():
    assert callers(len(CALLS)) == KEPT | {2: 1, 4: 2}
    assert callers(len(CALLS), [span(0, 9, rank=1)]) == KEPT | {2: 1, 4: 2}


def test_a_pattern_that_does_not_say_which_calls_it_looks_for_gets_all(monkeypatch):
    def match(python_calls):
        del python_calls

    any_calls = pattern(title="Any", source="https://docs.pytorch.org")(match)
    monkeypatch.setattr(kept_calls, "patterns", lambda: {"any": any_calls})
    assert len(callers(3)) == len(CALLS)


@pytest.mark.parametrize(
    "name", [name for name, one in patterns().items() if "python_calls" in one.parameters]
)
def test_every_pattern_says_which_calls_it_looks_for_and_finds_its_example_in_those(name):
    example = importlib.import_module(f"tests.patterns.examples.{name}")
    assert patterns()[name].calls is not None
    calls = [{"call": at, **row} for at, row in enumerate(example.FOUND.get("python_calls", ()))]
    columns = [{key: row[key] for key in row if key != "charged_ns"} for row in calls]
    kernels = [] if patterns()[name].without_gpu else [span(0, 9)]
    of_use = LargeTable.of(frame("python_calls", columns))
    kept = set(kept_calls.kept_calls(of_use, frame("kernels", kernels))["call"])
    seen = [row for row in calls if row["call"] in kept]
    (made,) = found(patterns()[name], **{**example.FOUND, "python_calls": seen})
    assert (made.cause, made.gain_ns) == (example.EXPECTED[0], pytest.approx(example.EXPECTED[1]))
