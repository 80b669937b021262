"""The same communication call on every rank: when each rank came to it, on one clock.

In an all-reduce, all-gather, reduce-scatter, all-to-all or barrier no rank is done before the last
rank has come, and all are done at about the same time. So the ends put the clocks of the ranks
side by side, and what a rank spent in the call before the last one came was waiting.

An all-to-all is made of sends and receives: a rank is done once it has what others sent to it, so
that some may be done long before others, and those ends that do not coincide say nothing of clocks.
In a broadcast or a reduce data goes one way: who sends may be done before others come, and who
came later than a rank was done did not keep it waiting.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

_ONE_WAY = ("broadcast", "reduce")
_EXCHANGES = ("alltoall", *_ONE_WAY)
"""Operations whose ends need not coincide."""
MATCHED_OPERATIONS = ("allreduce", "allgather", "reduce_scatter", "barrier", *_EXCHANGES)
"""Operations in which ranks wait for each other."""
UNMATCHED = "sends and receives are not matched with one another"
"""Why nothing is known of how ranks wait that communicate in no other way."""

_WHERE = ["repeat", "rank"]
_CALL = ["repeat", "kind", "within", "sequence", "group", "group_ranks", "operation"]
MATCHED_COLUMNS = (
    *("repeat", "rank", "step", "start_ns", "end_ns"),
    *("kind", "operation", "sequence", "group", "group_ranks", "group_size"),
    *("size_bytes", "dtype"),
)
"""Columns of `collectives` that are needed to match them."""

_ROUNDS = 50
_SETTLED_NS = 1.0
_TELLING = 1 / 3
"""Part of the calls of a rank whose ends coincide, from which on these tell of its clock."""
_CALLS_OF_STEP = ["repeat", "rank", "step", "kind", "group", "group_ranks", "operation"]
_ALIKE = ["repeat", "operation", "group", "group_ranks", "size_bytes", "dtype"]


@dataclass(frozen=True, kw_only=True, slots=True)
class MatchedCollectives:
    """Calls that several ranks made together."""

    rows: pd.DataFrame
    """Rows of `collectives` with their `meeting`, how many `ranks` came, `arrival_ns` on the common
    clock, `wait_ns` and `transfer_ns` (which sum to the call's time), and who was `last`."""

    clocks: pd.DataFrame
    """For each repeat and rank `offset_ns`, which its clock is ahead, and `residual_ns`: the median
    distance of its ends, so corrected, from those of the others, where these can coincide."""

    unmatched: int
    """Calls of these operations that have no counterpart on other ranks."""


def matched_collectives(collectives: pd.DataFrame) -> MatchedCollectives:
    """Match calls of an operation and group that have one number, or are the k-th in one step."""
    calls = collectives[collectives["operation"].isin(MATCHED_OPERATIONS).to_numpy()]
    calls = calls.sort_values([*_WHERE, "start_ns"], kind="stable", ignore_index=True)
    if calls.empty:
        return _without_calls(calls)
    matched = _matched(calls)
    rows, clocks = _aligned(matched)
    return MatchedCollectives(
        rows=_waited(rows), clocks=clocks, unmatched=len(calls) - len(matched)
    )


def _without_calls(none: pd.DataFrame) -> MatchedCollectives:
    """Return what all that follows makes of no calls, which most traces of one rank have."""
    ints, floats = np.zeros(0, np.int64), np.zeros(0, np.float64)
    added = dict.fromkeys(("ranks", "meeting", "arrival_ns", "offset_ns", "wait_ns"), ints)
    rows = none.assign(**added, transfer_ns=ints, last=np.zeros(0, np.bool_))
    clocks = none[_WHERE].assign(offset_ns=ints, residual_ns=floats)
    return MatchedCollectives(rows=rows, clocks=clocks, unmatched=0)


def _matched(calls: pd.DataFrame) -> pd.DataFrame:
    """Return the calls that all ranks concerned made equally often, numbered by `meeting`."""
    # A number identifies a call, whatever the steps around it, or how many were recorded.
    numbered = (calls["sequence"] >= 0).to_numpy()
    calls = calls.assign(within=np.where(numbered, -1, calls["step"]))
    order = calls.groupby([*_CALL, "rank"], observed=True, dropna=False).cumcount()
    counts = calls.groupby([*_CALL, "rank"], observed=True).size().rename("calls").reset_index()
    by_call = counts.groupby(_CALL, observed=True)["calls"]
    alike = by_call.agg(ranks="size", fewest="min", most="max").reset_index()
    all_ranks = calls.groupby("repeat")["rank"].nunique()
    rows = calls.assign(order=order).merge(alike, on=_CALL, how="left")
    # Without the group's name, calls of several groups could be mixed up: all ranks must agree.
    of_all = (rows["group"].astype(object) != "") | (rows["ranks"] == rows["repeat"].map(all_ranks))
    fits = (rows["group_size"] < 0) | (rows["ranks"] <= rows["group_size"])
    kept = rows[(rows["fewest"] == rows["most"]) & (rows["ranks"] > 1) & of_all & fits]
    number = kept.groupby([*_CALL, "order"], observed=True).ngroup()
    met = kept.assign(meeting=number).drop(columns=["within", "order", "fewest", "most"])
    return met.reset_index(drop=True)


def _aligned(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return `rows` with the `arrival_ns` on the common clock, and the clocks."""
    clock = np.asarray(rows.groupby(_WHERE, observed=True).ngroup(), dtype=np.int64)
    # Relative to the first, floats hold whole ns for 100 days.
    origin = rows["start_ns"].min() if len(rows) else 0
    end = (rows["end_ns"] - origin).to_numpy(np.float64)
    meeting = rows["meeting"].to_numpy(np.int64)
    telling = ~_are_one_way(rows)
    if len(np.unique(clock[telling])) < len(np.unique(clock)):
        telling[:] = True
    offset = _offsets(end[telling], meeting[telling], clock[telling])
    clocks = rows[_WHERE].drop_duplicates().sort_values(_WHERE, ignore_index=True)
    # The lowest rank of each repeat shows the common clock.
    lowest = clocks.index.to_series().groupby(clocks["repeat"]).transform("min")
    offset -= offset[lowest.to_numpy(np.int64)]
    late = end - offset[clock]
    distance = np.abs(late - _median(late, meeting))
    shift = np.rint(offset).astype(np.int64)
    clocks["offset_ns"] = shift
    rows = rows.assign(arrival_ns=rows["start_ns"] - shift[clock], offset_ns=shift[clock])
    clocks["residual_ns"] = _residuals(distance, _are_apart(rows) | ~telling, clock)
    return rows, clocks


def _residuals(
    distance: NDArray[np.float64], apart: NDArray[np.bool_], clock: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the median `distance` of the ends of each clock from those of the others.

    Without those that are `apart` in any case, unless hardly any others are left.
    """
    found: pd.Series[float] = pd.Series(distance)
    by_clock = found.mask(apart).groupby(clock)
    is_enough = by_clock.count() >= _TELLING * by_clock.size()
    medians = by_clock.median().where(is_enough, found.groupby(clock).median())
    return np.asarray(medians, dtype=np.float64)


def _are_apart(rows: pd.DataFrame) -> NDArray[np.bool_]:
    """Tell which `rows` are of exchanges whose ends are further apart than an exchange takes."""
    duration = rows["end_ns"] - rows["start_ns"]
    ends = (rows["arrival_ns"] + duration).groupby(rows["meeting"])
    spread = ends.transform("max") - ends.transform("min")
    is_exchange = rows["operation"].isin(_EXCHANGES)
    return (is_exchange & (spread > _fastest(rows))).to_numpy(np.bool_)


def _are_one_way(rows: pd.DataFrame) -> NDArray[np.bool_]:
    return rows["operation"].isin(_ONE_WAY).to_numpy(np.bool_)


def _fastest(rows: pd.DataFrame) -> "pd.Series[int]":
    """Return the time of the fastest call of the kind and size of each, in ns.

    Of unknown size those are alike that come at the same place of their steps. Where data goes one
    way, a call takes until all are done, from when the last rank has come.
    """
    took = (rows["end_ns"] - rows["start_ns"]).to_numpy(np.int64, copy=True)
    if (one_way := _are_one_way(rows)).any():
        meeting, come = (rows[name][one_way] for name in ("meeting", "arrival_ns"))
        done = (come + took[one_way]).groupby(meeting).transform("max")
        took[one_way] = done - come.groupby(meeting).transform("max")
    keys = [*(rows[name] for name in _ALIKE), _places(rows)]
    return pd.Series(took, rows.index).groupby(keys, observed=True).transform("min")


def _places(rows: pd.DataFrame) -> NDArray[np.int64]:
    """Return which call of its step each is where its size is unknown, and -1 elsewhere."""
    place = np.full(len(rows), -1, dtype=np.int64)
    if (unknown := (rows["size_bytes"] < 0).to_numpy(np.bool_)).any():
        calls = rows[unknown].groupby(_CALLS_OF_STEP, observed=True)
        place[unknown] = calls.cumcount().to_numpy(np.int64)
    return place


def _offsets(
    end: NDArray[np.float64], meeting: NDArray[np.int64], clock: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return how far each clock is ahead: medians of medians until they no longer move."""
    offset = _reached(end, meeting, clock)
    for _ in range(_ROUNDS if len(clock) else 0):
        left = end - offset[clock]
        left -= _median(left, meeting)
        change = pd.Series(left).groupby(clock).median().to_numpy(np.float64)
        offset += change
        if np.abs(change).max() < _SETTLED_NS:
            break
    return offset


def _reached(
    end: NDArray[np.float64], meeting: NDArray[np.int64], clock: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return a first guess of the offsets, from one clock to those it meets, and on from these.

    Clocks that no chain of matched collectives connects with the first begin anew at 0.
    """
    offset = np.full(clock.max() + 1 if len(clock) else 0, np.nan)
    while (unknown := np.isnan(offset)).any():
        common = _median(end - offset[clock], meeting)
        found = pd.Series(end - common).groupby(clock).median().to_numpy(np.float64)
        new = unknown & ~np.isnan(found)
        offset[new] = found[new]
        if not new.any():
            offset[np.flatnonzero(unknown)[0]] = 0.0
    return offset


def _median(values: NDArray[np.float64], groups: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return for each value the median of its group."""
    medians: pd.Series[float] = pd.Series(values).groupby(groups).transform("median")
    return np.asarray(medians, dtype=np.float64)


def _waited(rows: pd.DataFrame) -> pd.DataFrame:
    """Return `rows` with the time until the last rank came, and the time after.

    Where the ends of an exchange do not coincide, a rank went on waiting after the last one had
    come: all but the time of the fastest of its kind and size was waiting, as long as another one
    was not done. Where data goes one way, the last rank that counts for another one is the last
    that came before that one was done.
    """
    by_meeting = rows.groupby("meeting")["arrival_ns"]
    latest = by_meeting.transform("max").to_numpy(np.int64, copy=True)
    duration = rows["end_ns"] - rows["start_ns"]
    if (one_way := _are_one_way(rows)).any():
        latest[one_way] = _latest_before_end(rows[one_way])
    transfer = duration - np.minimum(latest - rows["arrival_ns"], duration)
    if (apart := _are_apart(rows)).any():
        alone = duration - np.maximum(latest, _others_end(rows)) + rows["arrival_ns"]
        transfer = transfer.mask(apart, np.minimum(transfer, _fastest(rows)).clip(lower=alone))
    # Of equals, the one of the lowest rank.
    last = np.zeros(len(rows), dtype=np.bool_)
    last[by_meeting.idxmax().to_numpy(np.int64)] = True
    return rows.assign(wait_ns=duration - transfer, transfer_ns=transfer, last=last)


def _others_end(rows: pd.DataFrame) -> NDArray[np.int64]:
    """Return when the last of the other ranks was done with the call of each row."""
    end = (rows["arrival_ns"] + rows["end_ns"] - rows["start_ns"]).to_numpy(np.int64)
    meeting = rows["meeting"].to_numpy(np.int64)
    order = np.lexsort((end, meeting))
    met, ended = meeting[order], end[order]
    last = np.searchsorted(met, met, side="right") - 1
    before = np.maximum(last - 1, np.searchsorted(met, met))
    others = np.empty_like(end)
    others[order] = ended[np.where(np.arange(len(met)) == last, before, last)]
    return others


def _latest_before_end(rows: pd.DataFrame) -> NDArray[np.int64]:
    """Return when the last rank came to the call of each row before that row ended."""
    arrival = rows["arrival_ns"]
    end = arrival + rows["end_ns"] - rows["start_ns"]
    come = pd.DataFrame({"meeting": rows["meeting"], "at": arrival, "latest": arrival})
    ended = pd.DataFrame({"meeting": rows["meeting"], "at": end, "row": rows.index})
    found = pd.merge_asof(ended.sort_values("at"), come.sort_values("at"), on="at", by="meeting")
    return found.set_index("row")["latest"].loc[rows.index].to_numpy(np.int64)
