"""Nsight Compute: hardware counters of single kernels, and the advice of NVIDIA's rules."""

from pathlib import Path

from profkit.convert.base import Converted, Importable, Raw, converter
from profkit.convert.ncu import report_or_page
from profkit.convert.ncu.tables import tables
from profkit.core.formatting import agreeing


@converter(
    "measured_kernels",
    "kernel_metrics",
    "kernel_advice",
    pattern="rank*.ncu-rep",
    importable=Importable(
        word="ncu",
        patterns=("*.ncu-rep",),
        suffix=".ncu-rep",
        stated_rank=report_or_page.stated_rank,
    ),
)
def convert(raw: Raw, out: Path) -> Converted:
    """Read one report, or one page that ncu printed as CSV."""
    del out
    launches = report_or_page.read(raw.path)
    unnamed = sum(not launch.name for launch in launches)
    notes = [agreeing(unnamed, "{} measured launch[es] [has|have] no name.")] if unnamed else []
    if report_or_page.is_cut_off(raw.path):
        notes.append("The file is cut off: metrics of its last launch, or launches, are missing.")
    notes += report_or_page.faults(raw.path, launches)
    made = tables(launches, rank=raw.rank, repeat=raw.repeat)
    return Converted(tables=made, notes=tuple(notes))
