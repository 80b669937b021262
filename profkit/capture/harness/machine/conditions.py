"""Conditions of the machine during a capture: clocks, temperatures, work of other processes."""

import os
import resource
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psutil

from profkit.capture.harness.machine import nvml

# Reading all sensors of a GPU takes up to some milliseconds of this process, which has no other
# work, and none of the ranks'.
_PERIOD_S = 0.5
_IDLE = "gpu_idle"
# Throttle reasons of NVML that are settings of the user.
_CHOSEN = {_IDLE, "applications_clocks_setting", "display_clock_setting"}
_OTHERS_SHARE = 0.1
_STOLEN_SHARE = 0.05
# A GPU at work lowers its clock by a little to stay within its power.
_HARMLESS = {"sw_power_cap"}
_CLOCK = "sm_clock_mhz"
# Change of a clock that is still steady. A GPU gets warm as it works, which alone changes no time.
_STEADY = 0.05


@dataclass
class Range:
    """Minimum, mean and maximum of a reading."""

    low: float
    high: float
    total: float = 0.0
    count: int = 0

    def add(self, value: float) -> None:
        """Add one reading."""
        self.low, self.high = min(self.low, value), max(self.high, value)
        self.total += value
        self.count += 1

    def summary(self) -> dict[str, float]:
        """Return minimum, mean and maximum."""
        return {"min": self.low, "mean": round(self.total / self.count, 3), "max": self.high}


@dataclass
class Readings:
    """Readings of one device while it worked."""

    ranges: dict[str, Range] = field(default_factory=dict)
    reasons: Counter[str] = field(default_factory=Counter)
    samples: int = 0

    def add(self, state: Mapping[str, Any]) -> None:
        """Add one state, unless the GPU is idle, and its clocks perhaps low for that."""
        reasons = state.get("throttle_reasons", [])
        if _IDLE in reasons or state.get("busy_percent") == 0:
            return
        self.samples += 1
        self.reasons.update(reasons)
        for name, value in state.items():
            if isinstance(value, int | float):
                self.ranges.setdefault(name, Range(low=value, high=value)).add(value)

    def summary(self) -> dict[str, Any]:
        """Return the ranges, and in how many of the samples each throttle reason was given."""
        ranges = {name: values.summary() for name, values in self.ranges.items()}
        return {"samples": self.samples, **ranges, "throttle_reasons": dict(self.reasons)}


class Conditions:
    """Reads the sensors before, during and after a capture; see `monitored`."""

    def __init__(self, library: Any) -> None:
        self.nvml = library
        self.before = self.states()
        self.at_work = [Readings() for _ in self.before]
        self.cpu = Readings()
        self.load = os.getloadavg()[0]
        self.cpu_times = psutil.cpu_times()
        self.own_s = _own_seconds()
        self.last_s = 0.0

    def states(self) -> list[dict[str, Any]]:
        """Return how each GPU is now."""
        return nvml.states(self.nvml) if self.nvml is not None else []

    def sample(self) -> None:
        """Read the sensors, unless that was a moment ago."""
        now_s = time.monotonic()
        if now_s - self.last_s < _PERIOD_S:
            return
        self.last_s = now_s
        for readings, state in zip(self.at_work, self.states(), strict=False):
            readings.add(state)
        if frequency := _cpu_frequency():
            self.cpu.add({"clock_mhz": frequency})

    def summary(self, launched_s: float) -> dict[str, Any]:
        """Return all readings; shares are of the time of all CPUs.

        `launched_s` is the CPU time of processes of the capture that were no children of this one.
        """
        after, own_s = self.states(), _own_seconds() - self.own_s + launched_s
        return {
            "gpus": [
                {"before": before, "at_work": readings.summary(), "after": last}
                for before, readings, last in zip(self.before, self.at_work, after, strict=False)
            ],
            "cpu": {
                "load_before": self.load,
                **{name: values.summary() for name, values in self.cpu.ranges.items()},
                **cpu_shares(self.cpu_times, psutil.cpu_times(), own_s),
            },
        }


@contextmanager
def monitored(library: Any = None) -> Iterator[Conditions]:
    """Yield the `Conditions` of this machine; tests pass a `library` in place of pynvml."""
    with nvml.opened(library) as opened:
        yield Conditions(opened)


def cpu_shares(before: Any, after: Any, own_s: float) -> dict[str, float]:
    """Return the shares of all CPUs' time that other processes took, and other virtual machines.

    `own_s` is the CPU time of this process and its children. The share of other virtual machines
    is left out where the kernel does not count it.
    """
    spent = {name: getattr(after, name) - getattr(before, name) for name in after._fields}
    # A guest's time is counted in user and nice as well.
    total = sum(value for name, value in spent.items() if not name.startswith("guest"))
    if total <= 0:
        return {}
    idle = spent["idle"] + spent.get("iowait", 0.0) + spent.get("steal", 0.0)
    shares = {"other_work_share": max(0.0, total - idle - own_s) / total}
    if "steal" in spent:
        shares["stolen_share"] = spent["steal"] / total
    return {name: round(value, 4) for name, value in shares.items()}


def warnings(summary: Mapping[str, Any], earlier: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return causes of doubt about the numbers of a capture, alone or beside `earlier` ones."""
    found = []
    for index, gpu in enumerate(summary["gpus"]):
        work = gpu["at_work"]
        if reasons := _held_down(work):
            found.append(f"the clocks of GPU {index} were held down: {', '.join(reasons)}")
        with_gpu = [record for record in earlier if index < len(record["gpus"])]
        found += _moves(index, work, [record["gpus"][index]["at_work"] for record in with_gpu])
    cpu = summary["cpu"]
    if cpu.get("other_work_share", 0.0) > _OTHERS_SHARE:
        found.append(f"other processes took more than {_OTHERS_SHARE:.0%} of the CPUs' time")
    if cpu.get("stolen_share", 0.0) > _STOLEN_SHARE:
        found.append(f"other virtual machines took more than {_STOLEN_SHARE:.0%} of the CPUs' time")
    return [f"{text}; see conditions in capture.json" for text in found]


def _held_down(work: Mapping[str, Any]) -> list[str]:
    """Return what held the clocks of a GPU down, those of `_HARMLESS` only if they moved much."""
    reasons = set(work["throttle_reasons"]) - _CHOSEN
    return sorted(reasons if _has_moved(work) else reasons - _HARMLESS)


def _moves(
    index: int, work: Mapping[str, Any], others: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """Yield that the clock of a GPU moved in this capture, or differs from those of `others`."""
    if _has_moved(work):
        yield f"the clock of GPU {index} moved while it worked"
    own, *earlier = (one[_CLOCK]["mean"] if _CLOCK in one else None for one in (work, *others))
    if own and any(clock and _are_apart(own, clock) for clock in earlier):
        yield f"the clock of GPU {index} was not as in earlier captures of this run"


def _has_moved(work: Mapping[str, Any]) -> bool:
    return _CLOCK in work and _are_apart(work[_CLOCK]["min"], work[_CLOCK]["max"])


def _are_apart(one: float, other: float) -> bool:
    return abs(one - other) > _STEADY * max(one, other)


def _own_seconds() -> float:
    """Return the CPU time of this process and of its children that have ended, in seconds."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    usages = [resource.getrusage(kind) for kind in kinds]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _cpu_frequency() -> float | None:
    """Return the mean clock of the CPUs in MHz; None where it cannot be read."""
    try:
        frequency = psutil.cpu_freq()
    except (OSError, NotImplementedError):
        return None
    return round(frequency.current, 1) if frequency and frequency.current else None
