"""What if a cause took less: the step time that is left, by the causes of one run.

A rank that waits for others has that time to spare, so a step lasts as long as the rank needs that
has most to do. Less work for a GPU gains only until the CPU that launches it is the limit.
"""

from collections.abc import Iterator, Mapping
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

Times = NDArray[np.float64]
"""Milliseconds per step, a row for each repeat and a column for each rank."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Prediction:
    """The time of a step if causes took less."""

    step_ms: float
    """Time of a step now: without a profiler where it was timed so, as traced otherwise."""

    predicted_ms: float
    """The share of the traced step that is left, of `step_ms`."""

    low_ms: float
    """All of the causes' exposed time is gained, which is the gain that the verdict gives, and some
    more where steps or repeats vary, or are longer without the profiler."""

    high_ms: float
    """The least gain: the CPU has time to spare only where it is blocked in a call, the profiler
    made the causes look longer, and steps or repeats vary."""

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
        self._steps_ms = np.empty(0)
        if (steps := causes.tables.get("by_step")) is not None:
            by_step = pd.DataFrame(steps.rows, columns=list(steps.columns))
            of_rank = by_step["rank"].isin(self._ranks.index[self._decides])
            self._steps_ms = by_step["step_time_ns"].to_numpy(np.float64)[of_rank] / _MS
        levels = zip(*(self._rows[level] for level in PARTS), strict=True)
        self._ids = [list(_ids(*of_row)) for of_row in levels]

    @property
    def times(self) -> dict[str, float]:
        """Exposed ms per step of each cause and of what it consists of, on the rank that decides.

        The first has most; this is the gain that the verdict gives.
        """
        decides = self._rows["rank"].isin(self._ranks.index[self._decides]).to_numpy()
        repeats = max(self._rows["repeat"].nunique(), 1)
        sums: dict[str, float] = {}
        for ids, time, counts in zip(self._ids, self._rows["ms_per_step"], decides, strict=True):
            for name in ids:
                sums[name] = sums.get(name, 0.0) + float(time) * bool(counts) / repeats
        return dict(sorted(sums.items(), key=lambda pair: -pair[1]))

    def without(self, less: Mapping[str, float], unprofiled_ms: float | None = None) -> Prediction:
        """Predict the step time if these shares of causes, 0 to 1, were gone.

        A cause of which parts are given as well counts once, with the larger share.
        """
        share = np.array([max(less.get(name, 0.0) for name in ids) for ids in self._ids])
        time = self._rows["ms_per_step"].to_numpy(np.float64)
        cause = self._rows["cause"].astype(str)
        waits = (cause == _WAITING).to_numpy()
        on_gpu = cause.str.partition(".")[0].isin(_ON_GPU).to_numpy() & ~waits
        of_gpu, of_cpu = (self._of_ranks(time * share * of) for of in (on_gpu, ~on_gpu & ~waits))
        waited = self._of_ranks(time * share * waits)[:, self._decides].mean(axis=1)
        busy = self._of_ranks(time * ~waits)
        least_left, most_left = (
            np.where(of_gpu > 0, np.maximum(busy - of_gpu, np.minimum(busy, launching)), busy)
            for launching in (self._ms("launching_least_ns"), self._ms("launching_most_ns"))
        )
        gains, least = (
            busy.max(axis=1) - (after - of_cpu).max(axis=1) + waited
            for after in (least_left, most_left)
        )
        traced_ms = float(self._of_ranks(time)[:, self._decides].mean())
        step_ms = traced_ms if unprofiled_ms is None else unprofiled_ms
        # The profiler, and what else the machine did meanwhile, made all causes longer or shorter.
        scale = step_ms / traced_ms
        exposed = (of_gpu + of_cpu)[:, self._decides].mean()
        gain = float(gains.mean()) * scale
        # What is not known better than the time of a step itself.
        spread = self._spread_ms(gains)
        sure = float(least.mean()) * min(1.0, scale) - spread
        most = max(float(gains.mean()), float(exposed + waited.mean())) * max(1.0, scale) + spread
        return Prediction(
            step_ms=step_ms,
            predicted_ms=step_ms - gain,
            low_ms=max(step_ms - most, 0.0),
            high_ms=step_ms - min(max(sure, 0.0), gain),
        )

    def _spread_ms(self, gains: Times) -> float:
        """Return half the width of the interval of a mean: over repeats, or over steps of one."""
        values = gains if len(gains) > 1 else self._steps_ms
        return float(half_width(values, _CONFIDENCE)) if len(values) > 1 else 0.0

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


def _ids(cause: str, *parts: str) -> Iterator[str]:
    """Yield the ids of a cause and of all above it, then those of what it consists of."""
    yield from names.parts_of(cause)
    path = cause
    for part in parts:
        if part:
            path = f"{path}.{part.replace('.', '_')}"
            yield path
