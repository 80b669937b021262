"""nsys: reports of Nsight Systems as kernels, calls, ranges, calls of the system and counters."""

from pathlib import Path

from profkit.convert.base import Converted, Importable, Raw, converter
from profkit.convert.nsys.export import exported, refuse_log, refuse_others
from profkit.convert.nsys.report import Report
from profkit.convert.nsys.statistics import write_csv, write_text
from profkit.convert.nsys.tables import PRODUCED, tables

_NO_RANK = -1


def _stated_rank(path: Path) -> int:
    """Return that a report states no rank in a place that can be read without exporting it.

    Raises `InputError` for what is no report, and an export that is not complete by itself.
    """
    refuse_others(path, path)
    refuse_log(path)
    return _NO_RANK


@converter(
    *PRODUCED,
    pattern="rank*.nsys-rep*",
    importable=Importable(
        word="nsys",
        patterns=("*.nsys-rep", "*.qdrep", "*.sqlite", "*.sqlite.gz"),
        suffix=".nsys-rep",
        stated_rank=_stated_rank,
        begins=(b"SQLite format 3\0",),
    ),
)
def convert(raw: Raw, out: Path) -> Converted:
    """Read one report, and leave the reports of ``nsys stats`` on it in `out`."""
    with exported(raw.path) as found:
        report = Report(store=found.store, path=raw.path)
        made = tables(report, raw.rank, raw.repeat, raw.path.parent)
        # By the file, not by the rank: several may have been imported as one.
        stem = raw.path.name.partition(".nsys-rep")[0]
        prefix = out / f"{stem}.rep{raw.repeat}"
        lost = write_csv(found.store, found.source, prefix)
        lost += write_text(raw.settings.get("reports", ()), found.source, prefix)
    return Converted(tables=made, notes=(*report.notes, *report.fault_notes(), *found.notes, *lost))
