"""Parts are timed by torch's own Timer, without what prepares them."""

import pytest
import torch

from profkit import marks
from profkit.capture import torch_benchmark
from profkit.capture.base import Rank
from profkit.capture.torch_benchmark import Capture
from profkit.core.errors import ProfkitError
from profkit.core.parallel_layout import Parallel

TOOL = Capture(measurements=2, calls=3)


class Time:
    """Stands for the module `time`: it passes when a part of the workload says so."""

    def __init__(self):
        self.passed_s = 0.0

    def perf_counter(self):
        return self.passed_s


def test_what_prepares_a_part_is_not_counted(monkeypatch):
    done, time = [], Time()
    monkeypatch.setattr(torch_benchmark, "time", time)

    def prepare():
        time.passed_s += 5
        done.append("prepare")

    def run():
        time.passed_s += 1
        done.append("run")

    found = TOOL.benchmarked(lambda: {"forward": marks.Part(prepare=prepare, run=run)})
    first, second = found["parts"]["forward"]
    for measurement in (first, second):
        assert measurement["calls"] == 3
        assert sum(measurement["seconds"]) == pytest.approx(3)
    # Two calls before each measurement are not timed.
    assert done == ["prepare", "run"] * 2 * (2 + 3)
    assert found["device"] == "cpu"


def test_operators_take_the_threads_that_are_set_while_a_part_runs():
    before, seen = torch.get_num_threads(), []
    part = marks.Part(prepare=lambda: None, run=lambda: seen.append(torch.get_num_threads()))
    wanted = before + 1
    found = Capture(measurements=1, calls=1, threads=wanted).benchmarked(lambda: {"forward": part})
    assert found["threads"] == wanted
    assert {*seen} == {wanted}
    assert torch.get_num_threads() == before


def test_a_workload_that_offers_nothing_is_told_so(tmp_path, monkeypatch):
    monkeypatch.setattr(marks, "_marks", marks._Marks())

    def captured():
        with TOOL.record(tmp_path, Rank()):
            pass

    with pytest.raises(ProfkitError, match="offers no parts"):
        captured()


def test_every_rank_takes_part_as_they_communicate():
    assert Capture(ranks=(0,)).records_rank(1, 2, Parallel())
