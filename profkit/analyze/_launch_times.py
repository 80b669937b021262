"""How long launches take by the name of their call: sums of many ranks, and all times in brief."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

_NARROW = np.iinfo(np.int32).max
_SUMS = ["launches", "kernels", "call_ns", "kernel_ns", "delay_ns", "shorter"]


@dataclass(slots=True)
class _Times:
    """The times of one call, in parts; half as large where they are small enough."""

    launching: list[NDArray[np.integer[Any]]] = field(default_factory=list)
    """Of each launch that does not hold the CPU."""

    held: list[NDArray[np.integer[Any]]] = field(default_factory=list)
    delays: list[NDArray[np.integer[Any]]] = field(default_factory=list)
    """Of each kernel."""


class LaunchTimes:
    """The launches of many ranks."""

    def __init__(self) -> None:
        self._sums: list[pd.DataFrame] = []
        self._times: defaultdict[str, _Times] = defaultdict(_Times)

    def add(self, known: pd.DataFrame) -> None:
        """Add the kernels of some ranks; ``once`` marks one of each call."""
        if known.empty:
            return
        groups = known.groupby("name")
        once = known[known["once"].to_numpy()].groupby("name")["call_ns"]
        found = groups[["kernel_ns", "delay_ns", "shorter"]].sum()
        found = found.assign(launches=once.size(), call_ns=once.sum(), kernels=groups.size())
        self._sums.append(found.assign(max_delay_ns=groups["delay_ns"].max()).reset_index())
        call_ns, delay_ns = (known[name].to_numpy(np.int64) for name in ("call_ns", "delay_ns"))
        is_once, is_held = (known[name].to_numpy(np.bool_) for name in ("once", "held"))
        positions: dict[Any, Any] = dict(groups.indices)
        for name, rows in positions.items():
            times = self._times[str(name)]
            first = rows[is_once[rows]]
            times.delays.append(_narrow(delay_ns[rows]))
            times.held.append(_narrow(call_ns[first[is_held[first]]]))
            times.launching.append(_narrow(call_ns[first[~is_held[first]]]))

    def by_call(self) -> pd.DataFrame:
        """Return one row per call, the one with most time first."""
        groups = pd.concat(self._sums).groupby("name")
        sums, latest = groups[_SUMS].sum(), groups["max_delay_ns"].max()
        times = [self._times[str(name)] for name in sums.index]
        found = pd.DataFrame(
            {
                "launches": sums["launches"],
                "kernels": sums["kernels"],
                "call_ns": sums["call_ns"],
                "mean_call_ns": sums["call_ns"] / sums["launches"],
                "median_call_ns": [_median([*one.launching, *one.held]) for one in times],
                "kernel_ns": sums["kernel_ns"],
                "mean_delay_ns": sums["delay_ns"] / sums["kernels"],
                "median_delay_ns": [_median(one.delays) for one in times],
                "max_delay_ns": latest,
                "shorter_share": sums["shorter"] / sums["kernels"],
            }
        )
        return found.reset_index().sort_values("call_ns", ascending=False, ignore_index=True)

    def median_call_ns(self) -> float:
        """Return the median time of a launch that does not hold the CPU; NaN without any."""
        return _median([part for one in self._times.values() for part in one.launching])

    def median_delay_ns(self) -> float:
        """Return the median time from the end of a launch to the start of its kernel."""
        return _median([part for one in self._times.values() for part in one.delays])

    def shorter_share(self) -> float:
        """Return the share of kernels that are shorter than their launch."""
        sums = pd.concat(self._sums)[["shorter", "kernels"]].sum()
        return float(sums["shorter"] / sums["kernels"])


def _narrow(values: NDArray[np.int64]) -> NDArray[np.integer[Any]]:
    return values.astype(np.int32) if (np.abs(values) <= _NARROW).all() else values


def _median(parts: list[NDArray[np.integer[Any]]]) -> float:
    values = np.concatenate(parts)
    return float(np.median(values, overwrite_input=True)) if len(values) else np.nan
