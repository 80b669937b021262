"""The reports of ``nsys stats`` as CSV, under the names that the installed version has for them."""

import re
from collections.abc import Iterator
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
    if not chosen:
        return []
    flags = [f"--report={name}" for name in chosen] + ["--format=csv", f"--output={prefix}"]
    output = run([binary, "stats", *flags, "--force-overwrite=true", str(source)], _TIMEOUT_S)
    lacking = [
        name for name in chosen if not prefix.with_name(f"{prefix.name}_{name}.csv").exists()
    ]
    if not lacking:
        return []
    return [
        f"nsys {version(binary)} made no CSV of {', '.join(lacking)}: {without_progress(output)}"
    ]


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
