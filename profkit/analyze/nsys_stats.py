"""Nsight Systems' statistics: kernels, CUDA calls, copies, NVTX ranges and calls of the system."""

from dataclasses import dataclass

import pandas as pd

from profkit.analyze.base import ByTool, analysis
from profkit.core.result import Abstention, Metric, Result, Table, table
from profkit.core.settings import Settings

_TOOL = "nsys"
_REPORT = ["rank", "repeat"]
_KERNELS = ("compute", "communication")
_COPIES = ("copy", "set")
_TITLES = {
    "cuda_gpu_kern_sum": "Kernels (cuda_gpu_kern_sum, gpukernsum)",
    "cuda_api_sum": "Calls of CUDA (cuda_api_sum, cudaapisum)",
    "cuda_gpu_mem_time_sum": "Copies and sets by time (cuda_gpu_mem_time_sum, gpumemtimesum)",
    "cuda_gpu_mem_size_sum": "Copies and sets by size (cuda_gpu_mem_size_sum, gpumemsizesum)",
    "nvtx_sum": "NVTX ranges (nvtx_sum, nvtxsum)",
    "osrt_sum": "Calls of the operating system (osrt_sum, osrtsum)",
    "library_sum": "Calls of cuBLAS, cuDNN and MPI",
}
_LACKS = {
    "cuda_gpu_kern_sum": "no kernel of a GPU was recorded",
    "cuda_api_sum": "no call of CUDA was recorded",
    "cuda_gpu_mem_time_sum": "no copy or set of GPU memory was recorded",
    "cuda_gpu_mem_size_sum": "no copy or set of GPU memory was recorded",
    "nvtx_sum": "no NVTX range was recorded",
    "osrt_sum": "no call of the operating system was recorded",
    "library_sum": "no call of cuBLAS, cuDNN or MPI was recorded",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/nsys_stats.yaml``."""

    max_rows: int = 200
    """Rows kept of each table."""


@analysis(title="Nsight Systems' statistics")
def analyze(  # noqa: PLR0913, PLR0917 - one table each
    kernels: ByTool,
    runtime_calls: ByTool,
    cpu_ops: ByTool,
    python_calls: ByTool,
    os_calls: pd.DataFrame,
    config: Config,
) -> Result:
    """What did Nsight Systems record, summed by name as ``nsys stats`` does?

    For calls of cuBLAS, cuDNN and MPI it has no such report up to 2023.4. Shares are of the sum of
    all rows of a rank and repeat, not of time that has passed: ranges nest, and calls on several
    threads overlap. Details of operators that PyTorch writes into the names of ranges (op_id,
    sizes) are left out of names here.
    """
    works = _of_nsys(kernels)
    is_kernel = works["kind"].isin(_KERNELS).to_numpy()
    copies = works[works["kind"].isin(_COPIES).to_numpy()]
    copies = copies.assign(name=_operations(copies))
    ranges = [_of_nsys(cpu_ops), _of_nsys(python_calls)]
    columns = [*_REPORT, "name", "start_ns", "end_ns"]
    is_os = os_calls["library"].eq("os").to_numpy()
    timed = {
        "cuda_gpu_kern_sum": works[is_kernel],
        "cuda_api_sum": _of_nsys(runtime_calls),
        "cuda_gpu_mem_time_sum": copies,
        "nvtx_sum": pd.concat([rows[columns].astype({"name": "object"}) for rows in ranges]),
        "osrt_sum": os_calls[is_os],
        "library_sum": os_calls[~is_os],
    }
    sums = {name: _by_time(rows) for name, rows in timed.items()}
    sums["cuda_gpu_mem_size_sum"] = _summed(copies, copies["size_bytes"].clip(lower=0), "bytes")
    return Result(
        metrics=_metrics(sums),
        tables={name: _table(name, sums[name], config) for name in _TITLES if len(sums[name])},
        abstentions=tuple(
            Abstention(what=name, reason=_LACKS[name]) for name in _TITLES if sums[name].empty
        ),
    )


def _of_nsys(tables: ByTool) -> pd.DataFrame:
    """Return the table of nsys; if there is none, an empty one with another tool's columns."""
    return tables[_TOOL] if _TOOL in tables else next(iter(tables.values())).iloc[:0]


def _operations(copies: pd.DataFrame) -> "pd.Series[str]":
    """Return the direction of each copy, and "set" for each set."""
    direction = copies["copy_kind"].astype("object")
    return direction.where((copies["kind"] == "copy").to_numpy(), "set").replace("", "unknown")


def _by_time(rows: pd.DataFrame) -> pd.DataFrame:
    return _summed(rows, rows["end_ns"] - rows["start_ns"], "ns")


def _summed(rows: pd.DataFrame, values: "pd.Series[int]", unit: str) -> pd.DataFrame:
    """Return one row per report and name, as ``nsys stats`` has them; `values` are in `unit`."""
    keys = [rows[column] for column in _REPORT] + [rows["name"].astype("object")]
    groups = values.astype("int64").groupby(keys, sort=False, observed=True)
    found = groups.agg(["sum", "count", "mean", "median", "min", "max", "std"]).reset_index()
    found["std"] = found["std"].fillna(0.0)
    total = found.groupby(_REPORT)["sum"].transform("sum")
    found.insert(2, "share", found["sum"] / total.where(total > 0))
    words = {"sum": "total", "count": "instances", "std": "deviation"}
    measured = ("sum", "mean", "median", "min", "max", "std")
    named = {statistic: f"{words.get(statistic, statistic)}_{unit}" for statistic in measured}
    found = found.rename(columns=named | {"count": "instances"})
    order = [*_REPORT, "name", "share", f"total_{unit}", "instances", *list(named.values())[1:]]
    by = [f"total_{unit}", *_REPORT]
    return found[order].sort_values(by, ascending=[False, True, True], kind="stable")


def _table(name: str, rows: pd.DataFrame, config: Config) -> Table:
    return table(rows, title=_TITLES[name], limit=config.max_rows)


def _metrics(sums: dict[str, pd.DataFrame]) -> dict[str, Metric]:
    titles = {
        "cuda_gpu_kern_sum": "Sum of the times of kernels of all reports",
        "cuda_api_sum": "Sum of the times of calls of CUDA of all reports",
    }
    return {
        f"{name}_ns": Metric(value=float(sums[name]["total_ns"].sum()), unit="ns", title=title)
        for name, title in titles.items()
        if len(sums[name])
    }
