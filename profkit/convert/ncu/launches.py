"""Measured launches, as read from reports and from exported pages."""

import re

import msgspec

_MOST = 2**31
_LINK = re.compile(r"@(?:section|source|sass|url):(?:[^@]*:)?([^@:]*)@")
_TRAILING_URL = re.compile(r"@url:([^@:]*):[^@]*@")


class Metric(msgspec.Struct, array_like=True):
    """One metric of one launch."""

    name: str
    """Name, as ncu queries it; on a page of details whose label is unknown, the label."""
    value: float | None
    """Number in `unit`; None for words."""
    unit: str = ""
    """Unit without a factor: ns, byte, hz, %, byte/s..."""
    text: str = ""
    """The value, if it is words."""


class Advice(msgspec.Struct, array_like=True):
    """Advice of one of ncu's rules on a launch."""

    section: str
    rule: str
    kind: str
    """optimisation, warning, error or information."""
    title: str
    message: str
    speedup_percent: float | None = None
    """Estimated gain, 0 to 100; None where the rule estimates none."""
    speedup_scope: str = ""
    """global or local, or empty."""


class Launch(msgspec.Struct):
    """One launch that ncu measured."""

    function: str
    """Name of the function alone."""
    name: str
    """Demangled name, with template arguments and parameters."""
    launch: int = -1
    """ncu's number of it within its process, or -1."""
    pid: int = -1
    device: int = -1
    device_name: str = ""
    capability: str = ""
    stream: int = -1
    grid: list[int] = msgspec.field(default_factory=list)
    """Three numbers, or none if unknown."""
    block: list[int] = msgspec.field(default_factory=list)
    """Three numbers, or none if unknown."""
    ranges: list[str] = msgspec.field(default_factory=list)
    """NVTX ranges around it, from the outermost."""
    metrics: list[Metric] = msgspec.field(default_factory=list)
    advice: list[Advice] = msgspec.field(default_factory=list)


def with_attributes(launch: Launch) -> Launch:
    """Fill in shape, stream and device of the launch from its metrics."""
    known = {metric.name: metric for metric in launch.metrics}

    def number(name: str) -> int:
        found = known.get(name)
        value = -1 if found is None or found.value is None else found.value
        return int(value) if 0 <= value < _MOST else -1

    def shape(of: str) -> list[int]:
        found = [number(f"launch__{of}_dim_{axis}") for axis in "xyz"]
        return found if min(found) >= 0 else []

    major, minor = (
        number(f"device__attribute_compute_capability_{part}") for part in ("major", "minor")
    )
    named = known.get("device__attribute_display_name")
    launch.grid = launch.grid or shape("grid")
    launch.block = launch.block or shape("block")
    launch.stream = max(launch.stream, number("launch__stream_id"))
    launch.device = max(launch.device, number("launch__device_id"))
    launch.capability = launch.capability or (f"{major}.{minor}" if major >= 0 else "")
    launch.device_name = launch.device_name or (named.text if named else "")
    return launch


def plain(message: str) -> str:
    """Return a message of a rule with its links replaced by the words that they stand under."""
    return _LINK.sub(r"\1", _TRAILING_URL.sub(r"\1", message)).strip()
