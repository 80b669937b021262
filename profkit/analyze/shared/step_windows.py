"""Windows of steps on the GPU.

The CPU marks the end of a step while the GPU still works on it. So a window lasts until the last
kernel launched in the step is done, and the next begins there.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.core.result import Abstention

WHERE = ["rank", "repeat"]
MARKS = ("ProfilerStep#", "step#")
"""Beginnings of the names of rows that mark a step: no place in a program."""

_NEVER = np.iinfo(np.int64).min
_ENOUGH, _ALIKE = 3, 0.2


def step_windows(
    steps: pd.DataFrame, kernels: pd.DataFrame, skip_first: int
) -> tuple[pd.DataFrame, tuple[Abstention, ...]]:
    """Return rank, repeat, step, start_ns and end_ns of the steps that count, and abstentions.

    The first `skip_first` steps are left out, see `after_first`. Where no step is known there is
    one window for each rank and repeat: all of its kernels, as step -1.
    """
    ranks = extents(kernels)
    known = steps[_with_work(steps, ranks)]
    columns = [*WHERE, "step", "start_ns", "end_ns"]
    if len(known):
        windows = until_gpu_done(known, kernels)[columns]
        kept = after_first(windows, skip_first).reset_index(drop=True)
        return kept, _without_steps(ranks.index, kept)
    whole = ranks.reset_index().rename(columns={"first": "start_ns", "last": "end_ns"})
    reason = "no step was marked" if steps.empty else "the steps are those of another capture"
    missing = Abstention(
        what="single steps", reason=f"{reason}: the numbers are those of all that was recorded"
    )
    return whole.assign(step=-1)[columns], (missing,)


def after_first(rows: pd.DataFrame, skip_first: int) -> pd.DataFrame:
    """Return the steps without the first `skip_first`, as long as others remain.

    Of fewer than three that remain, steps before them count as well that take as long: traces of
    strangers are short, and a program that was warm before its first step has none to leave out.
    """
    numbers = np.unique(rows["step"])
    later = numbers[numbers >= skip_first]
    if not len(later):
        return rows
    lasted = (rows["end_ns"] - rows["start_ns"]).groupby(rows["step"], observed=True).max()
    usual = float(lasted[later].median())
    first = int(later[0])
    for number in numbers[numbers < skip_first][::-1][: max(_ENOUGH - len(later), 0)]:
        if abs(lasted[number] - usual) > _ALIKE * usual:
            break
        first = int(number)
    return rows[(rows["step"] >= first).to_numpy()]


def extents(work: pd.DataFrame, key: Sequence[str] = WHERE) -> pd.DataFrame:
    """Return the first start and the last end of `work` by `key`: first and last."""
    begins = runs(work, key)
    first = np.minimum.reduceat(work["start_ns"].to_numpy(np.int64), begins)
    last = np.maximum.reduceat(work["end_ns"].to_numpy(np.int64), begins)
    keys = [work[name].to_numpy()[begins] for name in key]
    group, head = grouped(keys)
    found = {"first": first[head], "last": last[head]}
    np.minimum.at(found["first"], group, first)
    np.maximum.at(found["last"], group, last)
    return pd.DataFrame(found, index=_index(keys, key, head))


def last_ends(rows: pd.DataFrame, counted: NDArray[np.bool_] | None = None) -> "pd.Series[int]":
    """Return when the last of the `counted` rows ends, by rank, repeat and step with such rows."""
    key = [*WHERE, "step"]
    begins = runs(rows, key)
    ends = rows["end_ns"].to_numpy(np.int64)
    ends = np.maximum.reduceat(ends if counted is None else np.where(counted, ends, _NEVER), begins)
    known = ends > _NEVER
    keys = [rows[name].to_numpy()[begins[known]] for name in key]
    group, head = grouped(keys)
    found = ends[known][head]
    np.maximum.at(found, group, ends[known])
    return pd.Series(found, index=_index(keys, key, head), name="end_ns")


def _index(
    keys: Sequence[NDArray[Any]], names: Sequence[str], head: NDArray[np.int64]
) -> "pd.MultiIndex":
    return pd.MultiIndex.from_arrays([values[head] for values in keys], names=[*names])


def grouped(keys: Sequence[NDArray[Any]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the number of each row's group, of those with equal `keys`, and a row of each group.

    Groups are in the order of their keys. What pandas needs for that is 2 ms for a few rows.
    """
    order = np.lexsort([*reversed(keys)])
    differs = np.zeros(len(order), dtype=np.bool_)
    for values in keys:
        differs[1:] |= values[order[1:]] != values[order[:-1]]
    group = np.empty(len(order), dtype=np.int64)
    group[order] = np.cumsum(differs)
    differs[:1] = True
    return group, order[differs]


def runs(rows: pd.DataFrame, key: Sequence[str]) -> NDArray[np.int64]:
    """Return where each run of rows with the same `key` begins.

    Tables are ordered by rank, and nearly so by step: a group has few runs, and to group these
    takes a fraction of the time and memory that grouping all rows does.
    """
    begins = np.zeros(len(rows), dtype=np.bool_)
    begins[:1] = True
    for name in key:
        values = rows[name].to_numpy()
        begins[1:] |= values[1:] != values[:-1]
    return np.flatnonzero(begins)


def keyed(rows: pd.DataFrame, key: Sequence[str], begins: NDArray[np.int64]) -> pd.DataFrame:
    """Return the `key` of the rows where runs begin."""
    # Column by column: several together are copied whole first.
    return pd.DataFrame({name: rows[name].to_numpy()[begins] for name in key})


def of_repeat(rows: pd.DataFrame, where: tuple[Any, ...]) -> pd.DataFrame:
    """Return the `rows` of one rank and repeat."""
    return filtered(rows, (rows["rank"] == where[0]) & (rows["repeat"] == where[1]))


def by_repeat(rows: pd.DataFrame) -> Callable[[tuple[int, int]], pd.DataFrame]:
    """Return what gives the `rows` of a rank and repeat: a view of the table if they lie together.

    Looking for those of each of a thousand ranks takes longer than what is done with them.
    """
    first = runs(rows, WHERE)
    ends = [*first[1:].tolist(), len(rows)][: len(first)]
    keys = [(rank, repeat) for rank, repeat in keyed(rows, WHERE, first).to_numpy().tolist()]
    spans = dict(zip(keys, zip(first.tolist(), ends, strict=True), strict=True))
    if len(spans) < len(keys):
        return lambda key: of_repeat(rows, key)
    return lambda key: rows.iloc[slice(*spans.get(key, (0, 0)))]


def positions_by_repeat(rows: pd.DataFrame) -> dict[tuple[int, int], NDArray[np.int64]]:
    """Return the positions of the `rows` of each rank and repeat."""
    first = runs(rows, WHERE)
    found: dict[tuple[int, int], list[NDArray[np.int64]]] = defaultdict(list)
    keys = keyed(rows, WHERE, first).to_numpy().tolist()
    ends = np.append(first, len(rows))[1:]
    for (rank, repeat), start, end in zip(keys, first, ends, strict=True):
        found[rank, repeat].append(np.arange(start, end))
    return {where: np.concatenate(parts) for where, parts in found.items()}


def filtered(rows: pd.DataFrame, which: "pd.Series[bool] | NDArray[np.bool_]") -> pd.DataFrame:
    """Return the `rows` where `which` holds; without a copy of the table if they lie together."""
    chosen = np.asarray(which, dtype=np.bool_)
    if not chosen.any():
        return rows.iloc[:0]
    first, last = int(chosen.argmax()), len(chosen) - int(chosen[::-1].argmax())
    return rows.iloc[first:last] if chosen[first:last].all() else rows[chosen]


def _with_work(steps: pd.DataFrame, ranks: pd.DataFrame) -> NDArray[np.bool_]:
    """Tell which `steps` meet the work of their rank, whose extents are `ranks`."""
    keys = (
        np.concatenate((steps[name].to_numpy(), ranks.index.get_level_values(name).to_numpy()))
        for name in WHERE
    )
    group, head = grouped([*keys])
    first, last = np.full(len(head), -_NEVER - 1), np.full(len(head), _NEVER)
    own, of_ranks = group[: len(steps)], group[len(steps) :]
    first[of_ranks], last[of_ranks] = ranks["first"].to_numpy(), ranks["last"].to_numpy()
    start, end = (steps[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
    return np.asarray((start < last[own]) & (end > first[own]))


def _without_steps(known: "pd.Index[Any]", windows: pd.DataFrame) -> tuple[Abstention, ...]:
    counted = zip(*(windows[name].tolist() for name in WHERE), strict=True)
    lost = {*known.tolist()}.difference(counted)
    if not lost:
        return ()
    ranks = ", ".join(str(rank) for rank in sorted({int(rank) for rank, _ in lost}))
    reason = "GPU work was recorded, but no step that counts: it is left out"
    return (Abstention(what=f"steps of rank {ranks}", reason=reason),)


def until_gpu_done(steps: pd.DataFrame, kernels: pd.DataFrame) -> pd.DataFrame:
    """Return `steps` that last until their kernels are done, each beginning after the last."""
    key = [*WHERE, "step"]
    begins = runs(kernels, key)
    done = np.maximum.reduceat(kernels["end_ns"].to_numpy(np.int64), begins)
    keys = (
        np.concatenate((steps[name].to_numpy(), kernels[name].to_numpy()[begins])) for name in key
    )
    group, head = grouped([*keys])
    ends = np.full(len(head), _NEVER)
    np.maximum.at(ends, group, np.concatenate((steps["end_ns"].to_numpy(np.int64), done)))
    order = np.lexsort([steps[name].to_numpy() for name in ("start_ns", *reversed(WHERE))])
    rows = steps.iloc[order].reset_index(drop=True)
    end, start = ends[group[: len(steps)]][order], rows["start_ns"].to_numpy(np.int64, copy=True)
    for first, last in pairwise([*runs(rows, WHERE).tolist(), len(rows)]):
        np.maximum.accumulate(end[first:last], out=end[first:last])
        np.maximum(start[first + 1 : last], end[first : last - 1], out=start[first + 1 : last])
        start[first] = max(start[first], 0)
    return rows.drop(columns="end_ns").assign(start_ns=start, end_ns=end)


def with_clock(windows: pd.DataFrame) -> pd.DataFrame:
    """Return `windows` with ``step_time_ns``, the duration of the step on its slowest rank.

    Ranks wait for one another, so a rank's own time would hide its cost to the others.
    """
    own = (windows["end_ns"] - windows["start_ns"]).to_numpy(np.int64)
    group, head = grouped([windows[name].to_numpy() for name in ("repeat", "step")])
    clock = own[head]
    np.maximum.at(clock, group, own)
    return windows.assign(step_time_ns=clock[group])
