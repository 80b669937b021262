"""Nsight Compute: hardware counters of single kernels, and what NVIDIA's rules say of them."""

from pathlib import Path

from profkit.convert.base import Converted, Importable, Raw, converter
from profkit.convert.ncu import any_format
from profkit.convert.ncu.tables import tables


@converter(
    "measured_kernels",
    "kernel_metrics",
    "kernel_advice",
    pattern="rank*.ncu-rep",
    importable=Importable(
        word="ncu",
        patterns=("*.ncu-rep",),
        suffix=".ncu-rep",
        stated_rank=any_format.stated_rank,
    ),
)
def convert(raw: Raw, out: Path) -> Converted:
    """Read one report, or one page that ncu printed as CSV."""
    del out
    launches = any_format.read(raw.path)
    unnamed = sum(not each.name for each in launches)
    notes = [f"{unnamed} measured launches have no name."] if unnamed else []
    if any_format.is_cut_off(raw.path):
        notes.append("The page is cut off: metrics of its last launch, or launches, are missing.")
    made = tables(launches, rank=raw.rank, repeat=raw.repeat)
    return Converted(tables=made, notes=tuple(notes))
