"""Memory fit: the largest batch of each way to shard that fits a card, from a sweep."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pandas as pd

from profkit.analyze._linear_fit import STRAIGHT
from profkit.analyze._peak_curves import (
    HELD,
    SOURCES,
    PeakCurve,
    Phases,
    fitted_peak,
    peaks_by_run,
)
from profkit.analyze.base import Behaviour, ByRun, ResultTables, analysis
from profkit.core.formatting import size
from profkit.core.hardware import Hardware
from profkit.core.result import Abstention, Chart, Finding, Metric, Result, Severity, table
from profkit.core.settings import Settings

_CURVED_SHARE = 0.05
_FAR = 4
_LOG_FROM = 50
# Where a peak that does not grow beyond the batches of the sweep is looked for.
_WHAT = "the largest batch that fits"
_TWO = "a line needs two (`batch=1,2,4`, and `${batch}` in the command of a script)"
_AS_FAR = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/memory_fit.yaml``."""

    card_bytes: int = 0
    """Memory of the card that batches shall fit; 0 takes that of ``hardware``."""

    usable_share: float = 0.9
    """Share of it for tensors; contexts of CUDA and NCCL and fragmentation take the rest."""

    confidence: float = 0.95
    """Probability that the peak of one more run lies in the interval that is shown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Mode:
    """Runs that differ in the batch alone, and the lines through their peaks."""

    name: str
    batches: tuple[int, ...]
    peaks_bytes: tuple[float, ...]
    curve: PeakCurve
    card_bytes: int

    def largest(self, limit: float, confidence: float) -> tuple[int, int, int]:
        """Return the largest batch for `limit` bytes, and the ends of its interval; -1: unknown.

        The first end is the batch that fits even if the peak is at the upper end. The other is -1
        as well where the peaks are so far off their line that they do not exclude any batch.
        """
        expected = self.curve.largest_below(limit)
        if math.isnan(self.curve.highest(expected).error):
            return expected, -1, -1
        surely = self.curve.largest_below(limit, confidence)
        perhaps = self.curve.largest_below(limit, confidence, side=-1)
        return expected, surely, perhaps

    def recommended(self, limit: float, confidence: float) -> int:
        """Return the largest batch that fits surely, or was measured and fits.

        It is the expected one where two batches alone do not tell how sure a line is.
        """
        expected, surely, _ = self.largest(limit, confidence)
        measured = zip(self.batches, self.peaks_bytes, strict=True)
        fitting = [batch for batch, peak in measured if peak <= limit]
        return expected if surely < 0 else max(surely, *fitting, 0)


@analysis(title="Batches that fit", across="runs")
def analyze(  # noqa: PLR0913, PLR0917 - what it reads
    memory_peak: Annotated[ByRun | None, ResultTables("phases peaks")],
    steps: Annotated[ByRun | None, ResultTables("phases")],
    memory_model: Annotated[ByRun | None, ResultTables("phases")],
    behaviour: dict[str, Behaviour],
    hardware: dict[str, Hardware],
    config: Config,
) -> Result:
    """Which batch just fits a card, for each way to shard?

    In runs that differ in nothing but the batch, the most that a phase of a step (forward,
    backward, optimizer) allocates lies on a line: what does not depend on the batch, and bytes
    per sample. The highest of these lines is the peak. The interval is that of a prediction from
    three batches or more (Student's t); it knows nothing of kernels or buckets that other sizes
    choose.
    """
    results = {
        "memory_peak": None if steps and _is_host(memory_peak) else memory_peak,
        "steps": steps,
        HELD: memory_model,
    }
    source, peaks = peaks_by_run(results)
    if not peaks:
        return Result.abstain(_WHAT, "no run has a peak of memory")
    modes, abstentions = _modes(peaks, behaviour, hardware, config)
    if not modes:
        return Result(abstentions=tuple(abstentions))
    limits = {mode.name: mode.card_bytes * config.usable_share for mode in modes}
    fits = pd.DataFrame([_fit(mode, limits[mode.name], config) for mode in modes])
    lines = _drawn(modes, limits, config)
    return Result(
        findings=tuple(_findings(modes, limits, hardware, config)),
        metrics=_metrics(fits),
        tables={
            "fits": table(
                fits, title="Largest batch by mode", note=f"Peaks are the {SOURCES[source][1]}."
            ),
            "lines": table(lines, title="Peak against batch, measured and extrapolated"),
        },
        charts=_charts(modes, lines),
        abstentions=(*abstentions, *_uncertain(modes), *_no_card(modes), *_between(source)),
    )


def _is_host(memory_peak: ByRun | None) -> bool:
    """Say whether peaks are of the host: a limit there is one of all that a process holds."""
    return any(
        str(row["device"]).startswith("cpu")
        for result in (memory_peak or {}).values()
        if "peaks" in result.tables
        for row in result.tables["peaks"].records()
    )


def _modes(
    peaks: Mapping[str, Phases],
    behaviour: Mapping[str, Behaviour],
    hardware: Mapping[str, Hardware],
    config: Config,
) -> tuple[list[Mode], list[Abstention]]:
    """Return the lines of the modes with two batches, and why others have none."""
    groups: dict[str, list[str]] = {}
    for run in peaks:
        same = {key: value for key, value in behaviour[run].items() if key != "batch"}
        groups.setdefault(json.dumps(same, sort_keys=True, default=str), []).append(run)
    names = _names([behaviour[runs[0]] for runs in groups.values()])
    modes, missing = [], []
    for name, runs in zip(names, groups.values(), strict=True):
        ordered = sorted(runs, key=lambda run: int(behaviour[run].get("batch", 0)))
        batches = tuple(int(behaviour[run].get("batch", 0)) for run in ordered)
        if len(set(batches)) < len(STRAIGHT):
            only = f"{batches[0]} is its only batch" if batches[0] else "its batch is not known"
            what = f"the largest batch of {name}" if len(groups) > 1 else _WHAT
            missing.append(Abstention(what=what, reason=f"{only}: {_TWO}"))
            continue
        phases = [peaks[run] for run in ordered]
        curve = fitted_peak(batches, phases)
        if curve.at(_AS_FAR * batches[-1]) <= curve.at(batches[-1]):
            reason = "its peak does not grow with the batch: something else fills the memory"
            missing.append(Abstention(what=f"the largest batch of {name}", reason=reason))
            continue
        card = config.card_bytes or hardware[ordered[0]].memory_bytes
        modes.append(
            Mode(
                name=name,
                batches=batches,
                peaks_bytes=tuple(max(peak.values()) for peak in phases),
                curve=curve,
                card_bytes=card,
            )
        )
    return modes, missing


def _names(behaviours: list[Behaviour]) -> list[str]:
    """Return a short name for each mode: how it shards, and what else distinguishes it."""
    words = [_sharding(behaviour) for behaviour in behaviours]
    for key in ("model", "workload", "precision", "compile", "world_size", "grad_accumulation"):
        values = [_word(behaviour.get(key)) for behaviour in behaviours]
        if len(set(values)) > 1:
            words = [f"{name} {key}={value}" for name, value in zip(words, values, strict=True)]
    twice = {name for name in words if words.count(name) > 1}
    return [f"{name} ({number})" if name in twice else name for number, name in enumerate(words, 1)]


def _sharding(behaviour: Behaviour) -> str:
    zero = dict(behaviour.get("zero") or {})
    name = str(zero.get("name", "(the program's own)"))
    backend = str(zero.get("backend", "")) if zero.get("stage") else ""
    offload = str(zero.get("offload", "none"))
    words = (f"zero={name}", backend, "" if offload == "none" else offload)
    return " ".join(word for word in words if word)


def _word(value: Any) -> str:
    return str(value.get("name", "")) if isinstance(value, dict) else str(value)


def _fit(mode: Mode, limit: float, config: Config) -> dict[str, str | int | float]:
    expected, surely, perhaps = mode.largest(limit, config.confidence) if limit else (-1, -1, -1)
    line = mode.curve.highest(max(expected, *mode.batches))
    fixed, per_sample = line.factors
    return {
        "mode": mode.name,
        "largest_batch": math.nan if expected < 0 else expected,
        "recommended_batch": mode.recommended(limit, config.confidence) if limit else math.nan,
        "surely_batch": math.nan if surely < 0 else surely,
        "perhaps_batch": math.nan if perhaps < 0 else perhaps,
        "limit_bytes": limit or math.nan,
        "fixed_bytes": fixed,
        "per_sample_bytes": per_sample,
        "measured_batches": ", ".join(map(str, mode.batches)),
        "off_the_line_share": line.worst_share,
    }


def _drawn(modes: list[Mode], limits: Mapping[str, float], config: Config) -> pd.DataFrame:
    """Return the points of the chart: peaks, lines with their intervals, and the card's limit."""
    rows: list[dict[str, str | float]] = []
    for mode in modes:
        limit = limits[mode.name]
        last = max(*mode.batches, mode.curve.largest_below(limit) if limit else 0)
        points = zip(mode.batches, mode.peaks_bytes, strict=True)
        rows += [{"series": mode.name, "batch": x, "peak_bytes": y} for x, y in points]
        for batch in np.unique(np.geomspace(min(mode.batches), last, 30).round()):
            at, margin = mode.curve.at(batch), mode.curve.margin(batch, config.confidence)
            shown = {f"{mode.name}, line": at}
            if not math.isnan(margin):
                shown |= {f"{mode.name}, at most": at + margin}
            rows += [
                {"series": name, "batch": float(batch), "peak_bytes": height}
                for name, height in shown.items()
            ]
    drawn = pd.DataFrame(rows)
    ends = drawn["batch"].min(), drawn["batch"].max()
    cards = [
        {"series": f"limit of {size(limit)}", "batch": end, "peak_bytes": limit}
        for limit in sorted(set(limits.values()) - {0.0})
        for end in ends
    ]
    return pd.concat([drawn, pd.DataFrame(cards)], ignore_index=True)


def _charts(modes: list[Mode], lines: pd.DataFrame) -> tuple[Chart, ...]:
    measured = {mode.name for mode in modes}
    others = tuple(name for name in dict.fromkeys(lines["series"]) if name not in measured)
    is_wide = lines["batch"].max() > _LOG_FROM * lines["batch"].min()
    charts = [
        Chart(
            kind="scatter",
            title="Peak against batch, with the line of each mode and the card's limit",
            table="lines",
            x="batch",
            y=("peak_bytes",),
            color="series",
            log=("x", "y") if is_wide else (),
            lines=others,
        )
    ]
    if any(mode.card_bytes for mode in modes):
        frontier = Chart(
            kind="bar",
            title="Largest batch that fits by mode",
            table="fits",
            x="mode",
            y=("recommended_batch",),
        )
        charts.append(frontier)
    return tuple(charts)


def _metrics(fits: pd.DataFrame) -> dict[str, Metric]:
    known = fits[fits["recommended_batch"].notna().to_numpy()]
    if known.empty:
        return {}
    return {
        "largest_batch": Metric(
            value=int(known["recommended_batch"].max()),
            unit="count",
            title="Largest batch that surely fits the card, of the mode with the largest",
            better="higher",
        )
    }


def _findings(
    modes: list[Mode],
    limits: Mapping[str, float],
    hardware: Mapping[str, Hardware],
    config: Config,
) -> Iterator[Finding]:
    names = {device.name for device in hardware.values()}
    card = names.pop() if len(names) == 1 and not config.card_bytes else "the card"
    for mode in modes:
        if not (limit := limits[mode.name]):
            continue
        expected, surely, perhaps = mode.largest(limit, config.confidence)
        best = mode.recommended(limit, config.confidence)
        ends = f"{surely:,} to {perhaps:,}" if perhaps >= 0 else f"{surely:,} or more"
        known = f" ({expected:,} expected, {config.confidence:.0%}: {ends})" if surely >= 0 else ""
        fixed, per_sample = mode.curve.highest(max(expected, *mode.batches)).factors
        far = expected > _FAR * max(mode.batches)
        yield Finding(
            severity=Severity.WARN if expected < max(mode.batches) else Severity.INFO,
            message=f"With {mode.name}, the largest batch for {size(limit)} of {card} is "
            f"{best:,}{known}, by {size(per_sample)} per sample and "
            f"{size(fixed)} without any"
            f"{', far beyond what was measured' if far else ''}.",
            metric="memory_fit.largest_batch",
            value=best,
            unit="count",
            evidence={"mode": mode.name, "measured": ", ".join(map(str, mode.batches))},
            advice=f"Measure a batch near {expected:,}: it may fit as well." if far else "",
        )


def _uncertain(modes: list[Mode]) -> Iterator[Abstention]:
    for mode in modes:
        line = mode.curve.highest(max(mode.batches))
        if math.isnan(line.error):
            reason = "two batches lie on a line whatever happens; a third shows how far off one is"
            yield Abstention(what=f"how sure the largest batch of {mode.name} is", reason=reason)
        if line.worst_share > _CURVED_SHARE:
            reason = (
                f"a peak lies {line.worst_share:.0%} off the line: memory does not grow "
                "evenly with the batch here"
            )
            yield Abstention(what=f"a line for {mode.name} that can be trusted", reason=reason)


def _between(source: str) -> tuple[Abstention, ...]:
    """Return what is missing in peaks that do not come from the allocator's history."""
    if source != HELD:
        return ()
    return (
        Abstention(
            what="the peak between the points of a step that were looked at",
            reason="temporaries of operators are not in what is held there, so that the largest "
            "batch may be smaller: +tool=memory_snapshot records the peak itself",
        ),
    )


def _no_card(modes: list[Mode]) -> Iterator[Abstention]:
    if names := [mode.name for mode in modes if not mode.card_bytes]:
        yield Abstention(
            what=f"the largest batch of {', '.join(names)}",
            reason="the memory of the card is not known: choose one, such as hardware=h100_sxm, or"
            " set analyses.memory_fit.card_bytes",
        )
