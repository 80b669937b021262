"""The roofline of operators and kernels: the best time that the hardware allows their costs."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.costs import PRODUCTS
from profkit.analyze.costs.attribution import in_step, work
from profkit.core.hardware import Hardware
from profkit.tables.kernel_names import function

# The peak of a type is the first that the GPU has; only products run on matrix units.
_OF_PRODUCTS = {
    "double": ("fp64_matrix", "fp64"),
    "float": ("fp32_matrix", "fp32"),
    "c10::BFloat16": ("bf16",),
    "c10::Half": ("fp16",),
    "c10::Float8_e4m3fn": ("fp8",),
    "c10::Float8_e5m2": ("fp8",),
    "c10::Float8_e4m3fnuz": ("fp8",),
    "c10::Float8_e5m2fnuz": ("fp8",),
    "signed char": ("int8",),
    "tf32": ("tf32",),
}
# Other operators compute in fp32, except those in fp64.
_OF_OTHERS = {"double": ("fp64",)}

_KEY = ["name", "kind", "type"]
_OF_WORK = ("flops", "bytes")
_KNOWN = tuple(f"{name}_known" for name in _OF_WORK)
_NUMBERS = [*_OF_WORK, "time_ns"]

KERNEL = ["name", "grid", "block"]
"""Columns that identify a kernel: its name and shape."""


def peak_name(kind: str, dtype: str, hardware: Hardware) -> str:
    """Return the name of the peak of `hardware` for this kind and type, "" if it states none."""
    choices = _OF_PRODUCTS.get(dtype, ()) if kind in PRODUCTS else _OF_OTHERS.get(dtype, ("fp32",))
    return next((name for name in choices if name in hardware.peak_flops), "")


def with_roofline(rows: pd.DataFrame, hardware: Hardware) -> pd.DataFrame:
    """Add to `flops`, `bytes` and `time_ns` how they compare with the peaks of `hardware`.

    Columns: flops_per_byte, achieved_flops_per_s, achieved_bytes_per_s, bound (compute or memory),
    peak (its name), ideal_ns and roofline_share, the ideal time as a share of that spent. NaN and
    "" where a peak or a number is not known. Bytes that a cache kept make a share above 1.
    """
    pairs = pd.MultiIndex.from_frame(rows[["kind", "type"]])
    _, first, pair_of_row = np.unique(pairs.factorize()[0], return_index=True, return_inverse=True)
    distinct = [peak_name(kind, dtype, hardware) for kind, dtype in pairs[first].tolist()]
    peak = np.array(distinct, dtype=object)[pair_of_row]
    flops, moved = (rows[name].to_numpy(np.float64) for name in ("flops", "bytes"))
    seconds = _positive(rows["time_ns"].to_numpy(np.float64)) / 1e9
    rates = [hardware.peak_flops.get(name, np.nan) for name in distinct]
    rate = np.array(rates, dtype=np.float64)[pair_of_row]
    bandwidth = hardware.memory_bandwidth_bytes_per_s or np.nan
    computing, moving = flops / rate, moved / bandwidth
    ideal = np.fmax(computing, moving) if bandwidth > 0 else np.full(len(rows), np.nan)
    known = np.isfinite(moving) & (np.isfinite(computing) | (flops == 0))
    return rows.assign(
        flops_per_byte=flops / _positive(moved),
        achieved_flops_per_s=flops / seconds,
        achieved_bytes_per_s=moved / seconds,
        bound=np.where(known, np.where(computing > moving, "compute", "memory"), ""),
        peak=peak,
        ideal_ns=np.where(known, ideal * 1e9, np.nan),
        roofline_share=np.where(known, ideal / seconds, np.nan),
    )


def _positive(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(values > 0, values, np.nan)


def roof(peak: str) -> str:
    """Return the name of a peak's roof in the chart."""
    return f"roof {peak}"


def roofs(peaks: list[str], hardware: Hardware, low: float, high: float) -> pd.DataFrame:
    """Return the line of each peak from `low` to `high` FLOPs per byte: series, x and y.

    It rises with the bandwidth of memory up to the ridge and is level from there.
    """
    bandwidth = hardware.memory_bandwidth_bytes_per_s
    lines = []
    for name in peaks:
        ridge = hardware.peak_flops[name] / bandwidth
        intensities = sorted({min(low, ridge), ridge, max(high, ridge)})
        lines += [(roof(name), x, min(x, ridge) * bandwidth) for x in intensities]
    return pd.DataFrame(lines, columns=["series", "flops_per_byte", "achieved_flops_per_s"])


def by_shape(tallies: pd.DataFrame, hardware: Hardware) -> pd.DataFrame:
    """Return one row per operator, shapes and type, with the time lost against the roofline."""
    rated = with_roofline(summed(tallies, [*_KEY, "input_shapes"]), hardware)
    return rated.assign(lost_ns=(rated["time_ns"] - rated["ideal_ns"]).clip(lower=0))


def by_kernel(tallies: pd.DataFrame, hardware: Hardware) -> pd.DataFrame:
    """Return one row per compute kernel, kind and type, of `tallied_kernels`."""
    return with_roofline(summed(tallies, _KEY), hardware)


def tallied_kernels(calls: pd.DataFrame, kernels: pd.DataFrame) -> pd.DataFrame:
    """Return the sums of some ranks, one row per compute kernel, kind and type.

    Column ``call`` of `kernels` is the position in `calls` of the operator of each, -1 to leave it
    out. Kernels of one operator share its work in proportion to their time.
    """
    kept = kernels[((kernels["call"] >= 0) & (kernels["kind"] == "compute")).to_numpy()]
    call = kept["call"].to_numpy(np.int64)
    spent = (kept["end_ns"] - kept["start_ns"]).to_numpy(np.int64)
    total = np.bincount(call, weights=spent, minlength=len(calls))[call]
    part = spent / np.where(total > 0, total, 1)
    operators = calls.iloc[call]
    rows = operators[["kind", "type"]].assign(
        name=kept["name"].astype(object).to_numpy(),
        flops=operators["flops"] * part,
        bytes=operators["bytes"] * part,
        time_ns=spent,
    )
    return tallied(rows, _KEY)


def tallied(rows: pd.DataFrame, keys: list[str], others: Sequence[str] = ()) -> pd.DataFrame:
    """Return the sums of some ranks over equal `keys`, and those of `others`, for `summed`."""
    groups = rows.astype(dict.fromkeys(keys, object)).groupby(keys, sort=False)
    found = groups[[*_NUMBERS, *others]].sum()
    found.insert(0, "calls", groups.size())
    return found.assign(
        **{f"{name}_known": groups[name].count() for name in _OF_WORK}
    ).reset_index()


def summed(tallies: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return sums over equal `keys`, NaN where one of them is, those with most time first."""
    total = tallies.groupby(keys, sort=False)[["calls", *_NUMBERS, *_KNOWN]].sum()
    for name, known in zip(_OF_WORK, _KNOWN, strict=True):
        total[name] = total[name].where(total[known] == total["calls"])
    flat = total.drop(columns=[*_KNOWN]).reset_index()
    return flat.sort_values("time_ns", ascending=False, kind="stable", ignore_index=True)


def compute_kernels(
    kernels: pd.DataFrame,
    cpu_ops: pd.DataFrame,
    windows: pd.DataFrame,
    hardware: Hardware,
    *,
    has_operators: bool,
) -> pd.DataFrame:
    """Return the compute kernels in `windows`, and how near their operators are to the roofline.

    Those of some ranks; all of them if no rank `has_operators`.

    Columns besides those of `kernels`: function, duration_ns, and of the operator that launched
    each ``bound`` and ``roofline_share``, "" and NaN where that is not known.
    """
    shape = dict.fromkeys(KERNEL, object)
    if cpu_ops.empty:
        inside = kernels[in_step(kernels, windows)] if has_operators else kernels
        rows = inside[inside["kind"] == "compute"].astype(shape)
        share, bound = np.full(len(rows), np.nan), np.full(len(rows), "", dtype=object)
    else:
        costed = work(cpu_ops, kernels, windows)
        rows = costed.kernels[costed.kernels["kind"] == "compute"].astype(shape)
        share, bound = _of_calls(with_roofline(costed.calls, hardware), rows["call"].to_numpy())
    known = {name: function(name) for name in rows["name"].unique()}
    return rows.assign(
        function=rows["name"].map(known),
        duration_ns=rows["end_ns"] - rows["start_ns"],
        roofline_share=share,
        bound=bound,
    )


def _of_calls(
    calls: pd.DataFrame, at: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.object_]]:
    """Return the share and the bound of the call at each position, -1 being none."""
    share = np.append(calls["roofline_share"].to_numpy(np.float64), np.nan)
    bound = np.append(calls["bound"].to_numpy(object), "")
    return share[at], bound[at]
