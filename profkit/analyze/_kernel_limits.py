"""What the throughputs of measured kernels say of them where no rule of Nsight Compute does."""

from typing import Any

from profkit.core.formatting import counted, shortened
from profkit.core.result import Result
from profkit.core.verdict import Confidence, KernelVerdict

RANDOM = "distribution_"
"""Begin of the kernels that fill tensors with random numbers: mostly inputs of a benchmark."""

LET_NEIGHBOURS = (
    "Let neighbouring threads read and write neighbouring addresses, or stage tiles in shared "
    "memory"
)
MORE_BLOCKS = (
    "Give it more blocks, as with a larger batch, or fuse it with those around it; where many such "
    "kernels follow one another, replay them as a CUDA graph."
)
MORE_WARPS = (
    "Its warps wait: have more of them at work (smaller blocks, fewer registers or less shared "
    "memory for each), or more independent work in each thread."
)

_LONGEST = 120
"""Letters of a function that tables of kernels show."""
_MOSTLY = 0.5
_BUSY = 60.0
"""Use of the pipe for double precision in percent from which it counts as what limits a kernel."""
_WORDS = {"balanced": "compute and memory alike", "caches": "L1 and L2"}
_WORDS |= {"fp64": "double precision", "grid": "a small grid"}
_ADVICE = {
    "latency": "Fuse small kernels or enlarge the batch, so that the grid fills the GPU; the warp "
    "states say what its warps wait for.",
    "memory": "Move fewer bytes: fuse kernels (`torch.compile`), use smaller types, reuse caches.",
    "caches": f"{LET_NEIGHBOURS}: the caches move far more than DRAM does.",
    "balanced": "Compute and memory are both at work: only less of both makes it faster.",
    "grid": MORE_BLOCKS,
    "fp64": "Compute in float where that is precise enough: GPUs that are not made for data "
    "centres do 32 or 64 times fewer operations a second in double. Look for literals without `f` "
    "and for float64 tensors, too.",
}
_LOWER_PRECISION = (
    ((8, 0), "Use tensor cores or a lower precision (bf16, TF32)"),
    ((7, 0), "Use tensor cores, by half precision (float16)"),
    ((5, 3), "Use half precision (float16)"),
    ((0, 0), "Compute less"),
    ((), "Use a lower precision, and tensor cores where the GPU has them"),
)
"""Compute capability from which a GPU can do it, the newest first, and what to do there."""


def limited(
    speed_of_light: Result | None, capability: str, function: str = ""
) -> KernelVerdict | None:
    """Return what limits most of the time of the measured kernels, None where none is known.

    `capability` is that of the GPU, such as 8.0; empty if unknown. Kernels that fill tensors with
    random numbers do not count; `function` is the only one to look at, all if empty.
    """
    wanted = shortened(function, _LONGEST)
    rows = [
        row
        for row in _kernels(speed_of_light)
        if row.get("limit")
        and not str(row["kernel"]).startswith(RANDOM)
        and wanted in ("", str(row["kernel"]).partition(" (")[0])
    ]
    if not rows:
        return None
    for row in rows:
        row["limit"] = _limit(row)
        row["time_ns"] = float(row.get("duration_ns") or 0.0) * int(row["launches"])
    times: dict[str, float] = {}
    for row in rows:
        times[row["limit"]] = times.get(row["limit"], 0.0) + row["time_ns"]
    limit = max(times, key=lambda name: times[name])
    alike = [row for row in rows if row["limit"] == limit]
    first = max(alike, key=lambda row: float(row["time_ns"]))
    kernel = str(first["kernel"])
    shares = _shares(first, limit)
    used = ", ".join(f"{part.partition('_')[0]} {share:.0f} %" for part, share in shares.items())
    name = shortened(kernel.partition(" (")[0], 60)
    others = f" and {counted(len(alike) - 1, 'other')}" if len(alike) > 1 else ""
    return KernelVerdict(
        headline=f"{name}{others}: limited by {_WORDS.get(limit, limit)} ({used}).",
        kernel=kernel,
        launches=sum(int(row["launches"]) for row in alike),
        advice=_advice(limit, first, capability),
        confidence=Confidence.LOW,
        evidence={"limit": limit, **shares},
    )


def _kernels(speed_of_light: Result | None) -> list[dict[str, Any]]:
    """Return the rows of the kernels, those that take longest first."""
    found = speed_of_light.tables.get("kernels") if speed_of_light else None
    return [dict(zip(found.columns, row, strict=True)) for row in found.rows] if found else []


def _limit(row: dict[str, Any]) -> str:
    """Return what limits a kernel, in more detail than compute, memory, balanced and latency."""
    limit, memory, dram = str(row["limit"]), row["memory_percent"], row.get("dram_percent")
    if limit == "latency" and (row.get("waves") or 1.0) < 1:
        return "grid"
    if limit in ("compute", "balanced") and (row.get("fp64_percent") or 0.0) >= _BUSY:
        return "fp64"
    # Where both are one number it is that of requests to L1, which counts as computing as well.
    is_memory = limit == "memory" or (limit != "latency" and row["compute_percent"] == memory)
    return "caches" if is_memory and dram is not None and dram < _MOSTLY * memory else limit


def _shares(row: dict[str, Any], limit: str) -> dict[str, float]:
    """Return the throughputs that show the limit of a kernel, in percent."""
    names = ["compute_percent", "memory_percent"]
    if limit == "fp64":
        names.insert(0, "fp64_percent")
    shares = {name: float(row[name]) for name in names}
    return shares | ({"DRAM_percent": float(row["dram_percent"])} if limit == "caches" else {})


def _advice(limit: str, row: dict[str, Any], capability: str) -> str:
    """Return what to do about the limit of a kernel on a GPU of this compute capability."""
    if limit == "compute":
        known = tuple(int(part) for part in capability.split(".") if part.isdecimal())
        helps = next(helps for least, helps in _LOWER_PRECISION if known >= least)
        return f"{helps}: faster memory access will not help."
    has_waves = limit == "latency" and row.get("waves") is not None
    return MORE_WARPS if has_waves else _ADVICE[limit]
