"""Roofline: measured kernels below the roofs of DRAM, L2 and L1, and of each kind of arithmetic."""

from dataclasses import dataclass

import pandas as pd

from profkit.analyze.base import analysis
from profkit.analyze.shared.hierarchical_roofline import LEVELS, columns, points, positions, roofs
from profkit.analyze.shared.measured_kernels import (
    NOTHING,
    SHAPE,
    by_kernel,
    kernel_of,
    mean_of,
    rules,
    shown,
)
from profkit.core.result import Abstention, Chart, Result, table
from profkit.core.settings import Settings

_FIRST = ["work", "bound", "roof_share", "achieved_flops_per_s", "roof_flops_per_s"]
_BYTES = ("flops_per_byte", "bytes_per_s", "peak_bytes_per_s")
_ORDER = [
    *(*SHAPE, "launches", "duration_ns", *_FIRST, "peak_flops_per_s"),
    *(f"{level}_{kind}" for level in LEVELS for kind in _BYTES),
    "name",
]
_SECTION = "SpeedOfLight_RooflineChart"
_NOTE = (
    "Counted by Nsight Compute: two operations per multiply-add, and as it does 512 per instruction"
    " of the tensor pipe, which newer GPUs exceed. At the clocks that the capture held."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/roofline.yaml``."""

    max_rows: int = 200
    """Kernels kept, those that take longest."""


@analysis(title="Hierarchical roofline")
def analyze(
    measured_kernels: pd.DataFrame,
    kernel_metrics: pd.DataFrame,
    kernel_advice: pd.DataFrame,
    config: Config,
) -> Result:
    """How near is each kernel to the roofs of arithmetic and of each memory level?

    The roof of a level is its bandwidth times the operations per byte that passed it; the lowest
    roof is the one that limits. A kernel far below all of them waits for something else. What
    counts is the arithmetic that a kernel does most of: fp64, fp32, fp16 or the tensor pipe.
    """
    if measured_kernels.empty:
        return NOTHING
    rows = positions(by_kernel(measured_kernels, kernel_metrics, columns()))
    known = rows.dropna(subset=["roof_share"])
    if known.empty:
        reason = (
            f"section {_SECTION} was not collected, or the kernels did no floating-point"
            " arithmetic: set tools.ncu.set to detailed, full or roofline"
        )
        return Result.abstain("roofline", reason)
    of_points, of_roofs = points(known, kernel_of), roofs(known)
    return Result(
        metrics=mean_of(known, "roof_share", "share", "Share of the lowest roof", "higher"),
        tables={
            "kernels": shown(known[_ORDER], "Position of each kernel", _NOTE, config.max_rows),
            "points": table(
                pd.concat([of_points.head(3 * config.max_rows), of_roofs], ignore_index=True),
                title="Points of the roofline",
                note=_NOTE,
            ),
            **rules(measured_kernels, kernel_advice, [_SECTION]),
        },
        charts=(_chart(of_roofs),),
        abstentions=_abstentions(rows, known),
    )


def _abstentions(rows: pd.DataFrame, known: pd.DataFrame) -> tuple[Abstention, ...]:
    found = []
    if len(known) < len(rows):
        what = f"roofline of {len(rows) - len(known)} of {len(rows)} kernels"
        reason = (
            "they did no floating-point arithmetic, or their counters were not collected (of the "
            "tensor pipe: section SpeedOfLight_HierarchicalTensorRooflineChart)"
        )
        found.append(Abstention(what=what, reason=reason))
    lacking = [level.upper() for level in LEVELS if not known[f"{level}_flops_per_byte"].any()]
    if lacking:
        reason = "sections SpeedOfLight_Hierarchical*RooflineChart were not collected: add them"
        found.append(Abstention(what=f"roof of {' and '.join(lacking)}", reason=reason))
    return tuple(found)


def _chart(of_roofs: pd.DataFrame) -> Chart:
    return Chart(
        kind="scatter",
        title="Hierarchical roofline of the measured kernels",
        table="points",
        x="flops_per_byte",
        y=("achieved_flops_per_s",),
        color="what",
        log=("x", "y"),
        lines=tuple(dict.fromkeys(of_roofs["what"])),
    )
