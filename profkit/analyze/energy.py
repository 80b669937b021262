"""Energy: joules per step, per sample and per phase, from the energy counters of GPUs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import PositiveInt

from profkit.analyze.base import ByTool, ByToolIfAny, analysis
from profkit.core.result import Abstention, Chart, Metric, Result, table
from profkit.core.settings import Settings

COUNTER = "energy_j"
"""Metric that counts joules since an arbitrary moment."""

_WHERE = ["rank", "repeat"]
_DEVICE = [*_WHERE, "device"]
_NS_PER_S = 1e9


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/energy.yaml``."""

    skip_first: int = 3
    """First steps left out, as long as others remain."""

    least_updates: PositiveInt = 10
    """Updates of the counter that an interval must span: the error is up to one of them."""

    max_rows: PositiveInt = 500
    """Rows kept of the table of single steps."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Meter:
    """The energy counter of one GPU, at the times at which a change of it was seen."""

    times_ns: NDArray[np.int64]
    joules: NDArray[np.float64]

    @property
    def update_ns(self) -> float:
        """Median time between changes in ns: the counter's own period, or that of the sampling."""
        return float(np.median(np.diff(self.times_ns)))

    def between(self, starts_ns: Any, ends_ns: Any) -> NDArray[np.float64]:
        """Return the joules of each interval, NaN where the counter was not read throughout."""
        # Relative to the first instant: a float cannot hold Unix time to the nanosecond.
        zero = self.times_ns[0]
        known = (self.times_ns - zero).astype(np.float64)
        edges = [
            np.interp(
                np.asarray(instants, dtype=np.int64) - zero,
                known,
                self.joules,
                left=np.nan,
                right=np.nan,
            )
            for instants in (starts_ns, ends_ns)
        ]
        spent: NDArray[np.float64] = edges[1] - edges[0]
        return spent


_CHARTS = (
    Chart(
        kind="line",
        title="Energy of each step",
        table="by_step",
        x="step",
        y=("energy_j",),
        color="rank",
    ),
)


@analysis(title="Energy")
def analyze(samples: ByTool, steps: ByTool, annotations: ByToolIfAny, config: Config) -> Result:
    """How much energy do each step, sample and phase take, as the GPUs themselves count it?

    The steps that count are taken together, from the beginning of the first to the end of the
    last: joules per step are that divided by their number, and over all ranks the sum. A counter
    is renewed only every 20 to 100 ms, so a shorter stretch has no energy of its own here. Between
    two updates power is taken to be even. Of ranks that share a GPU, each counts all of it.
    """
    tool = next((name for name, rows in samples.items() if _has_counter(rows)), "")
    if not tool:
        return Result.abstain("energy", _why_none(samples))
    windows = _counted(steps.get(tool, pd.DataFrame()), config.skip_first)
    meters = dict(_meters(samples[tool]))
    by_device = _by_device(windows, meters, config.least_updates)
    known = by_device[by_device["energy_j"].notna()]
    if known.empty:
        return Result(abstentions=tuple(_unknown(by_device, meters, config)))
    by_step = _by_step(windows, meters, config.least_updates)
    phases = (annotations or {}).get(tool, pd.DataFrame())
    by_phase = _by_phase(phases, windows, meters, config.least_updates)
    return Result(
        metrics=_metrics(known),
        tables={
            "by_device": table(
                by_device,
                title="Energy of the steps on each GPU",
                note=f"Energy, steps and power are those of the same run, captured with {tool}.",
            ),
            "by_phase": table(by_phase, title="Energy by phase, per step"),
            "by_step": table(by_step, title="Energy of each step", limit=config.max_rows),
        },
        charts=_CHARTS,
        abstentions=(
            *_unknown(by_device, meters, config),
            *_too_short("single steps", by_step, meters, config),
            *_too_short("phases", by_phase, meters, config),
        ),
    )


def _has_counter(rows: pd.DataFrame) -> bool:
    return bool((rows["metric"] == COUNTER).any())


def _why_none(samples: ByTool) -> str:
    if all(rows.empty for rows in samples.values()):
        return "nothing was sampled"
    return "no GPU that was sampled counts energy; NVIDIA's GPUs since Volta do, through NVML"


def _counted(steps: pd.DataFrame, skip_first: int) -> pd.DataFrame:
    if steps.empty:
        return steps
    kept = steps[(steps["step"] >= skip_first).to_numpy()]
    return kept if len(kept) else steps


def _meters(samples: pd.DataFrame) -> Iterator[tuple[tuple[int, int, str], _Meter]]:
    """Yield the counter of each rank, repeat and device that was seen to rise."""
    counted = samples[(samples["metric"] == COUNTER).to_numpy()].sort_values("time_ns")
    key: Any
    for key, rows in counted.groupby(_DEVICE, observed=True):
        rank, repeat, device = key
        joules = rows["value"].to_numpy()
        times_ns = rows["time_ns"].to_numpy(np.int64)
        # A counter starts again when the driver is loaded.
        changed = np.r_[True, np.diff(joules) != 0]
        is_rising = bool((np.diff(joules) >= 0).all())
        if is_rising and changed.sum() > 1:
            meter = _Meter(times_ns=times_ns[changed], joules=joules[changed])
            yield (int(rank), int(repeat), str(device)), meter


def _by_device(
    windows: pd.DataFrame, meters: Mapping[tuple[int, int, str], _Meter], least: int
) -> pd.DataFrame:
    """Return the energy of all counted steps on each device; NaN if it is unknown."""
    columns = [*_DEVICE, "steps", "samples", "energy_j", "mean_w", "per_step_j", "per_sample_j"]
    rows = []
    for (rank, repeat, device), meter in meters.items():
        own = _of(windows, rank, repeat)
        if own.empty:
            continue
        start, end = int(own["start_ns"].min()), int(own["end_ns"].max())
        spent = float(meter.between([start], [end])[0])
        joules = spent if end - start >= least * meter.update_ns else np.nan
        # -1 is unknown.
        count = int(own["samples"].sum()) if (own["samples"] >= 0).all() else -1
        numbers = [
            joules,
            joules / ((end - start) / _NS_PER_S) if end > start else np.nan,
            joules / len(own),
            joules / count if count > 0 else np.nan,
        ]
        rows.append([rank, repeat, device, len(own), count, *numbers])
    return pd.DataFrame(rows, columns=columns)


def _by_step(
    windows: pd.DataFrame, meters: Mapping[tuple[int, int, str], _Meter], least: int
) -> pd.DataFrame:
    """Return the energy of each step; NaN for those that are too short."""
    parts = [pd.DataFrame(columns=[*_DEVICE, "step", "step_time_ns", "energy_j"])]
    for (rank, repeat, device), meter in meters.items():
        own = _of(windows, rank, repeat)
        time_ns = (own["end_ns"] - own["start_ns"]).to_numpy()
        joules = meter.between(own["start_ns"], own["end_ns"])
        part = own[["rank", "repeat"]].assign(device=device, step=own["step"], step_time_ns=time_ns)
        part["energy_j"] = np.where(time_ns >= least * meter.update_ns, joules, np.nan)
        parts.append(part)
    return _without_empty(parts)


def _by_phase(
    annotations: pd.DataFrame,
    windows: pd.DataFrame,
    meters: Mapping[tuple[int, int, str], _Meter],
    least: int,
) -> pd.DataFrame:
    """Return the mean energy of each phase per step; NaN where it was too short once."""
    parts = [pd.DataFrame(columns=[*_DEVICE, "phase", "phase_time_ns", "energy_j"])]
    for (rank, repeat, device), meter in meters.items():
        own, steps = _of(annotations, rank, repeat), _of(windows, rank, repeat)
        if own.empty or steps.empty:
            continue
        own = own[own["step"].isin(steps["step"]).to_numpy()]
        time_ns = own["end_ns"] - own["start_ns"]
        joules = meter.between(own["start_ns"], own["end_ns"])
        long_enough = time_ns.to_numpy() >= least * meter.update_ns
        phases = pd.DataFrame(
            {
                "phase": own["name"].astype(object).to_numpy(),
                "phase_time_ns": time_ns.to_numpy() / len(steps),
                "energy_j": np.where(long_enough, joules, np.nan) / len(steps),
            }
        )
        # One phase that is too short leaves the sum unknown.
        sums = phases.groupby("phase", sort=False).agg(
            phase_time_ns=("phase_time_ns", "sum"),
            energy_j=("energy_j", lambda values: values.sum(skipna=False)),
        )
        parts.append(sums.reset_index().assign(rank=rank, repeat=repeat, device=device))
    return _without_empty(parts)


def _without_empty(parts: list[pd.DataFrame]) -> pd.DataFrame:
    """Join the parts that have rows, with the columns of the first part (an empty one)."""
    filled = [part for part in parts if len(part)]
    return pd.concat(filled, ignore_index=True)[list(parts[0])] if filled else parts[0]


def _of(rows: pd.DataFrame, rank: int, repeat: int) -> pd.DataFrame:
    if rows.empty:
        return rows
    return rows[((rows["rank"] == rank) & (rows["repeat"] == repeat)).to_numpy()]


def _all_ranks(known: pd.DataFrame) -> pd.DataFrame:
    """Return joules per step and per sample of all ranks together, by repeat."""
    grouped = known.groupby("repeat")
    per_step = grouped["per_step_j"].sum()
    samples = grouped["per_sample_j"].apply(lambda counts: counts.notna().all())
    per_sample = grouped["energy_j"].sum() / grouped["samples"].sum()
    return pd.DataFrame({"per_step_j": per_step, "per_sample_j": per_sample.where(samples)})


def _metrics(known: pd.DataFrame) -> dict[str, Metric]:
    titles = {"per_step_j": "Energy per step, all ranks", "per_sample_j": "Energy per sample"}
    by_repeat = _all_ranks(known)
    found = {}
    for name, title in titles.items():
        values = by_repeat[name].dropna()
        if len(values):
            found[name] = Metric(
                value=float(values.mean()),
                unit="j",
                title=title,
                better="lower",
                by_repeat={int(at): values.loc[at] for at in values.index},
            )
    return found


def _unknown(
    by_device: pd.DataFrame, meters: Mapping[tuple[int, int, str], _Meter], config: Config
) -> Iterator[Abstention]:
    """Yield the devices whose energy over all steps is unknown."""
    if by_device.empty:
        reason = "no step was marked while a counter was read, or none moved on"
        yield Abstention(what="energy of the steps", reason=reason)
        return
    row: Any
    for row in by_device[by_device["energy_j"].isna()].itertuples():
        meter = meters[row.rank, row.repeat, row.device]
        needed_s = config.least_updates * meter.update_ns / _NS_PER_S
        yield Abstention(
            what=f"energy of the steps of rank {row.rank}, repeat {row.repeat}",
            reason=f"the steps that count do not last {needed_s:.3g} s, {config.least_updates} "
            "updates of the counter, within the time that was sampled: run more steps",
        )


def _too_short(
    what: str,
    rows: pd.DataFrame,
    meters: Mapping[tuple[int, int, str], _Meter],
    config: Config,
) -> Iterator[Abstention]:
    if not rows.empty and rows["energy_j"].notna().all():
        return
    slowest_ms = max(meter.update_ns for meter in meters.values()) / 1e6
    reason = f"the counter moves every {slowest_ms:.3g} ms, and a stretch needs "
    reason += f"{config.least_updates} updates: some are shorter"
    if rows.empty:
        reason = "none was marked"
    yield Abstention(what=f"energy of {what}", reason=reason)
