"""Which first steps count, and which are one-off."""

from itertools import accumulate

import pytest

from profkit.analyze.division.periods import periods
from profkit.testing import frame, span

OWN = {"rank": 0, "repeat": 0}


def spans(lengths, **columns):
    """Return rows one after the other that last so long."""
    ends = [*accumulate(lengths)]
    pairs = zip(ends, lengths, strict=True)
    return [
        span(end - lasts, end, **OWN, step=number, **columns)
        for number, (end, lasts) in enumerate(pairs)
    ]


@pytest.mark.parametrize(
    ("gaps", "lasting"),
    [
        ((10, 20, 10, 0), [110, 120, 110, 100]),
        ((1, 900, 1, 0), [101, 100, 101, 100]),  # an evaluation follows the second
        ((1, 900, 900, 0), [101, 1000, 1000, 100]),
    ],
)
def test_a_step_lasts_until_the_next_but_for_what_is_done_between_some(gaps, lasting):
    starts = [sum(gaps[:number]) + 100 * number for number in range(4)]
    rows = [span(at, at + 100, **OWN, step=number) for number, at in enumerate(starts)]
    ops = [row | {"kind": "operator"} for row in rows]
    found = periods(frame("steps", rows), frame("cpu_ops", ops), frame("kernels", []), 0).rows
    assert [*(found["end_ns"] - found["start_ns"])] == lasting


@pytest.mark.parametrize(
    ("lengths", "counted"),
    [
        ((300, 300, 310, 300), [1, 2, 3]),  # three are enough
        ((300, 290, 300), [0, 1, 2]),
        ((300, 900, 310, 300), [2, 3]),  # the one before it is no longer one of these
        ((900, 300), [1]),
        ((300, 300, 300, 300, 300, 300), [3, 4, 5]),
    ],
)
def test_first_steps_that_take_as_long_count_where_few_remain(lengths, counted):
    steps, ops = spans(lengths), spans(lengths, kind="operator")
    skipped = min(3, len(lengths) - 1)
    found = periods(frame("steps", steps), frame("cpu_ops", ops), frame("kernels", []), skipped)
    assert [*found.rows["step"]] == counted
    assert found.skipped == len(lengths) - len(counted)


@pytest.mark.parametrize(
    ("lengths", "usual", "left_out"),
    [
        ((900, 300, 310), None, [0]),
        ((900, 650, 300, 310), None, [0, 1]),
        ((900, 300), None, [0]),
        ((510, 300, 59), None, []),  # each has another size
        ((192, 188, 41), None, []),  # it is the short step that differs
        ((192, 41, 40), None, [0]),
        ((192, 41, 40), 180, []),
        ((900, 41, 40), 180, [0]),
    ],
)
def test_first_steps_are_one_off_if_they_are_longer_than_usual(lengths, usual, left_out):
    steps, ops = spans(lengths), spans(lengths, kind="operator")
    clocked = frame("sampled_steps", spans([usual] * 5)) if usual else None
    found = periods(frame("steps", steps), frame("cpu_ops", ops), frame("kernels", []), 0, clocked)
    assert [*found.one_off_ns] == left_out
    assert [*found.rows["step"]] == [*range(len(left_out), len(lengths))]
