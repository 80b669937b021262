"""Kernel verdict: the rule of Nsight Compute that gains most, and the launches it concerns."""

import re
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from profkit.analyze.base import analysis
from profkit.analyze.shared.measured_kernels import DRAM, DURATION, NOTHING, WHERE, launches
from profkit.core.formatting import counted, shortened
from profkit.core.result import Result
from profkit.core.settings import Settings
from profkit.core.verdict import Confidence, Evidence, KernelVerdict

_BOTTLENECK = "SOLBottleneck"
"""The rule that names what limits a kernel as a whole, with an estimate only in newer versions."""

_OUT_OF_REACH = "MemoryL2Compression"
"""The rule on memory that is marked as compressible, which PyTorch allocates none of."""

_RANDOM = "distribution_"
"""Begin of the kernels that fill tensors with random numbers: mostly inputs of a benchmark."""

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
    rows = kernel_advice[kernel_advice["rule"] != _OUT_OF_REACH].merge(times, on=WHERE)
    rows = rows.astype(dict.fromkeys(("rule", "title", "message", "function", "kind"), object))
    rows["saved_ns"] = rows["time_ns"] * rows["speedup_percent"] / 100
    rows["dram_percent"] = rows["launched"].map(_dram(measured_kernels, kernel_metrics))
    whole = float(times.drop_duplicates("launched")["time_ns"].sum())
    is_whole = rows["speedup_scope"].astype(str) == "global"
    gaining = rows[is_whole & (rows["saved_ns"] > 0)]
    found = _largest(gaining, "saved_ns", config.small * whole)
    if found is None:
        limiting = rows[rows["rule"] == _BOTTLENECK]
        found = _largest(limiting, "time_ns", config.small * whole)
    limited = _limited(speed_of_light)
    if found is None and rows.empty and limited is not None:
        return Result(kernels=limited)
    if found is None:
        why = f"no rule of the report estimates more than {config.small:.0%} for whole launches"
        return Result.abstain(
            "what would make the measured kernels faster",
            f"{'the report has no rule about them' if rows.empty else why}: collect more with"
            " tools.ncu.set=full, or `ncu --set full`",
        )
    return Result(kernels=_beyond(_verdict(found, whole), limited))


def _times(measured_kernels: pd.DataFrame, kernel_metrics: pd.DataFrame) -> pd.DataFrame:
    """Return function, launch and duration of each row but those that fill with random numbers.

    All count alike if none has a duration.
    """
    launched = launches(measured_kernels)[[*WHERE, "function", "launched"]]
    known = kernel_metrics[kernel_metrics["metric"] == DURATION].merge(launched, on=WHERE)
    durations = known.groupby("launched")["value"].first()
    times = launched["launched"].map(durations).astype(float)
    timed = launched.assign(time_ns=times.fillna(0.0) if times.any() else 1.0)
    return timed[~timed["function"].str.startswith(_RANDOM)]


def _dram(measured_kernels: pd.DataFrame, kernel_metrics: pd.DataFrame) -> "pd.Series[float]":
    """Return how near DRAM comes to its peak, by launch, as far as it was measured."""
    measured = kernel_metrics[kernel_metrics["metric"].isin(DRAM)]
    known = measured.merge(launches(measured_kernels)[[*WHERE, "launched"]], on=WHERE)
    return known.groupby("launched")["value"].first().astype(float)


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
    """Return the rows of the rule and title with the largest sum, None if it is below `least`."""
    once = rows.drop_duplicates(["launched", "rule", "title"])
    sums = once.groupby(["rule", "title"], sort=False)[column].sum()
    if sums.empty or sums.max() <= 0 or sums.max() < least:
        return None
    rule, title = sums.index[int(sums.to_numpy().argmax())]
    chosen: pd.DataFrame = once[(once["rule"] == rule) & (once["title"] == title)]
    return chosen


def _limited(speed_of_light: Result | None) -> KernelVerdict | None:
    """Return what the throughputs of the longest kernel say, None where none is known."""
    found = speed_of_light.tables.get("kernels") if speed_of_light else None
    rows = (
        [dict[str, Any](zip(found.columns, row, strict=True)) for row in found.rows]
        if found
        else []
    )
    first = next((row for row in rows if row.get("limit")), None)
    if first is None:
        return None
    kernel, limit = str(first["kernel"]), str(first["limit"])
    shares = {name: first[name] for name in ("compute_percent", "memory_percent")}
    dram = first.get("dram_percent")
    # Where both are one number it is that of requests to L1, which counts as computing as well.
    is_memory = limit == "memory" or shares["compute_percent"] == shares["memory_percent"]
    if is_memory and dram is not None and dram < _MOSTLY * first["memory_percent"]:
        limit, shares = "caches", shares | {"DRAM_percent": dram}
    used = ", ".join(f"{name.partition('_')[0]} {share:.0f} %" for name, share in shares.items())
    function = shortened(kernel.partition(" (")[0], 60)
    return KernelVerdict(
        headline=f"{function}: limited by {_WORDS.get(limit, limit)} ({used}).",
        kernel=kernel,
        launches=int(first["launches"]),
        advice=_ADVICE[limit],
        confidence=Confidence.LOW,
        evidence={"limit": limit, **shares},
    )


_MOSTLY = 0.5
_LITTLE, _BUSY = 30.0, 60.0
"""Estimated gain in percent up to which what limits a kernel is said first; and how busy that is.
"""
_NEAR_PEAK = 50.0
"""What DRAM leaves of its peak, in percent, where it bounds a gain, at most."""
_WORDS = {"balanced": "compute and memory alike", "caches": "L1 and L2"}
_ADVICE = {
    "latency": "Fuse small kernels or enlarge the batch, so that the grid fills the GPU; the warp "
    "states say what its warps wait for.",
    "compute": "Use tensor cores or a lower precision (bf16, TF32): faster memory access will not "
    "help.",
    "memory": "Move fewer bytes: fuse kernels (`torch.compile`), use smaller types, reuse caches.",
    "caches": "Let neighbouring threads read and write neighbouring addresses, or stage tiles in "
    "shared memory: the caches move far more than DRAM does.",
    "balanced": "Compute and memory are both at work: only less of both makes it faster.",
}


_LOOK = re.compile(r" *Look at [^.]*\.")
_HELPS = {
    "too small to fill": "Give it more blocks, as with a larger batch, or fuse it with those around"
    " it; where many such kernels follow one another, replay them as a CUDA graph.",
    "latency issues": "Its warps wait: have more of them at work (smaller blocks, fewer registers"
    " or less shared memory for each), or more independent work in each thread.",
}
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
        advice=_of_launch(str(first["message"])) if gain else _to_do(str(first["message"])),
        confidence=Confidence.MEDIUM if gain else Confidence.LOW,
        evidence=evidence | ({"saved_ns": saved} if gain else {}),
    )


def _words(rule: str) -> str:
    """Return the identifier of a rule as words."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", rule)


def _beyond(verdict: KernelVerdict, limited: KernelVerdict | None) -> KernelVerdict:
    """Return what a rule says, behind what its kernel is `limited` by if that gains far more.

    Rules that count sectors estimate little for a product without tiles, whose caches are busy with
    what DRAM moves once.
    """
    is_of_caches = limited is not None and limited.evidence.get("limit") == "caches"
    if limited is None or not is_of_caches or verdict.gain_percent > _LITTLE:
        return verdict
    same = limited.kernel.partition(" (")[0] == verdict.kernel.partition(" (")[0]
    busy, dram = (float(limited.evidence[name]) for name in ("memory_percent", "DRAM_percent"))
    if not same or busy < _BUSY:
        return verdict
    advice = _ADVICE["caches"].removesuffix(": the caches move far more than DRAM does.")
    why = f"L1 and L2 limit it, at {busy:.0f} % of their peak beside {dram:.0f} % of DRAM"
    return replace(verdict, advice=f"{why}: {advice[0].lower()}{advice[1:]}. {verdict.advice}")


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
