"""What a tool cannot record on this machine is told with each capture that lacks it."""

import pytest

from profkit.capture.base import Problem, Tool
from profkit.capture.harness.machine import compatibility
from profkit.capture.nsys import Capture as Nsys
from profkit.capture.torch_profiler import Capture as TorchProfiler
from profkit.capture.torch_profiler import Experimental

DROPPED = "drops what a program itself marks with nvtx 0.2.17"


@pytest.fixture
def old_nsys(monkeypatch):
    problems = list(compatibility.nvtx_ranges("0.2.17", "2022.4"))
    problem = Problem(
        kind="forbidden",
        what="no counters",
        advice="ask",
        stops=False,
        setting="gpu_metrics_devices",
    )
    monkeypatch.setattr(Nsys, "problems", classmethod(lambda _: iter([*problems, problem])))


@pytest.mark.usefixtures("old_nsys")
def test_what_this_version_drops_is_told_and_what_is_off_is_not():
    (loss,) = Nsys().losses()
    assert DROPPED in loss
    assert Nsys(gpu_metrics_devices=("0",)).losses() == [loss, "no counters; ask"]


def test_a_setting_may_be_a_part_of_a_section(monkeypatch):
    setting = "experimental.profiler_metrics"
    problem = Problem(kind="forbidden", what="x", advice="y", stops=False, setting=setting)
    monkeypatch.setattr(TorchProfiler, "problems", classmethod(lambda _: iter([problem])))
    assert TorchProfiler().losses() == []
    metrics = Experimental(profiler_metrics=("kineto__cuda_core_flops",))
    assert TorchProfiler(experimental=metrics).losses() == ["x; y"]


def test_a_problem_that_stops_a_tool_is_no_loss(monkeypatch):
    problem = Problem(kind="missing", what="x", advice="y")
    monkeypatch.setattr(Tool, "problems", classmethod(lambda _: iter([problem])))
    assert Tool().losses() == []
