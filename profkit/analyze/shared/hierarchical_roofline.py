"""The numbers of the hierarchical roofline, as Nsight Compute's sections define them."""

from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

LEVELS = ("dram", "l2", "l1")
"""Levels of memory, from the farthest."""

WORK = ("fp64", "fp32", "fp16", "tensor")
"""Kinds of arithmetic that are counted."""

_LETTER = {"fp64": "d", "fp32": "f", "fp16": "h"}
_RATE = "cycles_elapsed.avg.per_second"
_EXECUTED = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum.per_cycle_elapsed"
_FMA_PEAK = "sm__sass_thread_inst_executed_op_{}fma_pred_on.sum.peak_sustained"
# Bytes of a level: passed per second, at most per cycle, and its clock. L2 is what comes from it,
# or in older releases what goes through its tags.
_BYTES = {
    "dram": (["dram__bytes.sum.per_second"], ["dram__bytes.sum.peak_sustained"], "dram"),
    "l2": (
        ["l1tex__m_xbar2l1tex_read_bytes.sum.per_second", "lts__t_bytes.sum.per_second"],
        ["l1tex__m_xbar2l1tex_read_bytes.sum.peak_sustained", "lts__t_bytes.sum.peak_sustained"],
        "lts",
    ),
    "l1": (
        [
            "derived__l1tex__lsu_writeback_bytes_mem_lg.sum.per_second",
            "l1tex__t_bytes.sum.per_second",
        ],
        [
            "derived__l1tex__lsu_writeback_bytes_mem_lg.sum.peak_sustained",
            "l1tex__t_bytes.sum.peak_sustained",
        ],
        "l1tex",
    ),
}


def columns() -> dict[str, list[str]]:
    """Return the metrics behind each number that `positions` reads."""
    wanted = {
        "sm_hz": [f"sm__{_RATE}", f"smsp__{_RATE}", f"gpc__{_RATE}"],
        "tensor_busy": [
            f"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_{of}"
            for of in ("elapsed", "active")
        ],
        "tensor_each": ["smsp__inst_executed_pipe_tensor.sum.per_cycle_elapsed"],
        "tensor_most": ["sm__inst_executed_pipe_tensor.sum.peak_sustained"],
        "tensor_each_x512": ["derived__smsp__inst_executed_pipe_tensor_x512"],
        "tensor_most_x512": ["derived__sm__inst_executed_pipe_tensor_x512"],
    }
    for work, letter in _LETTER.items():
        for kind in ("add", "mul", "fma"):
            wanted[f"{work}_{kind}"] = [_EXECUTED.format(f"{letter}{kind}")]
        fma = f"sass_thread_inst_executed_op_{letter}fma_pred_on_x2"
        wanted[f"{work}_fma_x2"] = [f"derived__smsp__{fma}"]
        wanted[f"{work}_most"] = [_FMA_PEAK.format(letter)]
        wanted[f"{work}_most_x2"] = [f"derived__sm__{fma}"]
    for level, (passed, most, unit) in _BYTES.items():
        wanted[f"{level}_bytes_per_s"] = passed
        wanted[f"{level}_most"] = most
        wanted[f"{level}_hz"] = [f"{unit}__{_RATE}"]
    return wanted


def positions(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the position of each kernel in the roofline, from the numbers that `columns` names.

    Columns: function, grid, block, launches, duration_ns; ``work``, the arithmetic with most
    operations; achieved and peak operations per second; ``bound``, the lowest roof (compute or a
    level of memory), ``roof_flops_per_s`` and the share of it; for each level bytes per
    second, its peak, and operations per byte. NaN and "" where unknown.
    """
    achieved = pd.DataFrame({work: _achieved(rows, work) for work in WORK}, index=rows.index)
    peak = pd.DataFrame({work: _peak(rows, work) for work in WORK}, index=rows.index)
    # Without its tensor operations, the others do not measure the speed of a matrix product.
    is_missed = (rows["tensor_busy"] > 0) & achieved["tensor"].isna()
    most, work = _largest(achieved.mask(is_missed))
    made = rows[["function", "grid", "block", "launches", "duration_ns"]].assign(
        work=work,
        achieved_flops_per_s=most,
        peak_flops_per_s=_picked(peak, work),
    )
    for level in LEVELS:
        rate = rows[f"{level}_bytes_per_s"]
        made[f"{level}_bytes_per_s"] = rate
        made[f"{level}_peak_bytes_per_s"] = rows[f"{level}_most"] * rows[f"{level}_hz"]
        made[f"{level}_flops_per_byte"] = most / rate.where(rate > 0)
    return _with_roof(made).assign(name=rows["name"])


def _largest(values: pd.DataFrame) -> tuple[NDArray[np.float64], list[str]]:
    """Return the largest positive value of each row and its column; NaN and "" without one."""
    table = values.to_numpy(np.float64)
    table = np.where(table > 0, table, -np.inf)
    best = table.max(axis=1, initial=-np.inf)
    names = [str(name) for name in values.columns]
    column = table.argmax(axis=1) if names else np.zeros(len(table), dtype=np.int64)
    found = np.isfinite(best)
    known = [names[at] if is_known else "" for at, is_known in zip(column, found, strict=True)]
    return np.where(found, best, np.nan), known


def _picked(values: pd.DataFrame, names: list[str]) -> list[float]:
    """Return the value in the column that `names` gives for each row; NaN where it gives none."""
    rows = values.to_dict("records")
    return [float(row.get(name, np.nan)) for row, name in zip(rows, names, strict=True)]


def _achieved(rows: pd.DataFrame, work: str) -> "pd.Series[float]":
    """Return operations per second; NaN where they were not counted."""
    if work == "tensor":
        return rows["tensor_each_x512"].fillna(512 * rows["tensor_each"]) * rows["sm_hz"]
    doubled = rows[f"{work}_fma_x2"].fillna(2 * rows[f"{work}_fma"])
    return (rows[f"{work}_add"] + rows[f"{work}_mul"] + doubled) * rows["sm_hz"]


def _peak(rows: pd.DataFrame, work: str) -> "pd.Series[float]":
    if work == "tensor":
        return rows["tensor_most_x512"].fillna(512 * rows["tensor_most"]) * rows["sm_hz"]
    return rows[f"{work}_most_x2"].fillna(2 * rows[f"{work}_most"]) * rows["sm_hz"]


def _with_roof(rows: pd.DataFrame) -> pd.DataFrame:
    roof = pd.DataFrame({"compute": rows["peak_flops_per_s"]}, index=rows.index)
    for level in LEVELS:
        roof[level] = rows[f"{level}_peak_bytes_per_s"] * rows[f"{level}_flops_per_byte"]
    # The reciprocal is largest where the roof is lowest.
    inverse, bound = _largest(1 / roof)
    known = rows["peak_flops_per_s"].notna().to_numpy()
    lowest = np.where(known, 1 / inverse, np.nan)
    return rows.assign(
        bound=[name if is_known else "" for name, is_known in zip(bound, known, strict=True)],
        roof_flops_per_s=lowest,
        roof_share=rows["achieved_flops_per_s"] / lowest,
    )


def points(rows: pd.DataFrame, name_of: Callable[["pd.Series[float]"], str]) -> pd.DataFrame:
    """Return one point per kernel and level: what, kernel, flops_per_byte, achieved_flops_per_s."""
    found = [
        {
            "what": f"{level.upper()} ({row['work']})",
            "kernel": name_of(row),
            "flops_per_byte": row[f"{level}_flops_per_byte"],
            "achieved_flops_per_s": row["achieved_flops_per_s"],
        }
        for _, row in rows.iterrows()
        for level in LEVELS
        if np.isfinite(row[f"{level}_flops_per_byte"])
    ]
    return pd.DataFrame(found, columns=["what", "kernel", "flops_per_byte", "achieved_flops_per_s"])


def roofs(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the ends and the knee of each roof, of the arithmetic and levels that occur."""
    found = []
    intensity = _span(rows)
    for work, kernels in rows.groupby("work", sort=False):
        peak = kernels["peak_flops_per_s"].max()
        for level in LEVELS:
            rate = kernels[f"{level}_peak_bytes_per_s"].max()
            if not np.isfinite(rate):
                continue
            knee = peak / rate
            found += [
                {
                    "what": f"roof of {level.upper()} ({work!s})",
                    "kernel": "",
                    "flops_per_byte": x,
                    "achieved_flops_per_s": min(peak, rate * x),
                }
                for x in sorted({min(intensity[0], knee), knee, max(intensity[1], knee)})
            ]
    return pd.DataFrame(found, columns=["what", "kernel", "flops_per_byte", "achieved_flops_per_s"])


def _span(rows: pd.DataFrame) -> NDArray[np.float64]:
    """Return a little less and more than the operations per byte that occur."""
    known = rows[[f"{level}_flops_per_byte" for level in LEVELS]].to_numpy(np.float64)
    known = known[np.isfinite(known) & (known > 0)]
    return np.array([known.min() / 3, known.max() * 3]) if len(known) else np.array([0.1, 100.0])
