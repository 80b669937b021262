"""The sampler: what it reads, when, and that its failures are not lost."""

import io
import json
import os
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from profkit import marks
from profkit.capture import _sensors, system
from profkit.capture.base import Rank

RANK = Rank(rank=1, local_rank=1, world_size=2, dp=1)


def lines(folder, rank):
    text = (folder / f"{rank.label}.samples.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_it_samples_at_its_period_and_times_phases(tmp_path, monkeypatch):
    monkeypatch.setattr(marks, "_marks", marks._Marks())
    with system.Capture(period_s=0.02).record(tmp_path, Rank()) as recorder:
        recorder.begin()
        with marks.phase("step#0"), marks.phase("forward"):
            time.sleep(0.2)
        recorder.step()
    written = lines(tmp_path, Rank())
    samples = [record for record in written if "readings" in record]
    (cost,) = [record for record in written if "cpu_ns" in record]
    assert min(cost["cpu_ns"], cost["elapsed_ns"]) > 0
    assert 3 <= len(samples) <= cost["elapsed_ns"] / 20_000_000 + 3
    assert [sample["time_ns"] for sample in samples] == sorted(
        sample["time_ns"] for sample in samples
    )
    assert {"process", "host"} <= set(samples[0]["readings"])
    (phase,) = [record for record in written if "phase" in record]
    assert (phase["phase"], phase["kind"]) == ("forward", "host")
    assert phase["end_ns"] - phase["start_ns"] >= 200_000_000


def test_only_the_first_rank_of_a_host_reads_the_host(tmp_path):
    with system.Capture(phases=False).record(tmp_path, RANK):
        pass
    assert {
        device for record in lines(tmp_path, RANK) for device in record.get("readings", {})
    } == {"process"}


def test_what_it_reads_is_what_the_system_says():
    own = psutil.Process()
    seen = _sensors.of_process(own)
    assert seen["memory_used_bytes"] == pytest.approx(own.memory_info().rss, rel=0.05)
    assert seen["cpu_s"] == pytest.approx(sum(os.times()[:2]), abs=0.1)
    host = _sensors.of_host()
    ticks = [int(field) for field in Path("/proc/stat").read_text().split()[1:9]]
    assert host["cpu_all_s"] == pytest.approx(sum(ticks) / os.sysconf("SC_CLK_TCK"), abs=5)
    assert 0 < host["memory_used_bytes"] < psutil.virtual_memory().total
    assert host["cpu_count"] == os.cpu_count()


def test_a_sensor_that_fails_ends_the_capture_with_its_error():
    failing = SimpleNamespace(read=lambda: 1 / 0)
    sampler = system._Sampler(system._Lines(io.StringIO()), failing, 0.01)
    sampler.start()
    with pytest.raises(ZeroDivisionError):
        sampler.end()


def test_the_gpu_that_a_rank_computes_on_is_found_by_its_identity(monkeypatch):
    cuda = SimpleNamespace(
        is_initialized=lambda: True,
        current_device=lambda: 3,
        get_device_properties=lambda index: SimpleNamespace(uuid=f"abc-{index}"),
    )
    monkeypatch.setitem(_sensors.sys.modules, "torch", SimpleNamespace(cuda=cuda))
    library = SimpleNamespace(
        NVMLError=KeyError,
        nvmlDeviceGetHandleByUUID={"GPU-abc-3": "handle"}.__getitem__,
        nvmlDeviceGetIndex={"handle": 5}.__getitem__,
    )
    sensors = _sensors.Sensors(library, with_host=False)
    assert sensors.find_gpu() == ""
    assert sensors.gpu == ("gpu5", "handle")
    cuda.current_device = lambda: 4
    assert _sensors.Sensors(library, with_host=False).find_gpu() == (
        "NVML does not know the GPU abc-4: it was not sampled."
    )
    assert "NVML does not answer" in _sensors.Sensors(None, with_host=False).find_gpu()
