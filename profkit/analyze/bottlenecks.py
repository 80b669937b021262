"""Bottlenecks: what to look at first, ranked by how far it is over its threshold."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from profkit.analyze.base import analysis
from profkit.core.result import Abstention, Finding, Metric, Result, Severity, table
from profkit.core.settings import Settings


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/bottlenecks.yaml``; all but `bad_factor` are shares."""

    data_loading: float = 0.1
    """Share of the step time spent waiting for data."""

    idle: float = 0.3
    """Share of the step time in which nothing recorded runs, neither on the GPU nor on the CPU."""

    copies: float = 0.05
    """Share of the step time in copies that no kernel hides."""

    runtime: float = 0.15
    """Share of the step time in runtime calls while the GPU is idle."""

    communication: float = 0.15
    """Share of the step time in communication that no compute hides."""

    small_kernels: float = 0.6
    """Share of the compute kernels that are small (see ``analyses.kernels.small_kernel_ns``)."""

    operator: float = 0.4
    """Share of one operator in all self time: of the GPU where kernels were recorded, else CPU."""

    spread: float = 0.15
    """Coefficient of variation of the step times."""

    rank_imbalance: float = 0.1
    """Share by which the median step of the slowest rank exceeds that of the fastest."""

    memory_growth: float = 0.05
    """Share by which the peak memory grew over the counted steps."""

    bad_factor: float = 2.0
    """A number this many times over its threshold is bad, not only worth a warning."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Check:
    """A metric of another analysis, and what a large value means."""

    setting: str
    metric: str
    says: str
    """The sentence, with the number as ``{value}``."""

    advice: str


_CHECKS = (
    _Check(
        setting="data_loading",
        metric="breakdown.data_loading_share",
        says="The step waits for data during {value} of its time.",
        advice="Load in the background: more DataLoader workers, a larger prefetch_factor, "
        "pin_memory; move decoding and augmentation out of the step.",
    ),
    _Check(
        setting="idle",
        metric="breakdown.idle_share",
        says="Nothing recorded runs during {value} of the step time: Python, or waiting.",
        advice="See in a sampled flame graph what Python does there; batch or compile small "
        "operators, and avoid .item() and other waits.",
    ),
    _Check(
        setting="copies",
        metric="breakdown.copy_share",
        says="Copies that no kernel hides take {value} of the step time.",
        advice="Copy from pinned memory with non_blocking=True, and keep tensors on the device.",
    ),
    _Check(
        setting="runtime",
        metric="breakdown.runtime_share",
        says="The device waits for runtime calls during {value} of the step time.",
        advice="Launch less: larger batches, torch.compile or CUDA graphs; look for "
        "synchronising calls and allocations.",
    ),
    _Check(
        setting="communication",
        metric="breakdown.exposed_communication_share",
        says="Communication that no compute hides takes {value} of the step time.",
        advice="If the collectives mostly wait, mend the rank that the stragglers name first; "
        "then send less or less often (gradient accumulation, bf16) and tune bucket sizes.",
    ),
    _Check(
        setting="small_kernels",
        metric="kernels.small_kernel_share",
        says="{value} of the compute kernels are short: launching one often takes as long.",
        advice="Fuse them: torch.compile, fused optimizers, larger batches, or CUDA graphs.",
    ),
    _Check(
        setting="operator",
        metric="operators.top_self_device_share",
        says="One operator, {operator}, has {value} of all self device time.",
        advice="Look at its shapes and data types: a faster kernel there pays most.",
    ),
    _Check(
        setting="operator",
        metric="operators.top_self_cpu_share",
        says="One operator, {operator}, has {value} of all self CPU time.",
        advice="Look at its shapes and data types: a faster implementation there pays most.",
    ),
    _Check(
        setting="spread",
        metric="steps.spread",
        says="Step times vary by {value} of their mean (standard deviation).",
        advice="Look at the slow steps: data loading, garbage collection, checkpoints, or other "
        "work on the machine.",
    ),
    _Check(
        setting="rank_imbalance",
        metric="steps.rank_difference",
        says="The median step of the slowest rank is {value} longer than that of the fastest.",
        advice="Look for uneven data, a slower device, or another process beside a rank. The "
        "longest step may be that of a rank that waits: the stragglers name who comes late.",
    ),
    _Check(
        setting="memory_growth",
        metric="steps.memory_growth_share",
        says="The peak memory grew by {value} of itself over the counted steps.",
        advice="Look for tensors kept between steps, such as losses summed with their graph.",
    ),
)


@analysis(title="Bottlenecks")
def analyze(
    breakdown: Result, operators: Result, steps: Result, kernels: Result, config: Config
) -> Result:
    """Compare numbers of the other analyses with thresholds, and rank those that are over.

    The rank is the number over its threshold. A threshold is a judgement, not a law: change it
    in ``analyses.bottlenecks``. Shares are of what the sentence says.
    """
    read = {"breakdown": breakdown, "operators": operators, "steps": steps, "kernels": kernels}
    known = _numbers(read)
    checks = _checks(known)
    if not checks:
        return Result.abstain("bottlenecks", "no number that is checked is known")
    limits = {check.metric: getattr(config, check.setting) for check in checks}
    over = {
        check.metric: _over(known[check.metric].value, limits[check.metric]) for check in checks
    }
    ranked = sorted(checks, key=lambda check: -over[check.metric])
    worst = _worst_ranks(breakdown)
    findings = [
        _finding(
            check, known[check.metric], over[check.metric], worst.get(check.metric, {}), config
        )
        for check in ranked
        if over[check.metric] > 1
    ]
    rows = [_row(check.metric, known, limits, over) for check in ranked]
    return Result(
        findings=tuple(findings) or (_fine(len(checks)),),
        metrics={
            "findings": Metric(
                value=len(findings),
                unit="count",
                title=f"Numbers over their threshold, of {len(checks)}",
                better="lower",
            )
        },
        tables={"checks": table(pd.DataFrame(rows), title="What was checked")},
        abstentions=_unknown(known),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Number:
    value: float
    evidence: Mapping[str, str | int | float]


def _numbers(results: Mapping[str, Result]) -> dict[str, _Number]:
    """Return all metrics and findings of the other analyses, by ``analysis.metric``."""
    found: dict[str, _Number] = {}
    for name, result in results.items():
        for key, metric in result.metrics.items():
            found[f"{name}.{key}"] = _Number(value=metric.value, evidence={})
        for finding in result.findings:
            found[finding.metric] = _Number(value=finding.value, evidence=finding.evidence)
    return found


def _checks(known: Mapping[str, _Number]) -> list[_Check]:
    """Return the checks whose metric is known, without those that another one replaces."""
    checks = [check for check in _CHECKS if check.metric in known]
    # Where kernels were recorded, CPU time is mostly that of launching them.
    if "operators.top_self_device_share" in known:
        return [check for check in checks if check.metric != "operators.top_self_cpu_share"]
    return checks


def _row(
    metric: str,
    known: Mapping[str, _Number],
    limits: Mapping[str, float],
    over: Mapping[str, float],
) -> dict[str, str | float]:
    return {
        "metric": metric,
        "value_share": known[metric].value,
        "threshold_share": limits[metric],
        "over_threshold_ratio": over[metric],
        "verdict": "over" if over[metric] > 1 else "fine",
    }


def _over(value: float, limit: float) -> float:
    if limit > 0:
        return value / limit
    return math.inf if value > 0 else 0.0


def _worst_ranks(breakdown: Result) -> dict[str, dict[str, Any]]:
    """Return the rank with the largest value of each share of the breakdown."""
    if "shares" not in breakdown.tables:
        return {}
    shares = breakdown.tables["shares"]
    rows = [dict(zip(shares.columns, row, strict=True)) for row in shares.rows]
    ranks = [row for row in rows if row["rank"] != "all"]
    worst: dict[str, dict[str, Any]] = {}
    for name in shares.columns:
        known = [row for row in ranks if isinstance(row[name], float)]
        if name.endswith("_share") and known:
            row = max(known, key=lambda rank: float(rank[name] or 0))
            worst[f"breakdown.{name}"] = {"worst_rank": row["rank"], "worst_rank_share": row[name]}
    return worst


def _finding(
    check: _Check, number: _Number, over: float, worst: Mapping[str, Any], config: Config
) -> Finding:
    return Finding(
        severity=Severity.BAD if over >= config.bad_factor else Severity.WARN,
        message=check.says.format(value=f"{number.value:.0%}", **_operator(number)),
        metric=check.metric,
        value=number.value,
        unit="share",
        evidence={"threshold_share": getattr(config, check.setting), **number.evidence, **worst},
        advice=check.advice,
    )


def _operator(number: _Number) -> dict[str, str]:
    return {"operator": str(number.evidence.get("operator", ""))}


def _fine(checks: int) -> Finding:
    return Finding(
        severity=Severity.INFO,
        message=f"None of the {checks} numbers that are checked is over its threshold.",
        metric="bottlenecks.findings",
        value=0,
        unit="count",
    )


def _unknown(known: Mapping[str, _Number]) -> tuple[Abstention, ...]:
    known_settings = {check.setting for check in _CHECKS if check.metric in known}
    missing = dict.fromkeys(
        check.setting for check in _CHECKS if check.setting not in known_settings
    )
    if not missing:
        return ()
    return (
        Abstention(
            what=", ".join(missing).replace("_", " "),
            reason="the capture does not tell; see the analysis that each belongs to",
        ),
    )
