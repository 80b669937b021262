"""How much faster than in FP32 matrix products are in other types, on the GPU of a recording."""

from dataclasses import dataclass

import pandas as pd

from profkit.core.hardware import Hardware
from profkit.patterns._rows import having


@dataclass(frozen=True, kw_only=True, slots=True)
class Rates:
    """Rates of matrix units, as multiples of that of FP32; 0 where it has none of the type."""

    tf32: float = 0.0
    half: float = 0.0
    """In bf16 or fp16, whichever is faster."""

    has_bf16: bool = True


_NONE = Rates(has_bf16=False)
_GRAPHICS, _GEFORCE = Rates(tf32=2.0, half=4.0), Rates(tf32=1.0, half=2.0)
_OF_DATA_CENTRES = Rates(tf32=7.0, half=14.0)
_VOLTA, _TURING, _AMPERE = 7.0, 7.5, 8.0
_WITH_FAST_UNITS = (8.0, 9.0, 10.0, 10.3)
"""Compute capabilities of A100, H100, B200, B300."""

_SLOWED = {"H20"}
_SINCE_AMPERE = r"ampere_|sm(?:8|9|1\d)\d_"


def product_rates(kernels: pd.DataFrame, devices: pd.DataFrame, hardware: Hardware) -> Rates:
    """Return the rates of the GPU: by its data sheet if it is known, else the least of its kind.

    Kinds differ in them by the data sheets: GPUs of data centres have TF32 at 7 times the rate of
    FP32 or more, graphics cards at twice the rate, those named GeForce at no higher one.
    """
    peaks = hardware.peak_flops
    if plain := max(peaks.get("fp32", 0.0), peaks.get("fp32_matrix", 0.0)):
        half = max(peaks.get("bf16", 0.0), peaks.get("fp16", 0.0)) / plain
        return Rates(tf32=peaks.get("tf32", 0.0) / plain, half=half, has_bf16="bf16" in peaks)
    words = set(" ".join(map(str, devices["name"])).split())
    if words & {"AMD", "Radeon"}:
        return Rates(half=2.0)
    capability = _capability(devices)
    if not capability:
        is_new = having(kernels, _SINCE_AMPERE).any()
        return _GRAPHICS if is_new else Rates(half=2.0, has_bf16=False)
    return _of_nvidia(capability, words)


def _of_nvidia(capability: float, words: set[str]) -> Rates:
    """Return the rates by the compute capability and the words of the name."""
    if capability < _VOLTA or "GTX" in words:
        return _NONE
    is_geforce = "GeForce" in words
    if capability < _AMPERE:
        is_slower = is_geforce and capability >= _TURING
        return Rates(half=4.0 if is_slower else 8.0, has_bf16=False)
    if capability in _WITH_FAST_UNITS and not words & _SLOWED:
        return _OF_DATA_CENTRES
    return _GEFORCE if is_geforce else _GRAPHICS


def _capability(devices: pd.DataFrame) -> float:
    """Return the lowest compute capability, 0 if it is not known."""
    known = pd.to_numeric(devices["capability"].astype(object), errors="coerce").dropna()
    return float(known.min()) if len(known) else 0.0
