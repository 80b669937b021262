"""Why two runs differ, in lines for the terminal."""

import pytest

from profkit.analyze.shared.waterfall import Waterfall
from profkit.cli.explained import Why, lines


@pytest.mark.parametrize(("after_ms", "is_large"), [(0.6, True), (16.0, False)])
def test_a_large_difference_without_a_cause_says_why_there_is_none(after_ms, is_large):
    found = Waterfall(
        before_ms=17.0,
        after_ms=after_ms,
        basis="unprofiled",
        rank_before=0,
        rank_after=0,
        pairs=6,
        work=1,
        launching_ms=(0.0, 0.0),
        bars=(),
    )
    _, line = lines(Why(step_time=found))
    assert line.startswith("  no cause differs by more than chance")
    assert ("vary too much" in line) == is_large
