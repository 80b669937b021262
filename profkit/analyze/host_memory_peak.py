"""CPU memory: which functions hold what is live at each rank's peak, and how memory grows."""

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd
from pydantic import PositiveInt

from profkit.analyze.base import ByTool, ByToolIfAny, analysis
from profkit.analyze.shared.sampled_graph import sampled_graph
from profkit.analyze.shared.stack_frames import lines_of_stacks, of_program, self_and_total
from profkit.core.formatting import size
from profkit.core.result import Abstention, Chart, Finding, Metric, Result, Severity, table
from profkit.core.settings import Settings

_HEAP = "heap_bytes"
_LEAST_STEPS = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/host_memory_peak.yaml``."""

    skip_first: int = 3
    """First steps left out of the growth, as long as three others remain."""

    warn_growth_bytes: PositiveInt = 1_000_000
    """Growth of the heap per step from which it is worth a warning."""

    max_rows: PositiveInt = 200
    """Rows kept of each table."""

    max_frames: PositiveInt = 3000
    """Frames of the flame graph of a rank; of more the smallest are joined."""


_CHARTS = (
    Chart(
        kind="line",
        title="Heap in each step",
        table="over_steps",
        x="step",
        y=(_HEAP,),
        color="rank",
    ),
)


@analysis(title="CPU memory")
def analyze(host_stacks: ByTool, samples: ByToolIfAny, config: Config) -> Result:
    """What was allocated in CPU memory when each rank held most, by function and line?

    A function has allocated what it asked for itself, through whatever it calls that is no Python;
    its total is that of the functions that it calls as well. The peak is that of what programs ask
    for, so that resident memory, which the system counts, may be more or less. Growth is that of
    the heap between the means of the first and the last step that count.
    """
    parts = [rows[(rows["size_bytes"] > 0).to_numpy()] for rows in host_stacks.values()]
    live = pd.concat(parts) if parts else pd.DataFrame()
    if live.empty:
        return Result.abstain("CPU memory", "no allocation of CPU memory was recorded")
    peaks = _peaks(live)
    program = of_program(live, imports=True)
    if program.empty:
        reason = "all that was live at the peak is of profkit itself"
        return Result.abstain("CPU memory", reason)
    lines = lines_of_stacks(program, "size_bytes")
    functions = self_and_total(lines, ["rank", "function"], "bytes")
    levels = _levels(samples or {})
    growth = _growth(levels, config.skip_first)
    shown = {
        "functions": (functions, "Live at the peak, by function"),
        "lines": (self_and_total(lines, ["rank", "line"], "bytes"), "Live at the peak, by line"),
        "over_steps": (levels, "Heap in each step, mean"),
    }
    return Result(
        findings=tuple(_growing(growth, config)),
        metrics=_metrics(peaks, growth),
        tables={
            name: table(rows, title=title, limit=config.max_rows)
            for name, (rows, title) in shown.items()
        },
        charts=_CHARTS,
        drawings={
            "host_frames": sampled_graph(
                "Live on the host at the peak by stack",
                {"": program},
                "size_bytes",
                config.max_frames,
            )
        },
        abstentions=() if len(growth) else (_too_few(),),
    )


def _peaks(live: pd.DataFrame) -> "pd.Series[float]":
    """Return what each rank held at its peak, profkit included, mean of its repeats."""
    by_rank = live.groupby("rank", observed=True)
    peaks: pd.Series[float] = by_rank["size_bytes"].sum() / by_rank["repeat"].nunique()
    return peaks


def _levels(samples: ByTool) -> pd.DataFrame:
    """Return the mean heap of each rank in each step, in bytes."""
    heaps = [
        rows[((rows["metric"] == _HEAP) & (rows["step"] >= 0)).to_numpy()]
        for rows in samples.values()
    ]
    key = ["rank", "repeat", "step"]
    if not any(map(len, heaps)):
        return pd.DataFrame(columns=[*key, _HEAP])
    means = pd.concat(heaps).groupby(key)["value"].mean()
    return means.rename(_HEAP).reset_index()


def _growth(levels: pd.DataFrame, skip_first: int) -> "pd.Series[float]":
    """Return the growth of each rank's heap in bytes per step; empty with too few steps."""
    kept = levels[(levels["step"] >= skip_first).to_numpy()]
    counted_steps = kept if kept["step"].nunique() >= _LEAST_STEPS else levels
    grouped = counted_steps.groupby(["rank", "repeat"])
    ends = grouped.agg(
        first=(_HEAP, "first"), last=(_HEAP, "last"), begin=("step", "min"), end=("step", "max")
    )
    ends = ends[grouped["step"].nunique() >= _LEAST_STEPS]
    per_step: pd.Series[float] = (ends["last"] - ends["first"]) / (ends["end"] - ends["begin"])
    return per_step.groupby("rank").mean()


def _growing(growth: "pd.Series[float]", config: Config) -> Iterator[Finding]:
    if len(growth) and growth.max() >= config.warn_growth_bytes:
        yield Finding(
            severity=Severity.WARN,
            message=f"The heap of rank {growth.idxmax()} grows by {size(float(growth.max()))} "
            "with every step.",
            metric="host_memory_peak.growth_bytes",
            value=float(growth.max()),
            unit="bytes",
            evidence={"rank": int(growth.index[int(growth.argmax())])},
            advice="Look for lists that keep tensors or graphs, such as losses that are summed up "
            "without detach().",
        )


def _metrics(peaks: "pd.Series[float]", growth: "pd.Series[float]") -> dict[str, Metric]:
    found = {
        "peak_bytes": Metric(
            value=float(peaks.max()),
            unit="bytes",
            title="Peak CPU memory, of the rank with the most",
            better="lower",
        )
    }
    if len(growth):
        title = "Growth of the heap per step, of the rank that grows most"
        value = float(growth.max())
        found["growth_bytes"] = Metric(value=value, unit="bytes", title=title, better="lower")
    return found


def _too_few() -> Abstention:
    reason = "memory was not read in three steps: run more, or read it more often"
    return Abstention(what="growth of CPU memory", reason=reason)
