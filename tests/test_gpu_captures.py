"""Captures that were made on a GPU, from their raw files to the verdict."""

import gzip
import json
import shutil
from pathlib import Path
from statistics import median

import pytest

from profkit.capture.harness.record import capture_json
from profkit.core import result
from profkit.core.verdict import Confidence, Limiter
from profkit.dag import inputs as dags
from tests.stages import report_of

DATA = Path(__file__).parent / "data" / "cuda"
OVERRIDES = ("tool=[torch_profiler]", "world_size=1", "launcher=python", "repeats=1")


@pytest.fixture
def analysed(tmp_path, monkeypatch):
    """Return what makes a run of the captures of one program: its verdict and its causes."""
    monkeypatch.chdir(tmp_path)

    def make(name):
        (run,) = dags.load([*OVERRIDES]).plan.runs
        for raw in (DATA / name).iterdir():
            folder = Path("results/runs", run.name, "capture", raw.name, "rep0")
            shutil.copytree(raw, folder)
            record = {"tool": raw.name, "repeat": 0, "attempt": 1, "status": "ok", "reason": ""}
            record |= {"settings": {}, "workload": {}, "files": capture_json.files(folder)}
            capture_json.write(folder, {**record, "ranks": ["rank0_dp0_tp0_pp0"]})
        report_of(*OVERRIDES)
        folder = Path("results/runs", run.name, "analyze")
        return [result.read(folder / f"{one}.json").result for one in ("verdict", "causes")]

    return make


def recorded(name):
    """Return the kernels of a trace, and the ids of the calls that were recorded, from the file."""
    (path,) = (DATA / name / "torch_profiler").glob("*.trace.json.gz")
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    kinds = {"kernel", "gpu_memcpy", "gpu_memset"}
    kernels = [event for event in events if event.get("cat") in kinds]
    calls = [event for event in events if event.get("cat") in {"cuda_runtime", "cuda_driver"}]
    return kernels, {call["args"]["correlation"] for call in calls}


def clocked_ms(name, tool):
    """Return the times of the steps by the clock of the harness."""
    (path,) = (DATA / name / tool).glob("*.steps.json")
    return [(end - start) / 1e6 for start, end, *_ in json.loads(path.read_bytes())["steps"]]


def test_where_the_cpu_is_ahead_steps_are_those_of_the_gpu(analysed):
    verdict, causes = analysed("ahead")
    kernels, calls = recorded("ahead")
    before = [one for one in kernels if one["args"]["correlation"] not in calls]
    own = [one for one in kernels if one["args"]["correlation"] in calls]
    assert len(before) == len(own) / 3
    begin, end = (max(one["ts"] + one["dur"] for one in part) for part in (before, own))
    found = verdict.verdict
    assert found.limiter is Limiter.GPU
    assert found.traced_ms == pytest.approx((end - begin) / 3e3, rel=1e-4)
    computing_ms = sum(one["dur"] for one in own if one["cat"] == "kernel") / 3e3
    assert causes.metrics["gpu_computing_ms"].value == pytest.approx(computing_ms, rel=1e-4)
    assert found.step_ms == pytest.approx(median(clocked_ms("ahead", "baseline")[3:]))
    assert found.overhead_ms < 0.01 * found.step_ms
    assert found.confidence is Confidence.HIGH
    assert found.actions[0].title == "FP32 matrix products"


def test_what_the_profiler_adds_to_launches_is_no_time_to_be_gained(analysed):
    verdict, causes = analysed("launches")
    kernels, _ = recorded("launches")
    found = verdict.verdict
    assert found.limiter is Limiter.CPU
    computing_ms = sum(one["dur"] for one in kernels if one["cat"] == "kernel") / 3e3
    assert causes.metrics["gpu_computing_ms"].value == pytest.approx(computing_ms, rel=1e-4)
    plain = median(clocked_ms("launches", "baseline")[3:])
    same, slowed = (
        median(clocked_ms("launches", tool)[5:8]) for tool in ("baseline", "torch_profiler")
    )
    traced_ms = causes.metrics["step_ms"].value
    added_ms = min(traced_ms * (1 - same / slowed), traced_ms - plain)
    assert found.overhead_ms == pytest.approx(added_ms, rel=1e-6)
    assert found.traced_ms == pytest.approx(plain, rel=0.05)
    assert found.actions[0].gain_ms < found.step_ms
    assert found.actions[0].title == "Short kernels, bound by launches"
