"""The reports of ``nsys stats``, under the names that the installed version has for them."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from profkit.convert.nsys.export import nsys, run, version, without_progress
from profkit.convert.nsys.store import Store

REPORTS = {
    ("cuda_gpu_kern_sum", "gpukernsum"): ("CUPTI_ACTIVITY_KIND_KERNEL",),
    ("cuda_api_sum", "cudaapisum"): ("CUPTI_ACTIVITY_KIND_RUNTIME",),
    ("cuda_gpu_mem_time_sum", "gpumemtimesum"): (
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        "CUPTI_ACTIVITY_KIND_MEMSET",
    ),
    ("cuda_gpu_mem_size_sum", "gpumemsizesum"): (
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        "CUPTI_ACTIVITY_KIND_MEMSET",
    ),
    ("nvtx_sum", "nvtxsum"): ("NVTX_EVENTS",),
    ("osrt_sum", "osrtsum"): ("OSRT_API",),
}
"""Each report by its name since 2023 and before, with the tables that it is made of."""

_TIMEOUT_S = 1800
_HELP_TIMEOUT_S = 60
_LISTED = re.compile(r"^\s+([a-z]\w+)(?:\[\S*\])?\s+--", re.MULTILINE)


def write_csv(store: Store, source: Path, prefix: Path) -> list[str]:
    """Leave ``<prefix>_<report>.csv`` of each report that there is data for; return what failed.

    Without nsys there is none: analysis `nsys_stats` has the same numbers.
    """
    binary = nsys()
    if not binary:
        return ["nsys is not installed: its own reports as CSV are left out."]
    chosen = list(_chosen(store, available(binary)))
    return _written(binary, chosen, _CSV, source, prefix)


def write_text(reports: Sequence[str], source: Path, prefix: Path) -> list[str]:
    """Leave ``<prefix>_<report>.txt`` of each of `reports`, as a table; return what failed.

    Each is named as in any version, with its arguments after colons if it has some.
    """
    binary = nsys()
    if not reports or not binary:
        return ["nsys is not installed: tools.nsys.reports is left out."] if reports else []
    known = available(binary)
    asked = [_known_as(report, known) for report in reports]
    return _written(binary, asked, _TABLE, source, prefix)


def _known_as(report: str, known: frozenset[str]) -> str:
    """Return `report` under the name that the version whose reports are `known` has for it."""
    name, *arguments = report.split(":")
    names = next((names for names in REPORTS if name in names), ())
    return ":".join([next((own for own in names if own in known), name), *arguments])


@dataclass(frozen=True, slots=True)
class _Format:
    """A format of ``nsys stats``."""

    flag: str
    suffix: str


_CSV, _TABLE = _Format("csv", ".csv"), _Format("table", ".txt")


def _written(
    binary: str, reports: Sequence[str], form: _Format, source: Path, prefix: Path
) -> list[str]:
    """Have nsys write `reports` in the format `form`, and return which it did not, and why."""
    if not reports:
        return []
    flags = [f"--report={name}" for name in reports] + [f"--format={form.flag}"]
    command = [binary, "stats", *flags, f"--output={prefix}", "--force-overwrite=true"]
    output = run([*command, str(source)], _TIMEOUT_S)
    # In the name of a file, nsys puts _ between a report and its arguments.
    words = {name: re.sub(r"\W+", "_", name) for name in reports}
    files = {name: f"{prefix.name}_{word}{form.suffix}" for name, word in words.items()}
    lacking = [name for name, file in files.items() if not prefix.with_name(file).exists()]
    if not lacking:
        return []
    what, said = form.flag.replace("csv", "CSV"), without_progress(output)
    return [f"nsys {version(binary)} made no {what} of {', '.join(lacking)}: {said}"]


def _chosen(store: Store, names: frozenset[str]) -> Iterator[str]:
    """Yield those of `names` that there is data for."""
    for generations, tables in REPORTS.items():
        if any(table in store.tables for table in tables):
            yield from [name for name in generations if name in names][:1]


@cache
def available(binary: str) -> frozenset[str]:
    """Return the names of the reports that this nsys makes."""
    return reports_in(run([binary, "stats", "--help-reports"], _HELP_TIMEOUT_S))


def reports_in(text: str) -> frozenset[str]:
    """Return the names in a listing of ``nsys stats --help-reports``."""
    return frozenset(_LISTED.findall(text))
