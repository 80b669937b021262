"""Periods: from the start of a step to the start of the next, on the slower of CPU and GPU."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.shared.step_windows import (
    WHERE,
    after_first,
    extents,
    last_ends,
    until_gpu_done,
)
from profkit.core.formatting import counted, duration

_ONE_OFF = 1.5
_ALIKE, _MOSTLY = 0.2, 0.5
_FEWEST = 1
_TAIL = 0.2
_LITTLE = 0.1
SINGLE_STEPS = "single steps"
"""What is missing where all that was recorded is divided as one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Periods:
    """The periods that are divided."""

    rows: pd.DataFrame
    """rank, repeat, step, start_ns and end_ns; step -1 stands for all that was recorded."""

    one_off_ns: dict[int, int]
    """Mean time of first steps that were left out, by step, because the others are shorter."""

    skipped: int = 0
    """How many first steps were left out by their number."""

    before_ns: int = 0
    """How long, at most, a rank's GPU was busy in its first step with what was launched before."""

    problem: str = ""
    """Why these are no single steps; empty if they are."""

    @property
    def left_out(self) -> str:
        """What was left out of steps, to stand behind what is said of the rest; "" if nothing."""
        words = [counted(self.skipped, "first step")] if self.skipped else []
        if first := self.one_off_ns:
            longest = f"{'up to ' if len(first) > 1 else ''}{duration(max(first.values()))}"
            words.append(f"{counted(len(first), 'slow first step')} ({longest})")
        if self.before_ns:
            words.append(f"{duration(self.before_ns)} of earlier GPU work")
        return f"; {' and '.join(words)} left out" if words else ""


def periods(
    steps: pd.DataFrame,
    cpu_ops: pd.DataFrame,
    kernels: pd.DataFrame,
    skip_first: int,
    clocked: pd.DataFrame | None = None,
) -> Periods:
    """Return the periods of the steady steps that were recorded on each rank.

    What happens between two steps belongs to the one before. The CPU marks the end of a step while
    the GPU still works on it, so a period ends when that is done. The first `skip_first` steps are
    left out, see `after_first`, and so are first steps that take much longer than the others,
    and than most steps of the run, where these were `clocked`.

    Where no step was marked, all that was recorded is one period. The first period begins when the
    GPU is done with what was launched before the recording: with what was recorded of it, or with
    the first kernel if that had long been launched.
    """
    work = pd.concat([extents(rows) for rows in (cpu_ops, kernels) if len(rows)])
    ranks = work.groupby(WHERE, observed=True).agg({"first": "min", "last": "max"}).reset_index()
    known = steps.merge(ranks, on=WHERE)
    known = known[(known["start_ns"] < known["last"]) & (known["end_ns"] > known["first"])]
    columns = [*WHERE, "step", "start_ns", "end_ns"]
    of_cpu = last_ends(cpu_ops, (cpu_ops["kind"] == "operator").to_numpy())
    are_empty = len(known) and not len(kernels) and len(of_cpu) and _are_empty(known, of_cpu)
    if known.empty or are_empty:
        whole = ranks.rename(columns={"first": "start_ns", "last": "end_ns"}).assign(step=-1)
        whole["start_ns"] = np.maximum(whole["start_ns"], _begins(whole, kernels))
        found = "No step was marked" if steps.empty else "The steps are those of another capture"
        found = "The steps that were marked are empty" if are_empty else found
        lasting = whole[whole["end_ns"] > whole["start_ns"]]
        return Periods(rows=lasting[columns], one_off_ns={}, problem=found)
    windows = until_gpu_done(known, kernels)[columns]
    begins = np.maximum(windows["start_ns"], _begins(windows, kernels))
    before = (begins - windows["start_ns"]).to_numpy(np.int64).max(initial=0)
    windows["start_ns"] = begins
    windows = windows[windows["end_ns"] > windows["start_ns"]]
    rows = _to_the_next(_with_work(windows, of_cpu), are_clocked=clocked is not None)
    recorded = _without_the_end(rows, of_cpu, last_ends(kernels))
    rows = after_first(recorded, skip_first)
    skipped = recorded["step"].nunique() - rows["step"].nunique()
    lasted = clocked["end_ns"] - clocked["start_ns"] if clocked is not None else ()
    rows, one_off = _steady(rows, float(np.median(lasted)) if len(lasted) else 0.0)
    rows = rows[rows["end_ns"] > rows["start_ns"]]
    # Of a step that is left out as well nothing is missing.
    of_first = 0 if skipped or one_off else int(before)
    return Periods(rows=rows, one_off_ns=one_off, skipped=skipped, before_ns=of_first)


def _begins(rows: pd.DataFrame, kernels: pd.DataFrame) -> NDArray[np.int64]:
    """Return when the GPU of each of the `rows` is done with what was launched before; else -1.

    Not where that left it idle for most of the time: the CPU is not ahead of it then.
    """
    if not len(kernels) or "begins_ns" not in kernels:
        return np.full(len(rows), -1, dtype=np.int64)
    known = kernels.groupby(WHERE, observed=True)[["begins_ns", "before_ns"]].first()
    known = known.reindex(pd.MultiIndex.from_frame(rows[WHERE]), fill_value=-1)
    begins, lasted = (known[name].to_numpy(np.int64) for name in known)
    is_busy = lasted >= _MOSTLY * (begins - rows["start_ns"].to_numpy(np.int64))
    return np.where(is_busy, begins, -1)


def watched(
    steps: pd.DataFrame, cpu_ops: pd.DataFrame, kernels: pd.DataFrame, collectives: pd.DataFrame
) -> pd.DataFrame:
    """Return the steps of which more than phases was recorded: the tool marks looks at a few."""
    if collectives.empty or len(kernels) or (cpu_ops["kind"] == "operator").any():
        return steps
    keys = [*WHERE, "step"]
    known = pd.MultiIndex.from_frame(collectives[keys].drop_duplicates())
    return steps[pd.MultiIndex.from_frame(steps[keys]).isin(known)]


def slowest_ns(rows: pd.DataFrame) -> "pd.Series[int]":
    """Return the time of each step on its slowest rank, by repeat and step."""
    lengths = rows["end_ns"] - rows["start_ns"]
    return lengths.groupby([rows["repeat"], rows["step"]], observed=True).max()


def _steady(rows: pd.DataFrame, usual_ns: float) -> tuple[pd.DataFrame, dict[int, int]]:
    """Return the steps that count, and the mean time of first ones that take much longer."""
    one_off = _one_off(rows, usual_ns)
    lengths = (rows["end_ns"] - rows["start_ns"]).groupby(rows["step"], observed=True).mean()
    kept = rows[~rows["step"].isin(one_off)].reset_index(drop=True)
    return kept, {step: int(lengths[step]) for step in one_off}


def _with_work(rows: pd.DataFrame, of_cpu: "pd.Series[int]") -> pd.DataFrame:
    """Return the steps in which an operator ran, if any has one: the last may only be opened."""
    has_work = _have_work(rows, of_cpu)
    return rows[has_work] if has_work.any() else rows


def _are_empty(known: pd.DataFrame, of_cpu: "pd.Series[int]") -> bool:
    """Tell whether no operator ran in steps, which are far shorter than what was recorded."""
    longest = (known["end_ns"] - known["start_ns"]).max()
    is_short = longest < _LITTLE * (known["last"] - known["first"]).max()
    return bool(is_short and not _have_work(known, of_cpu).any())


def _have_work(rows: pd.DataFrame, of_cpu: "pd.Series[int]") -> NDArray[np.bool_]:
    return pd.MultiIndex.from_frame(rows[[*WHERE, "step"]]).isin(of_cpu.index)


def _to_the_next(rows: pd.DataFrame, *, are_clocked: bool) -> pd.DataFrame:
    """Return the steps so that each lasts until the next, where that was recorded too.

    Not where far more than usual passes until then, by more than a step: that is an evaluation.
    Where steps `are_clocked` by profkit, their times leave that out, and so it is whatever is much
    of a step.
    """
    rows = rows.sort_values([*WHERE, "start_ns"], ignore_index=True)
    by_rank = rows.groupby(WHERE, observed=True)
    after = by_rank[["step", "start_ns"]].shift(-1, fill_value=-1)
    follows = (after["step"] == rows["step"] + 1).to_numpy()
    where = [rows[name] for name in WHERE]
    lasted, until = rows["end_ns"] - rows["start_ns"], after["start_ns"] - rows["end_ns"]
    usual, between = (
        times.groupby(where).transform("median").fillna(0)
        for times in (lasted, until.where(follows))
    )
    most = _LITTLE * usual if are_clocked else usual + between
    follows = follows & (until <= most).to_numpy()
    end = np.where(follows, after["start_ns"], rows["end_ns"])
    return rows.assign(end_ns=np.maximum(end, rows["start_ns"]))


def _without_the_end(rows: pd.DataFrame, *recorded: "pd.Series[int]") -> pd.DataFrame:
    """Return the steps, the last one cut where nothing more was `recorded` for unusually long.

    That is the profiler being stopped, which the last step of a recording contains. Where other
    steps end so as well, it is what the program does, such as writing a checkpoint.
    """
    by_rank = rows.groupby(WHERE, observed=True)
    is_last = (by_rank.cumcount(ascending=False) == 0) & (by_rank["step"].transform("size") > 1)
    keys = pd.MultiIndex.from_frame(rows[[*WHERE, "step"]])
    # Times are around 2**60 ns: nothing here may pass through a float.
    ends = (of_step.reindex(keys, fill_value=-1).to_numpy(np.int64) for of_step in recorded)
    until = np.maximum.reduce([*ends])
    end, start = (rows[name].to_numpy(np.int64) for name in ("end_ns", "start_ns"))
    where = [rows[name] for name in WHERE]
    usual = (rows["end_ns"] - rows["start_ns"]).groupby(where).transform("median").to_numpy()
    tails = pd.Series(np.where(until > start, end - until, 0)).mask(is_last.to_numpy())
    usual_tail = tails.groupby(where).transform("median").fillna(0).to_numpy()
    long = end - until > _TAIL * usual + usual_tail
    cut = is_last.to_numpy() & long & (until > start)
    return rows.assign(end_ns=np.where(cut, until, end))


def _one_off(rows: pd.DataFrame, usual_ns: float) -> list[int]:
    """Return the first steps that take much longer than those that follow, in the median.

    Not where most of these take as long: every fourth step of a program may be a short one. Nor
    where a single step would be left of several that are shorter and shorter, as by their batches.
    """
    lengths = (rows["end_ns"] - rows["start_ns"]).groupby(rows["step"], observed=True).max()
    times = lengths.to_numpy(np.int64)
    first = 0
    while len(times) - first > _FEWEST:
        usual = max(float(np.median(times[first + 1 :])), usual_ns)
        alike = np.abs(times[first:] - times[first]) <= _ALIKE * times[first]
        if times[first] <= _ONE_OFF * usual or alike.mean() > _MOSTLY:
            break
        first += 1
    is_one_left = first > 1 and len(times) - first == 1
    return [] if is_one_left else [int(step) for step in lengths.index[:first]]
