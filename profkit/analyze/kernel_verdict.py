"""Kernel verdict: the rule of Nsight Compute that gains most, and the launches it concerns."""

import re
from dataclasses import dataclass, replace

import pandas as pd

from profkit.analyze._kernel_limits import (
    LET_NEIGHBOURS,
    MORE_BLOCKS,
    MORE_WARPS,
    RANDOM,
    limited,
)
from profkit.analyze.base import analysis
from profkit.analyze.shared.measured_kernels import (
    DRAM,
    DURATION,
    L2,
    NOTHING,
    WHERE,
    launches,
)
from profkit.core.formatting import counted, shortened
from profkit.core.result import Result
from profkit.core.settings import Settings
from profkit.core.verdict import Confidence, Evidence, KernelVerdict
from profkit.tables.kernel_names import library

_BOTTLENECK = "SOLBottleneck"
"""The rule that names what limits a kernel as a whole, with an estimate only in newer versions."""

_IMBALANCE = "WorkloadImbalance"
_UNITS = {"l2_percent": "L2 Slices", "dram_percent": "DRAM"}
_IDLE = 10.0
"""The rule on units of which some work longer, words of it, and percent of use that is little."""

_DIGITS = re.compile(r"[\d.,]+")

_OUT_OF_REACH = "MemoryL2Compression"
"""The rule on memory that is marked as compressible, which PyTorch allocates none of."""

_DEFINITION = re.compile(r"(?:(?!\. ).)*\b(?:is defined as|depends on)\b.*?\. +")
"""A sentence that explains a word and says nothing of the launch."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/kernel_verdict.yaml``."""

    small: float = 0.02
    """Part of the time of all measured launches below which a rule is not worth a word."""


@analysis(title="Kernel verdict")
def analyze(
    measured_kernels: pd.DataFrame,
    kernel_metrics: pd.DataFrame,
    kernel_advice: pd.DataFrame,
    speed_of_light: Result | None,
    config: Config,
) -> Result:
    """Which rule of Nsight Compute saves most time over all measured launches?

    A gain is the time that a rule estimates to save of a whole launch. Estimates of a part of it
    (local ones) say nothing of the launch. Where no rule has an estimate, it is the bottleneck that
    the report names for the launches that take longest. A report without rules leaves what the
    throughputs of its longest kernel say. Kernels that fill tensors with random numbers do not
    count.
    """
    if measured_kernels.empty:
        return NOTHING
    times = _times(measured_kernels, kernel_metrics)
    if times.empty:
        return Result(kernels=_only_random(measured_kernels))
    capability = str(measured_kernels["capability"].astype(str).max())
    rows = _rows(kernel_advice, times, _used(measured_kernels, kernel_metrics))
    whole = float(times.drop_duplicates("launched")["time_ns"].sum())
    is_whole = rows["speedup_scope"].astype(str) == "global"
    gaining = rows[is_whole & (rows["saved_ns"] > 0)]
    found = _largest(gaining, "saved_ns", config.small * whole)
    if found is None:
        limiting = rows[rows["rule"] == _BOTTLENECK]
        found = _largest(limiting, "time_ns", config.small * whole)
    if found is not None:
        said = _verdict(found, whole)
        return Result(kernels=_beyond(said, limited(speed_of_light, capability, said.kernel)))
    if kernel_advice.empty and (all_limited := limited(speed_of_light, capability)) is not None:
        return Result(kernels=all_limited)
    why = f"no rule of the report estimates more than {config.small:.0%} for whole launches"
    return Result.abstain(
        "what would make the measured kernels faster",
        f"{'the report has no rule about them' if kernel_advice.empty else why}: collect more with"
        " tools.ncu.set=full, or `ncu --set full`",
    )


def _rows(kernel_advice: pd.DataFrame, times: pd.DataFrame, used: pd.DataFrame) -> pd.DataFrame:
    """Return the advice that may help, with the time that it saves and how busy the memory is.

    Rules on units that are hardly used are left out: an imbalance of their cycles costs nothing.
    """
    rows = kernel_advice[kernel_advice["rule"] != _OUT_OF_REACH].merge(times, on=WHERE)
    texts = ("rule", "title", "message", "function", "kind")
    rows = rows.astype(dict.fromkeys(texts, object)).join(used, on="launched")
    is_idle = pd.Series(data=False, index=rows.index)
    for column, words in _UNITS.items():
        is_idle |= rows["message"].str.contains(words) & (rows[column] < _IDLE)
    rows = rows[~(is_idle & (rows["rule"] == _IMBALANCE))]
    said = rows["message"].str.replace(_DIGITS, "#", regex=True)
    return rows.assign(
        saved_ns=rows["time_ns"] * rows["speedup_percent"] / 100,
        said=rows["title"].where(rows["title"] != "", said),
    )


def _times(measured_kernels: pd.DataFrame, kernel_metrics: pd.DataFrame) -> pd.DataFrame:
    """Return function, name, launch and duration of each row, without random numbers.

    All count alike if none has a duration.
    """
    launched = launches(measured_kernels)[[*WHERE, "function", "name", "launched"]]
    known = kernel_metrics[kernel_metrics["metric"] == DURATION].merge(launched, on=WHERE)
    durations = known.groupby("launched")["value"].first()
    times = launched["launched"].map(durations).astype(float)
    timed = launched.assign(time_ns=times.fillna(0.0) if times.any() else 1.0)
    return timed[~timed["function"].str.startswith(RANDOM)]


def _used(measured_kernels: pd.DataFrame, kernel_metrics: pd.DataFrame) -> pd.DataFrame:
    """Return how near DRAM and L2 come to their peaks, by launch, as far as it was measured."""
    launched = launches(measured_kernels)[[*WHERE, "launched"]]
    known = kernel_metrics.merge(launched, on=WHERE)
    return pd.DataFrame(
        {
            column: known[known["metric"].isin(metrics)].groupby("launched")["value"].first()
            for column, metrics in {"dram_percent": DRAM, "l2_percent": [L2]}.items()
        },
        dtype=float,
    )


def _only_random(measured_kernels: pd.DataFrame) -> KernelVerdict:
    launched = launches(measured_kernels)
    return KernelVerdict(
        headline="Only kernels that fill tensors with random numbers were measured.",
        kernel=str(launched["function"].iloc[0]),
        launches=launched["launched"].nunique(),
        advice="Choose your kernels by name, `ncu --kernel-name regex:...` (`tools.ncu.kernel`), or"
        " leave out the first launches: `--launch-skip` (`tools.ncu.launch_skip`).",
    )


def _largest(rows: pd.DataFrame, column: str, least: float) -> pd.DataFrame | None:
    """Return the rows of what a rule says with the largest sum, None if it is below `least`."""
    once = rows.drop_duplicates(["launched", "rule", "said"])
    sums = once.groupby(["rule", "said"], sort=False)[column].sum()
    if sums.empty or sums.max() <= 0 or sums.max() < least:
        return None
    rule, said = sums.index[int(sums.to_numpy().argmax())]
    chosen: pd.DataFrame = once[(once["rule"] == rule) & (once["said"] == said)]
    return chosen


_LITTLE, _BUSY = 30.0, 60.0
"""Estimated gain in percent up to which what limits a kernel is said first; and how busy that is.
"""
_NEAR_PEAK = 50.0
"""What DRAM leaves of its peak, in percent, where it bounds a gain, at most."""

_OF_LIBRARIES = frozenset({"cuBLAS", "cuDNN", "ATen", "MAGMA", "NCCL or RCCL"})
"""Libraries whose kernels those who measure them do not write."""

_NEAR = "utilizing greater than"
"""Words of the rule on kernels that come near the peak of a unit, whichever it is."""

_LOOK = re.compile(r" *Look at [^.]*\.")
_HELPS = {"too small to fill": MORE_BLOCKS, "latency issues": MORE_WARPS}
"""What helps, by words of the rule on what limits a kernel."""


def _verdict(rows: pd.DataFrame, whole: float) -> KernelVerdict:
    time, saved = float(rows["time_ns"].sum()), float(rows["saved_ns"].sum())
    by_function = rows.groupby("function", sort=False)["time_ns"].sum()
    kernel = str(by_function.idxmax())
    first = rows[rows["function"] == kernel].iloc[0]
    rule, title = str(first["rule"]), str(first["title"])
    gain = 100 * saved / time if time else 0.0
    evidence: Evidence = {"time_ns": time}
    share = 100 * time / whole if whole else 100.0
    claim = f"up to {gain:.0f} % less time" if gain else f"{share:.0f} % of the measured time"
    # Rules on accesses and caches count sectors, and do not ask whether these come from DRAM.
    dram = float((rows["dram_percent"] * rows["time_ns"]).sum() / time) if time else 0.0
    if gain > (bound := 100 - dram) and bound <= _NEAR_PEAK:
        claim += f", {max(bound, 0):.0f} % at the same DRAM traffic"
        evidence |= {"dram_percent": dram}
    others = f" and {counted(len(by_function) - 1, 'other')}" if len(by_function) > 1 else ""
    return KernelVerdict(
        headline=f"{shortened(kernel, 60)}{others}: {title or _words(rule)}, {claim}.",
        kernel=kernel,
        rule=rule,
        launches=len(rows),
        gain_percent=gain,
        advice=_of_kernel(first) if gain else _to_do(str(first["message"])),
        confidence=Confidence.MEDIUM if gain else Confidence.LOW,
        evidence=evidence | ({"saved_ns": saved} if gain else {}),
    )


def _words(rule: str) -> str:
    """Return the identifier of a rule as words."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", rule)


def _beyond(verdict: KernelVerdict, limited: KernelVerdict | None) -> KernelVerdict:
    """Return what a rule says, behind what its kernel is `limited` by if that gains far more.

    Rules that count sectors estimate little for a product without tiles, whose caches are busy with
    what DRAM moves once. That a kernel is near a peak says nothing without the peak.
    """
    if limited is not None and _NEAR in verdict.advice:
        return replace(limited, rule=verdict.rule, launches=verdict.launches)
    is_of_caches = limited is not None and limited.evidence.get("limit") == "caches"
    if limited is None or not is_of_caches or verdict.gain_percent > _LITTLE:
        return verdict
    busy, dram = (float(limited.evidence[name]) for name in ("memory_percent", "DRAM_percent"))
    if busy < _BUSY:
        return verdict
    why = f"L1 and L2 limit it, at {busy:.0f} % of their peak beside {dram:.0f} % of DRAM"
    advice = LET_NEIGHBOURS[0].lower() + LET_NEIGHBOURS[1:]
    return replace(verdict, advice=f"{why}: {advice}. {verdict.advice}")


def _of_kernel(row: "pd.Series[float]") -> str:
    """Return what a rule says of how a kernel is written, and whose it is if nobody rewrites it."""
    said, owner = _of_launch(str(row["message"])), library(str(row["name"]))
    if owner not in _OF_LIBRARIES:
        return said
    return f"{said} The kernel is one of {owner}: change what it is given (shape, layout, type)."


def _to_do(message: str) -> str:
    """Return what a rule without an estimate says, and what to do instead of where to look."""
    said = _of_launch(message)
    helps = next((helps for what, helps in _HELPS.items() if what in said), "")
    return f"{_LOOK.sub('', said)} {helps}" if helps else said


def _of_launch(message: str) -> str:
    """Return what a rule says, without the definitions that it begins with."""
    while definition := _DEFINITION.match(message):
        message = message[definition.end() :]
    return message
