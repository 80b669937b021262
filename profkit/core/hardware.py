"""Peak rates of an accelerator, as its maker states them, for comparison with measurements."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from profkit.core.settings import Settings, checked, nearest
from profkit.core.yaml_files import read_yaml

AUTO = "auto"
"""Name of the hardware setting that takes the device named in the traces."""

TYPES = ("fp64", "fp64_matrix", "fp32", "fp32_matrix", "tf32", "bf16", "fp16", "fp8", "int8")
"""Data types that a peak can be stated for."""

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
    """Dense peak by data type (`TYPES`), in FLOP per second; what is not stated is left out.

    Two operations per multiply-add, without sparsity. fp64 and fp32 are vector rates; those that
    matrix units (tensor cores, matrix cores) reach with them are fp64_matrix and fp32_matrix. All
    others are rates of matrix units that sum in fp32.
    """

    link_bytes_per_s: float = 0.0
    """Peak bandwidth to other devices, all links in one direction, in bytes per second."""

    processors: int = 0
    """Streaming multiprocessors (NVIDIA) or compute units (AMD) of one device."""

    source: str = ""
    """Document that the numbers come from."""

    def __post_init__(self) -> None:
        """Refuse types that no analysis would look for."""
        for name in self.peak_flops:
            if name not in TYPES:
                raise ValueError(f"peak_flops.{name}: no such type; {nearest(name, TYPES)}")


@cache
def read_hardware(folder: Path) -> tuple[Hardware, ...]:
    """Return every device that a file of `folder` describes; raises `ConfigError` for bad ones."""
    return tuple(
        checked(f"hardware ({path.name})", Hardware, read_yaml(path) or {})
        for path in sorted(folder.glob("*.yaml"))
    )


def reported_hardware(reported: Iterable[str], known: Iterable[Hardware]) -> Hardware:
    """Return the one of the `known` that all names `reported` mean; unknown if there is none."""
    names = set(map(_plain, reported))
    for hardware in known:
        if names and names <= set(map(_plain, hardware.reported_as)):
            return hardware
    return Hardware()


def _plain(name: str) -> str:
    """Return a name without the parts that drivers of different age write differently."""
    plain = " ".join(name.lower().split())
    for maker in _MAKERS:
        plain = plain.removeprefix(maker)
    return plain
