"""What is said of the machine, from sensors that stand for real ones."""

from types import SimpleNamespace
from typing import NamedTuple

import psutil
import pynvml
import pytest

from profkit.capture.harness.machine import conditions
from tests.capture.harness.machine.test_nvml import FakeNvml

QUIET = {"gpus": [], "cpu": {}}


class Times(NamedTuple):
    """What psutil says of the CPUs, in seconds."""

    user: float
    system: float
    idle: float
    iowait: float
    steal: float
    guest: float


def seen(monkeypatch, *states, period_s=0.0):
    """Return the summary of a capture in which the GPU was in these states."""
    monkeypatch.setattr(conditions, "_PERIOD_S", period_s)
    fake = FakeNvml()
    with conditions.monitored(fake) as machine:
        for clock, temperature, reasons in states:
            fake.answers["nvmlDeviceGetClockInfo"] = {1: clock, 2: 2619}
            fake.answers["nvmlDeviceGetTemperature"] = {0: temperature}
            fake.answers["nvmlDeviceGetCurrentClocksEventReasons"] = reasons
            machine.sample()
        return machine.summary(0.0)


def said(summary, *earlier):
    """Return the warnings about GPUs, without where to look."""
    found = conditions.warnings(summary | {"cpu": {}}, earlier)
    return [warning.partition(";")[0] for warning in found]


def test_clocks_and_temperatures_are_those_of_the_gpu_at_work(monkeypatch):
    summary = seen(monkeypatch, (345, 30, 0x1), (1980, 50, 0), (1960, 56, 0x4), (345, 50, 0x1))
    (gpu,) = summary["gpus"]
    assert gpu["before"]["temperature_c"] == 61
    assert gpu["after"]["sm_clock_mhz"] == 345
    work = gpu["at_work"]
    assert work["sm_clock_mhz"] == {"min": 1960, "mean": 1970.0, "max": 1980}
    assert work["temperature_c"] == {"min": 50, "mean": 53.0, "max": 56}
    assert (work["samples"], work["throttle_reasons"]) == (2, {"sw_power_cap": 1})
    # It kept nearly all of its clock: that is what it does at full load.
    assert said(summary) == []


@pytest.mark.parametrize(
    ("states", "warning"),
    [
        ([(1980, 60, 0), (1900, 60, 0)], []),
        ([(1980, 60, 0), (1800, 60, 0)], ["the clock of GPU 0 moved while it worked"]),
        ([(1980, 60, 0), (1980, 75, 0)], []),
        (
            [(1980, 60, 0), (1800, 60, 0x4)],
            [
                "the clocks of GPU 0 were held down: sw_power_cap",
                "the clock of GPU 0 moved while it worked",
            ],
        ),
        ([(1980, 60, 0x40)], ["the clocks of GPU 0 were held down: hw_thermal_slowdown"]),
        ([(1980, 60, 0x2)], []),
        ([(345, 30, 0x1)], []),
    ],
    ids=[
        *("steady", "clock", "temperature", "power", "heat"),
        *("clocks that somebody chose", "idle"),
    ],
)
def test_a_reading_that_moved_is_a_warning(monkeypatch, states, warning):
    assert said(seen(monkeypatch, *states)) == warning


def test_before_its_first_kernel_a_gpu_is_not_at_work(monkeypatch):
    """Its clock goes up a moment before the driver says that it is idle no more."""
    monkeypatch.setattr(conditions, "_PERIOD_S", 0.0)
    fake = FakeNvml(nvmlDeviceGetCurrentClocksEventReasons=0)
    with conditions.monitored(fake) as machine:
        for clock, busy in ((345, 0), (1980, 40), (1980, 90)):
            fake.answers["nvmlDeviceGetClockInfo"] = {1: clock, 2: 2619}
            fake.answers["nvmlDeviceGetUtilizationRates"] = SimpleNamespace(gpu=busy, memory=0)
            machine.sample()
        summary = machine.summary(0.0)
    assert summary["gpus"][0]["at_work"]["sm_clock_mhz"]["min"] == 1980
    assert said(summary) == []


def test_a_clock_unlike_that_of_earlier_captures_is_a_warning(monkeypatch):
    fast, slow = seen(monkeypatch, (1980, 60, 0)), seen(monkeypatch, (1410, 75, 0))
    assert said(slow, fast) == ["the clock of GPU 0 was not as in earlier captures of this run"]
    assert said(fast, fast, QUIET) == []


def test_sensors_are_not_read_more_often_than_said(monkeypatch):
    summary = seen(monkeypatch, (1980, 60, 0), (1410, 60, 0), period_s=60)
    assert summary["gpus"][0]["at_work"]["samples"] == 1


def test_without_a_gpu_the_cpus_are_told_of():
    absent = FakeNvml(nvmlInit=pynvml.NVMLError_LibraryNotFound())
    with conditions.monitored(absent) as machine:
        machine.sample()
        summary = machine.summary(0.0)
    assert summary["gpus"] == []
    assert summary["cpu"]["load_before"] >= 0
    readable = psutil.cpu_freq() is not None
    assert ("clock_mhz" in summary["cpu"]) == readable


def test_what_others_take_of_the_cpus_is_what_is_not_our_own():
    before = Times(user=10, system=10, idle=100, iowait=0, steal=0, guest=5)
    after = Times(user=40, system=20, idle=140, iowait=10, steal=10, guest=25)
    assert conditions.cpu_shares(before, after, own_s=30.0) == {
        "other_work_share": 0.1,
        "stolen_share": 0.1,
    }
    assert conditions.cpu_shares(before, after, own_s=90.0)["other_work_share"] == 0
    assert conditions.cpu_shares(before, before, own_s=0.0) == {}


def test_other_work_and_other_machines_are_warnings():
    cpu = {"other_work_share": 0.3, "stolen_share": 0.2}
    assert [
        warning.partition(";")[0] for warning in conditions.warnings({"gpus": [], "cpu": cpu}, [])
    ] == [
        "other processes took more than 10% of the CPUs' time",
        "other virtual machines took more than 5% of the CPUs' time",
    ]
    quiet = {"other_work_share": 0.05, "stolen_share": 0.0}
    assert conditions.warnings({"gpus": [], "cpu": quiet}, []) == []
