"""Memory workload: which level of memory each measured kernel loads, and how well it uses it."""

from dataclasses import dataclass

import pandas as pd

from profkit.analyze.base import analysis
from profkit.analyze.shared.measured_kernels import (
    NOTHING,
    bars,
    by_kernel,
    rules,
    shown,
    unknown,
)
from profkit.core.result import Result
from profkit.core.settings import Settings

_OF_PEAK = "avg.pct_of_peak_sustained_elapsed"
_GLOBAL = "pipe_lsu_mem_global_op"
_SHARED = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op"
_WAVES = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op"
_COLUMNS = {
    "dram_bytes_per_s": ["dram__bytes.sum.per_second"],
    "dram_percent": [f"gpu__dram_throughput.{_OF_PEAK}", f"dram__throughput.{_OF_PEAK}"],
    "l2_percent": [f"lts__throughput.{_OF_PEAK}"],
    "l1_percent": ["l1tex__throughput.avg.pct_of_peak_sustained_active"],
    "busy_percent": [f"gpu__compute_memory_access_throughput.{_OF_PEAK}"],
    "bandwidth_percent": [f"gpu__compute_memory_request_throughput.{_OF_PEAK}"],
    "pipes_busy_percent": [f"sm__memory_throughput.{_OF_PEAK}"],
    "l2_hit_percent": ["lts__t_sector_hit_rate.pct"],
    "l1_hit_percent": ["l1tex__t_sector_hit_rate.pct"],
}
_COUNTED = {
    "load_sectors": [f"l1tex__t_sectors_{_GLOBAL}_ld.sum"],
    "load_requests": [f"l1tex__t_requests_{_GLOBAL}_ld.sum"],
    "store_sectors": [f"l1tex__t_sectors_{_GLOBAL}_st.sum"],
    "store_requests": [f"l1tex__t_requests_{_GLOBAL}_st.sum"],
    "shared_load_conflicts": [f"{_SHARED}_ld.sum"],
    "shared_load_wavefronts": [f"{_WAVES}_ld.sum"],
    "shared_store_conflicts": [f"{_SHARED}_st.sum"],
    "shared_store_wavefronts": [f"{_WAVES}_st.sum"],
}
_STATED = {
    "load_sectors_per_request": [f"l1tex__average_t_sectors_per_request_{_GLOBAL}_ld.ratio"],
    "store_sectors_per_request": [f"l1tex__average_t_sectors_per_request_{_GLOBAL}_st.ratio"],
}
_SECTIONS = ("MemoryWorkloadAnalysis", "MemoryWorkloadAnalysis_Tables", "SourceCounters")

_THROUGHPUT = "Throughput of each level of memory, of what it can sustain"


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/memory_workload.yaml``."""

    max_rows: int = 200
    """Kernels kept, those that take longest."""


@analysis(title="Memory workload")
def analyze(
    measured_kernels: pd.DataFrame,
    kernel_metrics: pd.DataFrame,
    kernel_advice: pd.DataFrame,
    config: Config,
) -> Result:
    """How does each kernel load DRAM, the L2 and the L1 cache, and do its accesses fit them?

    Throughputs are shares of what each level can sustain. Hit rates are those of the sectors asked
    for: a low one is right where data is read once. Sectors per request tell whether neighbouring
    threads read neighbouring addresses. Bank conflicts are wavefronts to shared memory that were
    needed only because threads of a warp wanted different rows of one bank.
    """
    if measured_kernels.empty:
        return NOTHING
    rows = by_kernel(measured_kernels, kernel_metrics, {**_COLUMNS, **_STATED, **_COUNTED})
    rows = _with_ratios(rows)
    wanted = dict.fromkeys(_COLUMNS, "MemoryWorkloadAnalysis")
    wanted |= dict.fromkeys(("load_sectors_per_request",), "MemoryWorkloadAnalysis_Tables")
    wanted |= {"shared_conflict_share": "MemoryWorkloadAnalysis_Tables"}
    levels = [name for name in ("dram_percent", "l2_percent", "l1_percent") if rows[name].any()]
    return Result(
        tables={
            "kernels": shown(rows, "Memory of each kernel", limit=config.max_rows),
            **rules(measured_kernels, kernel_advice, _SECTIONS),
        },
        charts=(bars(_THROUGHPUT, *levels),) if levels else (),
        abstentions=unknown(rows, wanted),
    )


def _with_ratios(rows: pd.DataFrame) -> pd.DataFrame:
    """Replace counts by ratios: sectors per request, and the share of conflicts of wavefronts."""
    made = rows.copy()
    for kind in ("load", "store"):
        requests = rows[f"{kind}_requests"].where(rows[f"{kind}_requests"] > 0)
        counted = rows[f"{kind}_sectors"] / requests
        name = f"{kind}_sectors_per_request"
        made[name] = rows[name].fillna(counted)
    conflicts = rows[["shared_load_conflicts", "shared_store_conflicts"]].sum(axis=1, min_count=2)
    waves = rows[["shared_load_wavefronts", "shared_store_wavefronts"]].sum(axis=1, min_count=2)
    made["shared_conflicts"] = conflicts
    made["shared_conflict_share"] = conflicts / waves.where(waves > 0)
    columns = [name for name in made.columns if name not in _COUNTED and name != "name"]
    return made[[*columns, "name"]]
