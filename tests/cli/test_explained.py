"""Why two runs differ, in lines for the terminal."""

import pytest

from profkit.analyze.shared.waterfall import Bar, Waterfall
from profkit.cli.explained import Why, lines
from profkit.core.result import Interval


def between(before_ms, after_ms, *bars):
    return Waterfall(
        before_ms=before_ms,
        after_ms=after_ms,
        basis="unprofiled",
        rank_before=0,
        rank_after=0,
        pairs=6,
        work=1,
        launching_ms=(0.0, 0.0),
        bars=bars,
    )


def bar(title, difference_ms, low, *, is_noise):
    return Bar(
        id=title,
        title=title,
        before_ms=0.0,
        after_ms=difference_ms,
        difference_ms=difference_ms,
        interval=Interval(low=low, high=2 * difference_ms - low, confidence=0.95),
        is_noise=is_noise,
    )


def test_the_cause_of_most_of_a_difference_is_named_though_it_is_not_sure():
    bars = (
        bar("Operators: aten::mm", 24.7, 6.2, is_noise=True),
        bar("Python: log", 20.0, -1.0, is_noise=True),
        bar("Python: train", 0.9, 0.8, is_noise=False),
        bar("Python: step", 5.0, 4.0, is_noise=True),
    )
    _, first, second = lines(Why(step_time=between(11.0, 38.0, *bars)))
    assert "aten::mm  (likely; causes vary too much to be sure)" in first
    assert second.endswith("Python: train")


@pytest.mark.parametrize(("after_ms", "is_large"), [(0.6, True), (16.0, False)])
def test_a_large_difference_without_a_cause_says_why_there_is_none(after_ms, is_large):
    _, line = lines(Why(step_time=between(17.0, after_ms)))
    assert line.startswith("  no cause differs by more than chance")
    assert ("vary too much" in line) == is_large
