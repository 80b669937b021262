"""Peaks of a device, as its maker states them: what measured numbers are compared with."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import yaml

from profkit.settings import Settings, checked

AUTO = "auto"
"""Name of the hardware that leaves it to the traces to say what the device is."""

_MAKERS = ("nvidia ", "amd ")


@dataclass(frozen=True, kw_only=True, slots=True)
class Hardware(Settings):
    """One file of ``conf/hardware/``; 0 means unknown, and analyses then abstain."""

    name: str = "unknown"
    """Name of the device."""

    reported_as: tuple[str, ...] = ()
    """Names under which drivers and traces report it, for ``hardware=auto``."""

    memory_bytes: int = 0
    """Device memory, in bytes."""

    memory_bandwidth_bytes_per_s: float = 0.0
    """Peak bandwidth of device memory, in bytes per second."""

    peak_flops: dict[str, float] = field(default_factory=dict)
    """Dense peak by data type (fp64, fp64_tensor, fp32, tf32, bf16, fp16, fp8, int8), in FLOP/s.

    Two operations per multiply-add, without sparsity. Types of matrix units stand for those:
    fp16, bf16, fp8 and int8 are rates of tensor cores (NVIDIA) or matrix cores (AMD).
    """

    link_bytes_per_s: float = 0.0
    """Peak bandwidth to other devices, all links of one direction, in bytes per second."""

    processors: int = 0
    """Streaming multiprocessors (NVIDIA) or compute units (AMD) of one device."""

    source: str = ""
    """Document that the numbers come from."""


@cache
def parts(folder: Path) -> tuple[Hardware, ...]:
    """Return every device that a file of `folder` describes; raises `ConfigError` for bad ones."""
    return tuple(
        checked(f"hardware ({path.name})", Hardware, yaml.safe_load(path.read_bytes()) or {})
        for path in sorted(folder.glob("*.yaml"))
    )


def found(reported: Iterable[str], known: Iterable[Hardware]) -> Hardware:
    """Return the one of the `known` that all names `reported` mean; unknown if there is none."""
    names = set(map(_plain, reported))
    for part in known:
        if names and names <= set(map(_plain, part.reported_as)):
            return part
    return Hardware()


def _plain(name: str) -> str:
    """Return a name without what drivers of different age write differently."""
    plain = " ".join(name.lower().split())
    for maker in _MAKERS:
        plain = plain.removeprefix(maker)
    return plain
