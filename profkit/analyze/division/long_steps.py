"""Long steps: what the program does only in some steps, such as once an epoch."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.division import charges
from profkit.analyze.division.partition import spans_of
from profkit.analyze.division.recorded_rank import RecordedRank
from profkit.analyze.division.sampled_calls import IS_SELDOM
from profkit.analyze.division.thread_waits import queued_ns
from profkit.analyze.shared import intervals
from profkit.analyze.shared.calls_apart import CallApart, calls_apart
from profkit.analyze.shared.glob_match import named
from profkit.analyze.shared.intervals import Intervals
from profkit.patterns.base import CHARGED, Step
from profkit.patterns.collections_on_demand import BY_HAND
from profkit.tables.python_frames import is_foreign
from profkit.tables.tree_paths import SEPARATOR

_LONG = 1.5
_OF_OTHERS = 0.25
"""Of what a long step takes more than the median one: if its thread had no core for as long, or
waited for the collector, that made it long. It is about half where two threads want one core."""

_FEWEST = 4
_FEWEST_LOOKS = 2
_LEAST_SHARE = 0.08
_LOOKS_EXPECTED = 5
"""In the usual steps, at what they would do for the same share of their time: that none of these
sees it is no chance. Nor is it of what takes longer than such a step."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SampledSteps:
    """Steps after those that were traced, in which the thread was looked at all the same."""

    long: Intervals
    """Those that took far longer than the median."""

    usual: Intervals
    """All others."""

    @property
    def step(self) -> Step:
        """What patterns are told of them, all together."""
        spans = np.concatenate((self.long, self.usual))
        return Step(count=len(spans), ms=float((spans[:, 1] - spans[:, 0]).mean()) / 1e6)

    def each(self) -> Iterator[tuple[Intervals, Step]]:
        """Yield each long step, as its span and as what patterns know of it."""
        for span in self.long:
            yield span[None], Step(count=1, ms=float(span[1] - span[0]) / 1e6)


def sampled_steps(rank: RecordedRank, steps: pd.DataFrame) -> SampledSteps | None:
    """Return the `steps` after the trace of `rank`, None where none of them is long.

    Those that other work on the machine made long, or the collector, are left out. With a GPU the
    time of a step says when its launches ended, and is none of the GPU's.
    """
    spans = spans_of(steps)
    spans = spans[spans[:, 0] >= rank.windows[:, 1].max()]
    if not rank.is_sampled or len(rank.kernels) or len(spans) < _FEWEST:
        return None
    is_long = _are_long(spans)
    lasted = spans[:, 1] - spans[:, 0]
    stopped_ns = queued_ns(rank, spans) + intervals.overlap(spans, _collections(rank))
    is_kept = ~is_long | (stopped_ns < _OF_OTHERS * (lasted - np.median(lasted)))
    spans, is_long = spans[is_kept], is_long[is_kept]
    return SampledSteps(long=spans[is_long], usual=spans[~is_long]) if is_long.any() else None


def _collections(rank: RecordedRank) -> Intervals:
    """Return when the collector of garbage ran, as a union, but for where the program asked for it.

    It looks through what the profiler has left, too, and runs wherever the program happens to be.
    """
    rows, pauses = rank.samples.sort_values("time_ns", kind="stable"), spans_of(rank.pauses)
    if rows.empty:
        return intervals.union(pauses)
    # The collector has the program looked at when it begins.
    at = np.searchsorted(rows["time_ns"].to_numpy(np.int64), pauses[:, 0], side="right") - 1
    by_hand = named(rows["stack"], lambda stack: re.search(BY_HAND, stack) is not None)
    return intervals.union(pauses[~by_hand[at.clip(min=0)]])


def are_in_long_steps(samples: pd.DataFrame, steps: pd.DataFrame) -> NDArray[np.bool_]:
    """Tell which of the `samples` of all ranks lie in `steps` that took far longer than most."""
    found = np.zeros(len(samples), dtype=np.bool_)
    places = samples.groupby(["rank", "repeat"], observed=True).indices
    for where, of_where in steps.groupby(["rank", "repeat"], observed=True):
        spans = spans_of(of_where)
        mine = places.get(where, np.zeros(0, dtype=np.int64))
        times = samples["time_ns"].to_numpy(np.int64)[mine]
        instants = np.column_stack((times, times + 1))
        found[mine] = intervals.overlap(instants, spans[_are_long(spans)]) > 0
    return found


def _are_long(spans: Intervals) -> NDArray[np.bool_]:
    lasted = spans[:, 1] - spans[:, 0]
    return np.asarray(lasted > _LONG * np.median(lasted), dtype=np.bool_)


def calls_within(rank: RecordedRank, spans: Intervals) -> pd.DataFrame:
    """Return the Python calls in `spans`, charged with the time in which each was the innermost."""
    calls = rank.python.assign(**{CHARGED: charges.of_python(rank, spans)})
    return calls[intervals.overlap(spans_of(calls), spans) > 0]


@dataclass(frozen=True, kw_only=True, slots=True)
class SeldomCall:
    """What the program calls in long steps alone, and takes much of the time of all of them."""

    apart: CallApart
    steps: int
    """Number of the long steps in which it was seen."""
    of: Step
    """All steps, long and usual ones together."""


def seldom_calls(
    rank: RecordedRank, steps: SampledSteps, long: pd.DataFrame, usual: pd.DataFrame
) -> Iterator[SeldomCall]:
    """Yield what is called in long steps alone, from `calls_within` them and within usual ones.

    What each step has, as that of the optimizer, is none of it, however long it takes in some.
    """
    looks = rank.samples["stack"][rank.samples[IS_SELDOM]]
    times = rank.samples["time_ns"].to_numpy(np.int64)
    are_usual = intervals.overlap(np.column_stack((times, times + 1)), steps.usual) > 0
    stacks = _stacks(long)
    spent_ns = long[CHARGED].groupby(stacks).sum()
    elsewhere = usual[CHARGED].groupby(_stacks(usual)).sum()
    least_ns = _LEAST_SHARE * steps.step.ms * 1e6 * steps.step.count
    innermost = spans_of(long)
    usual_ns = np.median(np.diff(steps.usual))
    for one in calls_apart(spent_ns, elsewhere):
        is_seen = np.isin(stacks, [*one.stacks]) & (long[CHARGED] > 0).to_numpy()
        count = (intervals.overlap(steps.long, intervals.union(innermost[is_seen])) > 0).sum()
        may_be_chance = (
            one.share * are_usual.sum() < _LOOKS_EXPECTED and one.spent_ns < usual_ns * count
        )
        if one.is_phase or may_be_chance or is_foreign(one.place):
            continue
        if one.spent_ns >= least_ns and looks.isin(one.stacks).sum() >= _FEWEST_LOOKS:
            yield SeldomCall(apart=one, steps=int(count), of=steps.step)


def _stacks(calls: pd.DataFrame) -> NDArray[np.object_]:
    """Return the stack of each call, from the outermost frame, which comes before it."""
    found = {-1: ""}
    for call, caller, name in zip(*(calls[key] for key in ("call", "caller", "name")), strict=True):
        around = found.get(caller, "")
        found[call] = f"{around}{SEPARATOR}{name}" if around else str(name)
    return np.array([found[call] for call in calls["call"]], dtype=object)
