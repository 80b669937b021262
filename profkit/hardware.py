"""Peaks of a device, as its maker states them: what measured numbers are compared with."""

from dataclasses import dataclass, field

from profkit.settings import Settings


@dataclass(frozen=True, kw_only=True, slots=True)
class Hardware(Settings):
    """One file of ``conf/hardware/``; 0 means unknown, and analyses then abstain."""

    name: str = "unknown"
    """Name of the device."""

    memory_bytes: int = 0
    """Device memory, in bytes."""

    memory_bandwidth_bytes_per_s: float = 0.0
    """Peak bandwidth of device memory, in bytes per second."""

    peak_flops: dict[str, float] = field(default_factory=dict)
    """Dense peak by data type (fp64, fp32, tf32, bf16, fp16, fp8), in FLOP per second."""

    link_bytes_per_s: float = 0.0
    """Peak bandwidth to other devices, all links of one direction, in bytes per second."""

    source: str = ""
    """Document that the numbers come from."""
