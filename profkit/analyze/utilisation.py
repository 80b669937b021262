"""Utilisation: what "busy" hides, from time busy to tensor cores, and the CPUs beside it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.base import ByTool, ByToolIfAny, analysis
from profkit.analyze.shared import intervals
from profkit.analyze.shared.step_windows import WHERE, step_windows
from profkit.core.result import Abstention, Chart, Finding, Metric, Result, Severity, table
from profkit.core.settings import Settings
from profkit.tables.kernel_names import uses_tensor_cores

_FULL = 100.0

# Names in samplers and in Nsight Systems' GPU metrics; from the coarsest measure to the finest.
_SAMPLED = {
    "busy_percent": re.compile(r"busy_percent|GR Active.*"),
    "sm_active_percent": re.compile(r"SMs? Active.*"),
    "occupancy_percent": re.compile(r"(Compute )?Warps in Flight.*%.*"),
    "tensor_active_percent": re.compile(r"Tensor (Pipe )?Active.*"),
}
_MEASURES = (*_SAMPLED,)
_MEANING = {
    "busy_percent": "some kernel runs; one thread of one SM is enough",
    "sm_active_percent": "the mean SM has work",
    "occupancy_percent": "while an SM has work, it holds so many of the warps that fit",
    "tensor_active_percent": "tensor cores work",
}
_CPU_COLUMNS = ["tool", "rank", "device", "cpus", "cpu_percent", "memory_used_bytes"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/utilisation.yaml``."""

    skip_first: int = 3
    """First steps left out, as long as others remain."""

    busy_percent: float = 80.0
    """Time busy from which a GPU looks well used."""

    hidden_percent: float = 50.0
    """SM activity under which a GPU that looks well used is not."""


_CHARTS = (
    Chart(
        kind="bar",
        title="Utilisation of GPUs, mean of the ranks",
        table="side_by_side",
        x="measure",
        y=("value_percent",),
        color="tool",
    ),
)


@analysis(title="Utilisation")
def analyze(samples: ByTool, steps: ByTool, kernels: ByToolIfAny, config: Config) -> Result:
    """How well are the GPUs used, by each number that is called utilisation?

    The driver's "busy", which monitoring shows, is the time in which any kernel runs, however
    small. SM activity weighs it by how many SMs have work, and tensor activity is the part in
    which tensor cores compute. Occupancy is a share of something else: of the warps that fit, those
    that SMs hold while they have work. Each row has one source: sampled counters, or kernels of a
    trace. The latter are estimates, as PyTorch's TensorBoard plugin makes them: an SM counts as
    active from one block on, occupancy is that of the launches, and a kernel uses tensor cores,
    all the time, if its name says so. CPU time is of all threads: of each rank's process, and of
    everything on its CPU.
    """
    tools = [*samples, *(kernels or {})]
    rows = [row for tool, readings in samples.items() for row in _sampled(readings, tool, config)]
    for tool, traced in (kernels or {}).items():
        own = steps.get(tool, pd.DataFrame())
        rows += list(_traced(traced, own, tool, config)) if len(traced) and len(own) else []
    by_device = pd.DataFrame(rows, columns=["tool", "rank", "device", *_MEASURES])
    cpus = [row for tool in samples for row in _of_cpus(samples[tool], tool, config)]
    by_host = pd.DataFrame(cpus, columns=_CPU_COLUMNS)
    if by_device.empty and by_host.empty:
        return Result.abstain("utilisation", "nothing was sampled")
    return Result(
        findings=(*_hidden(by_device, config), *_busy_cpus(by_host)),
        metrics={**_device_metrics(by_device), **_cpu_metrics(by_host)},
        tables={
            "by_device": table(
                by_device,
                title="Utilisation of each GPU, by what is called that",
                note="; ".join(f"{key}: {text}" for key, text in _MEANING.items()) + ".",
            ),
            "by_host": table(by_host, title="CPUs and memory, of each process and host"),
            "side_by_side": table(_long(by_device), title="Utilisation, side by side"),
        },
        charts=_CHARTS,
        abstentions=tuple(_unknown(by_device, tools)),
    )


def _counted(samples: pd.DataFrame, skip_first: int) -> pd.DataFrame:
    """Return the samples of the counted steps; without any those of all steps, else all."""
    for least in (skip_first, 0):
        kept = samples[(samples["step"] >= least).to_numpy()]
        if len(kept):
            return kept
    return samples


def _sampled(samples: pd.DataFrame, tool: str, config: Config) -> Iterator[list[Any]]:
    """Yield one row per rank and device with the mean of each sampled measure."""
    names = {str(name): _measure(str(name)) for name in samples["metric"].unique()}
    measure = samples["metric"].astype(object).map(names)
    kept = _counted(samples.assign(measure=measure)[(measure != "").to_numpy()], config.skip_first)
    means = kept.groupby(["rank", "device", "measure"], observed=True)["value"].mean()
    key: Any
    for key, found in means.groupby(level=[0, 1], observed=True):
        rank, device = key
        values = dict(found.droplevel([0, 1]))
        # Samplers count warps over all time, including SMs that hold none.
        if "occupancy_percent" in values:
            values["occupancy_percent"] *= _FULL / values.get("sm_active_percent", np.nan)
        yield [tool, int(rank), str(device), *(values.get(name, np.nan) for name in _MEASURES)]


def _measure(metric: str) -> str:
    return next((name for name, pattern in _SAMPLED.items() if pattern.fullmatch(metric)), "")


def _traced(
    kernels: pd.DataFrame, steps: pd.DataFrame, tool: str, config: Config
) -> Iterator[list[Any]]:
    """Yield the measures that kernels of each device tell, as shares of the steps' time."""
    windows, _ = step_windows(steps, kernels, config.skip_first)
    found = []
    key: Any
    for key, rows in kernels.groupby([*WHERE, "device"], observed=True):
        rank, repeat, device = key
        own = windows[((windows["rank"] == rank) & (windows["repeat"] == repeat)).to_numpy()]
        spans = intervals.union(intervals.intervals(own["start_ns"], own["end_ns"]))
        if len(spans):
            found.append([tool, int(rank), f"gpu{device}", *_shares(rows, spans)])
    columns = ["tool", "rank", "device", *_MEASURES]
    frame = pd.DataFrame(found, columns=columns)
    yield from frame.groupby(columns[:3], sort=False).mean().reset_index().to_numpy().tolist()


def _shares(kernels: pd.DataFrame, spans: intervals.Intervals) -> list[float]:
    """Return the measures of one device in percent of the union `spans`, NaN where unknown."""
    total = intervals.total(spans)
    # As the driver counts: a copy keeps no SM busy.
    kernels = kernels[kernels["kind"].isin(["compute", "communication"]).to_numpy()]
    work = intervals.intervals(kernels["start_ns"], kernels["end_ns"])
    busy = intervals.total(intervals.intersection(intervals.union(work), spans))
    time_ns = intervals.overlap(work, spans).astype(np.float64)
    active = kernels["blocks_per_sm"].to_numpy().clip(max=1.0)
    occupancy = kernels["occupancy_percent"].to_numpy() / _FULL
    on_tensor_cores = np.array(
        [uses_tensor_cores(str(name)) for name in kernels["name"]], dtype=np.float64
    )
    active_share, occupied_share, tensor_share = (
        _weighed(time_ns, share) for share in (active, occupancy, on_tensor_cores)
    )
    in_kernels = time_ns.sum() / total
    return [
        _FULL * busy / total,
        # Kernels that run side by side may add up to more than all SMs.
        float(np.minimum(_FULL, _FULL * active_share * in_kernels)),
        _FULL * occupied_share,
        float(np.minimum(_FULL, _FULL * tensor_share * in_kernels)),
    ]


def _weighed(time_ns: NDArray[np.float64], share: NDArray[np.float64]) -> float:
    """Return the mean share, weighed by times; NaN if it is not known of half of the time."""
    known = ~np.isnan(share)
    covered = time_ns[known].sum()
    if not covered or covered < time_ns.sum() / 2:
        return float("nan")
    return float((time_ns[known] * share[known]).sum() / covered)


def _of_cpus(samples: pd.DataFrame, tool: str, config: Config) -> Iterator[list[Any]]:
    """Yield how many CPUs each process and host kept busy, and its largest memory in bytes."""
    kept = _counted(samples, config.skip_first)
    on_host = kept[kept["device"].isin(["process", "host"]).to_numpy()]
    key: Any
    for key, rows in on_host.groupby(["rank", "device"], observed=True):
        rank, device = key
        count = _values(rows, "cpu_count")
        cpus = _rate(rows, "cpu_s")
        # The machine's own count of all CPU time does not drift from the busy time, but
        # differences of such large sums are rounded.
        if not np.isnan(whole := _rate(rows, "cpu_all_s")) and len(count):
            cpus = min(cpus / whole, 1.0) * float(count[-1])
        percent = _FULL * cpus / float(count[-1]) if len(count) else np.nan
        memory = _values(rows, "memory_used_bytes")
        most = float(memory.max()) if len(memory) else np.nan
        yield [tool, int(rank), str(device), cpus, percent, most]


def _values(rows: pd.DataFrame, metric: str) -> NDArray[np.float64]:
    found: NDArray[np.float64] = rows.loc[(rows["metric"] == metric).to_numpy(), "value"].to_numpy()
    return found


def _rate(rows: pd.DataFrame, metric: str) -> float:
    """Return how fast a counter of one rank went up per second; the mean over repeats."""
    counted = rows[(rows["metric"] == metric).to_numpy()].sort_values("time_ns")
    ends = counted.groupby("repeat")[["time_ns", "value"]].agg(["first", "last"])
    seconds = (ends["time_ns"]["last"] - ends["time_ns"]["first"]).sum() / 1e9
    went_up = (ends["value"]["last"] - ends["value"]["first"]).sum()
    return float(went_up / seconds) if seconds > 0 else float("nan")


def _long(by_device: pd.DataFrame) -> pd.DataFrame:
    means = by_device.groupby("tool", sort=False)[list(_MEASURES)].mean()
    rows = means.reset_index().melt("tool", var_name="measure", value_name="value_percent")
    rows["measure"] = rows["measure"].str.removesuffix("_percent").str.replace("_", " ")
    return rows.dropna(ignore_index=True)


def _hidden(by_device: pd.DataFrame, config: Config) -> Iterator[Finding]:
    """Yield the devices that look busier than their SMs are, the worst of each tool."""
    looks = by_device[by_device["busy_percent"] >= config.busy_percent]
    idle = looks[looks["sm_active_percent"] < config.hidden_percent]
    for tool, rows in idle.groupby("tool", sort=False):
        worst = rows.sort_values("sm_active_percent").iloc[0]
        yield Finding(
            severity=Severity.WARN,
            message=f"{worst['device']} of rank {worst['rank']} is busy "
            f"{worst['busy_percent']:.0f} % of the steps' time, but only "
            f"{worst['sm_active_percent']:.0f} % of its SMs' time has work (by {tool}).",
            metric="utilisation.sm_active_percent",
            value=float(worst["sm_active_percent"]),
            unit="percent",
            evidence={"tool": str(tool), "rank": int(worst["rank"])},
            advice="Kernels are too small for the GPU: raise batch, or fuse them"
            " (compile=default).",
        )


def _busy_cpus(by_host: pd.DataFrame) -> Iterator[Finding]:
    hosts = by_host[by_host["cpu_percent"].notna()]
    if len(hosts):
        most = hosts.sort_values("cpu_percent").iloc[-1]
        yield Finding(
            severity=Severity.INFO,
            message=f"{most['cpu_percent']:.0f} % of the CPUs' time on the host of rank "
            f"{most['rank']} is used, by all processes together.",
            metric="utilisation.host_cpu_percent",
            value=float(most["cpu_percent"]),
            unit="percent",
            evidence={"rank": int(most["rank"]), "cpus": float(most["cpus"])},
        )


def _device_metrics(by_device: pd.DataFrame) -> dict[str, Metric]:
    found = {}
    for name in _MEASURES:
        # From the first tool that has it, as later ones estimate.
        means = by_device.groupby("tool", sort=False)[name].mean().dropna()
        if len(means):
            title = f"GPU: {name.removesuffix('_percent').replace('_', ' ')}, by {means.index[0]}"
            found[name] = Metric(value=float(means.iloc[0]), unit="percent", title=title)
    return found


def _cpu_metrics(by_host: pd.DataFrame) -> dict[str, Metric]:
    found = {}
    percent = by_host["cpu_percent"].dropna()
    if len(percent):
        title = "CPU time used on the hosts, by everything"
        found["host_cpu_percent"] = Metric(value=float(percent.mean()), unit="percent", title=title)
    processes = by_host.loc[(by_host["device"] == "process").to_numpy(), "cpus"].dropna()
    if len(processes):
        title = "CPUs that a rank keeps busy, mean of the ranks"
        found["process_cpus"] = Metric(value=float(processes.mean()), unit="count", title=title)
    return found


def _unknown(by_device: pd.DataFrame, tools: list[str]) -> Iterator[Abstention]:
    if by_device.empty:
        reason = f"none of {', '.join(dict.fromkeys(tools))} saw a GPU at work in a step"
        yield Abstention(what="utilisation of GPUs", reason=reason)
        return
    where = "sample GPU metrics with nsys, or add a trace of kernels: +tool=torch_profiler"
    for name in _MEASURES:
        if by_device[name].isna().all():
            what = name.removesuffix("_percent").replace("_", " ")
            yield Abstention(what=f"{what} of GPUs", reason=f"no tool that ran tells it: {where}")
