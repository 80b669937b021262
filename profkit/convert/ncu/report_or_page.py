"""Files of Nsight Compute, reports or exported pages of any version, read as measured launches."""

from collections.abc import Sequence
from pathlib import Path

from profkit.convert.ncu import exported_page, page_faults, report
from profkit.convert.ncu.launches import Launch
from profkit.convert.ncu.report_blocks import MAGIC, cut_behind
from profkit.core.errors import InputError

_HINT = "give a report (.ncu-rep), or a page that `ncu --csv --page raw` or `details` printed"


def read(path: Path) -> list[Launch]:
    """Return the launches measured in the report or exported page at `path`, in their order.

    Raises `InputError` for files that are empty, damaged, of another kind, too new for the
    `ncu-report` that is installed, or without any launch.
    """
    return report.read(path) if _is_report(path) else exported_page.read(path)


def is_cut_off(path: Path) -> bool:
    """Say whether `path` ends within a launch, or on a page before all that is said of it."""
    if _is_report(path):
        return cut_behind(path) is not None
    return exported_page.is_cut_off(path)


def faults(path: Path, launches: Sequence[Launch]) -> list[str]:
    """Return what is wrong with the file at `path`, which held these launches."""
    on_page = [] if _is_report(path) else exported_page.faults(path)
    return [*on_page, *page_faults.of_launches(launches)]


def stated_rank(path: Path) -> int:
    """Return -1, as neither reports nor pages state a rank; raises `InputError` for other files."""
    _is_report(path)
    return -1


def _is_report(path: Path) -> bool:
    with path.open("rb") as file:
        start = file.read(len(MAGIC))
    if not start:
        raise InputError(
            f"{path}: the file is empty",
            hint="ncu writes it at the end: it was killed, or measured no kernel; see its log",
        )
    if start != MAGIC and not exported_page.is_page(path):
        raise InputError(f"{path}: neither a report nor a page of Nsight Compute", hint=_HINT)
    return start == MAGIC
