"""What if a cause took less: the step time that is left, by the causes of one run.

A rank that waits for others has that time to spare, so a step lasts as long as the rank needs that
has most to do. Less work for a GPU gains only until the CPU that launches it is the limit. What an
operator takes as the first to use memory, the next one takes without it: that is not gained.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.division import gpu, names
from profkit.analyze.shared.paired import half_width
from profkit.core.result import Result

_WAITING = f"{gpu.EXPOSED}.waiting"
_ON_GPU = (gpu.COMPUTING, gpu.EXPOSED, "exposed_copies", "exposed_sets")
PARTS = ("cause", "operator", "kernel")
_MS = 1e6
_CONFIDENCE = 0.95
_MOST_OF_A_CALL_MS = 5e-3
_STEPS_OF_A_CALL = 11

Times = NDArray[np.float64]
"""Milliseconds per step: of each part, or a row for each repeat and a column for each rank."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Prediction:
    """The time of a step if causes took less."""

    step_ms: float
    """Time of a step now: without a profiler where it was timed so, as traced otherwise."""

    predicted_ms: float
    """The share of the traced step that is left, of `step_ms`: of the median step where that is
    the median, and of their mean otherwise."""

    low_ms: float
    """All of the causes' exposed time is gained, which is the gain that the verdict gives, first
    uses of memory as well, and none of it is the profiler's; steps and repeats vary."""

    high_ms: float
    """The least gain: the CPU has time to spare only where it is blocked in a call, the profiler
    made the causes look longer, few steps have them, and steps and repeats vary."""

    gained_share: float
    """What is gained of all steps together; the median step gains less of a cause in few steps."""

    @property
    def gain_ms(self) -> float:
        """What is gained per step."""
        return self.step_ms - self.predicted_ms


class Step:
    """The causes of a step on all ranks, from the result of the analysis ``causes``."""

    def __init__(self, causes: Result) -> None:
        parts, ranks = (causes.tables[name] for name in ("parts", "ranks"))
        self._rows = pd.DataFrame(parts.rows, columns=list(parts.columns))
        self._ranks = pd.DataFrame(ranks.rows, columns=list(ranks.columns)).set_index("rank")
        self._by_step = pd.DataFrame(columns=["rank", "step_time_ns"])
        if (steps := causes.tables.get("by_step")) is not None:
            by_step = pd.DataFrame(steps.rows, columns=list(steps.columns))
            self._by_step = by_step[by_step["rank"].isin(self._ranks.index[self._decides])]
        levels = zip(*(self._rows[level] for level in PARTS), strict=True)
        self._ids = [list(_ids(*of_row)) for of_row in levels]
        cause = self._rows["cause"].astype(str)
        self._waits = (cause == _WAITING).to_numpy()
        self._on_gpu = cause.str.partition(".")[0].isin(_ON_GPU).to_numpy() & ~self._waits
        self._on_cpu = ~self._on_gpu & ~self._waits

    @property
    def times(self) -> dict[str, float]:
        """Exposed ms per step of each cause and of what it consists of; the first has most.

        Of the rank that decides this is the gain that the verdict gives; of the one with most to
        do, for which others wait, it is what they would wait less.
        """
        traced = self._rows["ms_per_step"].to_numpy(np.float64)
        busy = self._of_ranks(traced * ~self._waits).mean(axis=0)
        found: dict[str, float] = {}
        for rank in (self._ranks.index[self._decides], self._ranks.index[[busy.argmax()]]):
            of_rank = self._rows["rank"].isin(rank).to_numpy()
            for name, time in self._times(traced * of_rank).items():
                found[name] = max(time, found.get(name, 0.0))
        return dict(sorted(found.items(), key=lambda pair: -pair[1]))

    def _times(self, ms_per_step: Times) -> dict[str, float]:
        repeats = max(self._rows["repeat"].nunique(), 1)
        sums: dict[str, float] = {}
        for ids, time in zip(self._ids, ms_per_step.tolist(), strict=True):
            for name in ids:
                sums[name] = sums.get(name, 0.0) + time / repeats
        return sums

    def without(
        self,
        less: Mapping[str, float],
        unprofiled_ms: float | None = None,
        repeats_ms: Sequence[float] = (),
        *,
        is_mean: bool = False,
    ) -> Prediction:
        """Predict the step time if these shares of causes, 0 to 1, were gone.

        A cause of which parts are given as well counts once, with the larger share. Predicted is
        the median of steps without a profiler if it is given, or their mean if it `is_mean`, or
        else the mean of traced ones; `repeats_ms` are those of its repeats.
        """
        share = np.array([max(less.get(name, 0.0) for name in ids) for ids in self._ids])
        traced = self._rows["ms_per_step"].to_numpy(np.float64)
        first = self._rows["first_use_ms_per_step"].to_numpy(np.float64)
        gone = share * (1 - np.divide(first, traced, out=np.zeros_like(first), where=traced > 0))
        time = self._without_profiler(traced, unprofiled_ms)
        step_ms = self._mean_ms(traced) if unprofiled_ms is None else unprofiled_ms
        # The profiler, and what else the machine did meanwhile, made all causes longer or shorter.
        scale = step_ms / self._mean_ms(time)
        gains, _, _ = self._gains(time, gone)
        mean_gain = float(gains.mean()) * scale
        is_median = unprofiled_ms is not None and not is_mean
        of_median, *others = self._of_median(time * gone) if is_median else [1.0]
        gain = min(mean_gain * of_median, step_ms)
        # They may have made each longer by its share, or others alone, or only the calls in these;
        # first uses may go as well.
        inside = self._longer_alone(traced, share, step_ms)
        by_share = step_ms / self._mean_ms(traced)
        ways = [
            [float(way.mean()) * factor for way in self._gains(of, less_of)]
            for of, factor in ((time, scale), (traced, by_share), (traced, 1.0), (inside, 1.0))
            for less_of in (gone, share)
        ]
        spread = self._spread_ms(gains)
        sure = min(least for _, least, _ in ways) * max(min(1.0, of_median, *others), 0.0) - spread
        most = max(map(max, ways)) * max(1.0, of_median, *others) + spread
        # Of the step as it is, and of the one that will be: as many repeats of both.
        noise = math.sqrt(2) * _half_width(repeats_ms)
        more, fewer = max(most - gain, 0.0), gain - min(max(sure, 0.0), gain)
        return Prediction(
            step_ms=step_ms,
            predicted_ms=step_ms - gain,
            low_ms=max(step_ms - gain - math.hypot(more, noise), 0.0),
            high_ms=step_ms - gain + math.hypot(fewer, noise),
            gained_share=mean_gain / step_ms if step_ms else 0.0,
        )

    def _gains(self, time: Times, share: Times) -> tuple[Times, Times, Times]:
        """Return what is gained by repeat if a `share` of the `time` of each row is gone.

        Next the least, as the CPU has time to spare only where it is blocked in a call, and all of
        the time that was exposed.
        """
        of_gpu, of_cpu = (self._of_ranks(time * share * of) for of in (self._on_gpu, self._on_cpu))
        waited = self._of_ranks(time * share * self._waits)[:, self._decides].mean(axis=1)
        busy = self._of_ranks(time * ~self._waits)
        gains, least = (
            busy.max(axis=1) - (left - of_cpu).max(axis=1) + waited
            for left in (
                np.where(of_gpu > 0, np.maximum(busy - of_gpu, np.minimum(busy, launching)), busy)
                for launching in (self._ms("launching_least_ns"), self._ms("launching_most_ns"))
            )
        )
        return gains, least, (of_gpu + of_cpu)[:, self._decides].mean(axis=1) + waited

    def _without_profiler(self, traced: Times, unprofiled_ms: float | None) -> Times:
        """Return the time of each row, less what a traced step takes longer.

        First it is what the profiler took to record calls: a sleep is not longer with it, and a
        step of many short operators is. What is left is in one of the causes that are long enough
        to hold it, such as copies that fetch new memory as the profiler keeps what was there.
        """
        longer = self._mean_ms(traced) - (unprofiled_ms or math.inf)
        if longer <= 0:
            return traced
        calls = np.where(self._on_cpu, self._rows["calls_per_step"].to_numpy(np.float64), 0.0)
        a_call = np.linspace(0.0, _MOST_OF_A_CALL_MS, _STEPS_OF_A_CALL)
        recording = [self._mean_ms(np.minimum(calls * ms, traced)) for ms in a_call]
        left = np.maximum(traced - calls * np.interp(longer, recording, a_call), 0.0)
        longer = self._mean_ms(left) - (unprofiled_ms or 0.0)
        return self._shorter(left, longer)

    def _shorter(self, time: Times, less: float) -> Times:
        """Return the `time` of each row, with `less` in all in the causes that are that long."""
        part = self._rows["cause"].astype(str) + "." + self._rows["operator"].astype(str)
        of_part = {name: self._mean_ms(time * (part == name).to_numpy()) for name in part.unique()}
        can_hold = part.map(of_part).to_numpy() >= less
        own = self._mean_ms(time * can_hold)
        return time * (1 - np.where(can_hold, less / own, 0.0)) if own else time

    def _longer_alone(self, traced: Times, share: Times, step_ms: float) -> Times:
        """Return the times if all that a traced step takes longer were in calls that are gone.

        As where a profiler that keeps memory leaves them to fetch new memory each time.
        """
        calls = self._rows["calls_per_step"].to_numpy(np.float64)
        inside = self._on_cpu & (share > 0) & (calls > 0)
        own, longer = self._mean_ms(traced * inside), self._mean_ms(traced) - step_ms
        return np.where(inside, traced * (1 - min(longer / own, 1.0)), traced) if own else traced

    def _mean_ms(self, values: Times) -> float:
        """Return the sum of a value of each row, of the rank that decides, over the repeats."""
        return float(self._of_ranks(values)[:, self._decides].mean())

    def _of_median(self, gone: NDArray[np.float64]) -> list[float]:
        """Return the gain of the median step over that of the mean one.

        `gone` is what each row loses. In which steps a cause has a part is not known: first as if
        it were the same share in each, then as if in the longest first, then as if in those last.
        """
        of_rank = self._rows["rank"].isin(self._ranks.index[self._decides])
        sums = self._rows.assign(gone=gone)[of_rank].groupby("cause")[["ms_per_step", "gone"]].sum()
        sums = sums[sums["gone"] > 0]
        if self._by_step.empty or sums.empty:
            return [1.0]
        times = self._by_step[[f"{cause}_ns" for cause in sums.index]].to_numpy(np.float64)
        if not times.any():
            return [1.0]
        steps = self._by_step["step_time_ns"].to_numpy(np.float64)
        less = times.sum(axis=0) * (sums["gone"] / sums["ms_per_step"]).to_numpy()
        usual = np.minimum(times, np.median(times, axis=0))
        ways = (times, times), (times - usual, usual), (usual, times - usual)
        gains = [_filled(less, first, then) for first, then in ways]
        return [
            float((1 - np.median(steps - gain) / np.median(steps)) * steps.mean() / gain.mean())
            for gain in gains
        ]

    def _spread_ms(self, gains: Times) -> float:
        """Return half the width of the interval of a mean: over repeats, or over steps of one."""
        steps_ms = self._by_step["step_time_ns"].to_numpy(np.float64) / _MS
        return _half_width(gains if len(gains) > 1 else steps_ms)

    @property
    def _decides(self) -> NDArray[np.bool_]:
        """Whether each rank is the one whose causes the verdict tells."""
        return (self._ranks["decisive"] == "true").to_numpy()

    def _of_ranks(self, values: Times) -> Times:
        """Return the sums of a value of each row, by repeat and rank."""
        rows = self._rows.assign(value=values)
        sums = rows.pivot_table("value", "repeat", "rank", aggfunc="sum", fill_value=0.0)
        return sums.reindex(columns=self._ranks.index, fill_value=0.0).to_numpy(np.float64)

    def _ms(self, column: str) -> Times:
        """Return a time of each rank in ms."""
        times: Times = self._ranks[column].to_numpy(np.float64) / _MS
        return times


def _half_width(values: Times | Sequence[float]) -> float:
    """Return half the width of the interval of a mean; 0 for fewer than two values."""
    return float(half_width(np.asarray(values), _CONFIDENCE)) if len(values) > 1 else 0.0


def _filled(amounts: Times, first: Times, then: Times) -> Times:
    """Return the sum in each row if these amounts of each column lie in `first` if they can."""
    room, more = first.sum(axis=0), then.sum(axis=0)
    here = np.minimum(amounts, room)
    shares = [
        np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)
        for part, whole in ((here, room), (amounts - here, more))
    ]
    filled: Times = first @ shares[0] + then @ shares[1]
    return filled


def _ids(cause: str, *parts: str) -> Iterator[str]:
    """Yield the ids of a cause and of all above it, then those of what it consists of."""
    yield from names.parts_of(cause)
    path = cause
    for part in parts:
        if part:
            path = f"{path}.{part.replace('.', '_')}"
            yield path
