"""Parts are timed by torch's own Timer, without what prepares them."""

import time

import pytest

from profkit import marks
from profkit.capture.base import Rank
from profkit.capture.torch_benchmark import Capture
from profkit.core.errors import ProfkitError
from profkit.core.parallel_layout import Parallel

TOOL = Capture(measurements=2, calls=3)


def test_what_prepares_a_part_is_not_counted():
    done = []

    def prepare():
        time.sleep(0.05)
        done.append("prepare")

    def run():
        time.sleep(0.01)
        done.append("run")

    found = TOOL.benchmarked(lambda: {"forward": marks.Part(prepare=prepare, run=run)})
    first, second = found["parts"]["forward"]
    for measurement in (first, second):
        assert measurement["calls"] == 3
        assert 0.03 <= sum(measurement["seconds"]) < 0.1
    # Two calls before each measurement are not timed.
    assert done == ["prepare", "run"] * 2 * (2 + 3)
    assert found["device"] == "cpu"


def test_a_workload_that_offers_nothing_is_told_so(tmp_path, monkeypatch):
    monkeypatch.setattr(marks, "_marks", marks._Marks())

    def captured():
        with TOOL.record(tmp_path, Rank()):
            pass

    with pytest.raises(ProfkitError, match="offers no parts"):
        captured()


def test_every_rank_takes_part_as_they_communicate():
    assert Capture(ranks=(0,)).records_rank(1, 2, Parallel())
