"""What one rank recorded in one repeat, and what its CPU threads were doing."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.division import collective_calls
from profkit.analyze.division.copies import copy_names
from profkit.analyze.division.known_names import (
    CALLING,
    COLLECTING,
    COLLECTS,
    COMMUNICATING,
    LOADING,
    STARTS_LOADING,
    WORKERS_LOAD,
    communicates,
    computes,
)
from profkit.analyze.division.partition import alone, crossing, spans_of, union_of_rows
from profkit.analyze.division.phases import Stretches, stretches
from profkit.analyze.division.sampled_calls import sampled_calls, seen_stacks, with_stacks
from profkit.analyze.division.thread_roles import ThreadRoles
from profkit.analyze.shared import calltree, intervals
from profkit.analyze.shared.blocking_calls import blocked_calls, is_pageable, may_be_start
from profkit.analyze.shared.glob_match import matching, texts
from profkit.analyze.shared.intervals import Intervals
from profkit.analyze.shared.large_table import tidy
from profkit.analyze.shared.launch_calls import launches
from profkit.patterns.unused_gpu import starts_device
from profkit.tables.kernel_names import readable

STARTING_NS = 1_000_000
"""What takes longer may be a start."""

_EXCERPT = 0.1
_ROWS_AT_ONCE = 1 << 18


@dataclass(frozen=True, kw_only=True)
class RecordedRank:
    """Rows of one rank and repeat, and the periods that are divided."""

    where: tuple[int, int]
    periods: pd.DataFrame
    ops: pd.DataFrame
    """Its operators; of many without a GPU those alone that its time is divided by."""

    kernels: pd.DataFrame
    calls: pd.DataFrame
    python: pd.DataFrame
    is_sampled: bool
    """Whether the Python calls are those of sampled stacks."""

    samples: pd.DataFrame
    """Where the program's thread was sampled, and its CPU time until then."""

    threads: pd.DataFrame
    """The same of its other threads."""

    pauses: pd.DataFrame
    """Runs of Python's garbage collector."""

    collectives: pd.DataFrame
    """Collectives that were matched with those of other ranks, with ``wait_ns``."""

    communication: pd.DataFrame | None = None
    """All collectives, see `communicated.COLUMNS`, where it is asked what they do."""

    known_roles: ThreadRoles | None = None
    """What its threads are for, where `ops` are not all operators."""

    parts_of_ops: Callable[[int], Iterator[pd.DataFrame]] | None = None
    """Yields all operators then, with all inside of them, in parts: so many at once."""

    @classmethod
    def of(
        cls, where: tuple[int, int], periods: pd.DataFrame, **tables: pd.DataFrame
    ) -> "RecordedRank":
        """Return one rank and repeat with its rows of the `tables`, by name of the field."""
        rows: dict[str, Any] = {
            name: table.reset_index(drop=True) for name, table in tables.items()
        }
        samples = rows["samples"]
        is_sampled = bool(rows["python"].empty and len(samples))
        if is_sampled:
            seen = seen_stacks(samples, rows["ops"])
            rows["python"] = sampled_calls(seen, where)
            rows["ops"] = with_stacks(rows["ops"], seen)
        return cls(
            is_sampled=is_sampled, where=where, periods=periods.reset_index(drop=True), **rows
        )

    @property
    def is_part(self) -> bool:
        """Whether its operators are some of many, with all inside of them."""
        return self.known_roles is not None and self.parts_of_ops is None

    def in_parts(self, at_once: int = 1) -> Iterator["RecordedRank"]:
        """Yield it with all of its operators, if they are many so many parts `at_once`."""
        if self.parts_of_ops is None:
            yield self
            return
        for ops in self.parts_of_ops(at_once):
            yield replace(self, ops=ops.reset_index(drop=True), parts_of_ops=None)

    def forget(self) -> None:
        """Let go of what was made of the rows: all of it is made again where it is asked for."""
        for name, made in vars(type(self)).items():
            if isinstance(made, cached_property):
                vars(self).pop(name, None)

    def tidy(self) -> None:
        """Give memory back that was worked with, if there are many operators."""
        tidy(len(self.ops) if self.parts_of_ops is None else sys.maxsize)

    @cached_property
    def windows(self) -> Intervals:
        """The periods as intervals."""
        return spans_of(self.periods)

    @cached_property
    def launched(self) -> pd.DataFrame:
        """The call that launched each kernel, see `launch_calls.launches`, without its name."""
        return launches(self.kernels, self.calls).drop(columns="name")

    def charged_spans(self, rows: calltree.Rows) -> Intervals:
        """Return intervals of operators; empty for ranges that end after the one they began in.

        Nothing counts as inside of these, so that they would be charged with what others are.
        """
        spans = spans_of(self.ops, rows)
        spans[self._across[rows], 1] = spans[self._across[rows], 0]
        return spans

    @cached_property
    def _across(self) -> NDArray[np.bool_]:
        """Whether each row of the operators is a range that ends after the one it began in."""
        found = np.zeros(len(self.ops), dtype=np.bool_)
        ranges = np.flatnonzero((self.ops["kind"] == "annotation").to_numpy())
        for thread in np.unique(self.op_threads[ranges]):
            of_thread = ranges[self.op_threads[ranges] == thread]
            found[of_thread] = crossing(spans_of(self.ops, of_thread))
        return found

    @cached_property
    def op_parents(self) -> calltree.Rows:
        """The row of the parent of each operator, -1 for none; none is its own."""
        numbers, parents = (self.ops[name].to_numpy() for name in ("op", "parent"))
        if calltree.are_positions(numbers) and ((parents >= -1) & (parents < numbers)).all():
            return parents
        parents = calltree.positions(*(values.astype(np.int64) for values in (numbers, parents)))
        return np.where(parents == np.arange(len(parents)), -1, parents)

    @cached_property
    def op_threads(self) -> NDArray[np.int64]:
        """The thread of each operator."""
        return self.ops["tid"].to_numpy(np.int64)

    @cached_property
    def call_threads(self) -> NDArray[np.int64]:
        """The thread of each runtime call."""
        return self.calls["tid"].to_numpy(np.int64)

    @cached_property
    def roles(self) -> ThreadRoles:
        """What its threads are for."""
        if self.known_roles is not None:
            return self.known_roles
        found = ThreadRoles()
        found.add(self.ops, self.calls)
        return found

    @property
    def main(self) -> int:
        """The thread of the program, -1 if no thread is known."""
        return self.roles.main

    @cached_property
    def launching(self) -> list[int]:
        """Threads that launched work, then the program's own, each once."""
        threads = self.launched["tid"].to_numpy(np.int64)
        found, counts = np.unique(threads[threads >= 0], return_counts=True)
        ordered = found[np.argsort(-counts, kind="stable")].tolist()
        return list(dict.fromkeys([*ordered, *([self.main] if self.main >= 0 else [])]))

    @cached_property
    def kernel_spans(self) -> Intervals:
        """The intervals of the kernels, copies and sets."""
        return spans_of(self.kernels)

    @cached_property
    def kernel_ops(self) -> calltree.Rows:
        """The row of the operator of each kernel, -1 for none."""
        known, wanted = (rows["op"].to_numpy(np.int64) for rows in (self.ops, self.kernels))
        return np.where(wanted >= 0, calltree.positions(known, wanted), -1)

    @cached_property
    def kernel_labels(self) -> NDArray[np.object_]:
        """The operator of each kernel; the function of its name where none was recorded."""
        names = np.append(texts(self.ops["name"]), "")
        is_operator = np.append((self.ops["kind"] == "operator").to_numpy(), False)
        own = texts(self.kernels["name"], readable)
        return np.asarray(np.where(is_operator[self.kernel_ops], names[self.kernel_ops], own))

    @cached_property
    def copy_names(self) -> NDArray[np.object_]:
        """The last part of the id that each kernel has as a copy, "" for no copy."""
        return copy_names(self.kernels, self.ops, self.kernel_ops, self.pageable)

    @cached_property
    def pageable(self) -> NDArray[np.bool_]:
        """Whether each kernel is a copy from or to memory that is not pinned."""
        return is_pageable(self.kernels)

    @cached_property
    def blocked(self) -> NDArray[np.bool_]:
        """Whether the CPU was blocked in each runtime call."""
        return blocked_calls(self.calls, self.kernels, self.launched["call"].to_numpy(np.int64))

    @cached_property
    def one_off(self) -> NDArray[np.bool_]:
        """Whether the CPU was blocked in each call by what happens once: a start, loading of code.

        Among several steps they are told apart by their time; one step, or none, cannot tell, so
        there it is every long call that `may_be_start`.
        """
        if len(self.periods) > 1:
            return np.zeros(len(self.calls), dtype=np.bool_)
        length = (self.calls["end_ns"] - self.calls["start_ns"]).to_numpy(np.int64)
        starts = may_be_start(self.calls, self.kernels, self.launched["call"].to_numpy(np.int64))
        return np.asarray(self.blocked & starts & (length >= STARTING_NS))

    @cached_property
    def launching_ns(self) -> tuple[int, int]:
        """How long the CPU works to launch what the GPU does, over all periods: at least, at most.

        At least in operators and calls of the launching threads, at most whenever none of these is
        blocked in a call. 0 without a GPU.
        """
        if self.kernels.empty:
            return 0, 0
        ever = np.iinfo(np.int64)
        cuts = np.unique(self.ops["start_ns"].to_numpy(np.int64)[_ROWS_AT_ONCE::_ROWS_AT_ONCE])
        stretches = pairwise([ever.min, *cuts.tolist(), ever.max])
        least, most = zip(*(self._launching_ns(*stretch) for stretch in stretches), strict=True)
        return sum(least), sum(most)

    def _launching_ns(self, first: int, last: int) -> tuple[int, int]:
        """Return the same of the time from `first` to before `last`."""
        windows = intervals.intersection(
            intervals.union(self.windows), np.array([[first, last]], dtype=np.int64)
        )
        near_calls = (self.call_spans[:, 0] < last) & (self.call_spans[:, 1] > first)
        start, end = (self.ops[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
        near_ops = (start < last) & (end > first)
        works, waits = [], []
        for thread in self.launching:
            of_calls = near_calls & (self.call_threads == thread)
            of_ops = near_ops & (self.op_threads == thread)
            waits.append(intervals.union(self.call_spans[of_calls & self.blocked]))
            calls = intervals.union(self.call_spans[of_calls])
            ops = union_of_rows(self.ops, of_ops & self.works)
            spans = intervals.union(np.concatenate((calls, ops)))
            works.append(intervals.difference(spans, waits[-1]))
        nothing = [intervals.nothing()]
        least = intervals.intersection(windows, intervals.union(np.concatenate(nothing + works)))
        blocked = intervals.union(np.concatenate(nothing + waits))
        return intervals.total(least), intervals.total(intervals.difference(windows, blocked))

    @cached_property
    def call_spans(self) -> Intervals:
        """Runtime calls, each without what is in one around it on the same thread."""
        spans = spans_of(self.calls)
        for thread in np.unique(self.call_threads):
            rows = self.call_threads == thread
            spans[rows] = alone(spans[rows])
        return spans

    def ranges(self, patterns: tuple[str, ...], thread: int | None = None) -> Intervals:
        """Return the ranges whose names match `patterns`, on any thread or on one, as a union."""
        rows = matching(self.ops["name"], patterns)
        if thread is not None:
            rows &= self.op_threads == thread
        return union_of_rows(self.ops, rows)

    def loading(self, thread: int) -> Intervals:
        """Return when `thread` waits for a batch, or for the workers of an epoch, as a union."""
        on_thread = (self.python["tid"] == thread).to_numpy()
        starts = on_thread & matching(self.python["name"], STARTS_LOADING)
        spans = (self.ranges(LOADING, thread), spans_of(self.python[starts]))
        return intervals.union(np.concatenate(spans))

    def first_batch(self, thread: int) -> Intervals:
        """Return the wait for the only batch of a recording without steps: its workers start."""
        chosen = matching(self.ops["name"], WORKERS_LOAD) & (self.op_threads == thread)
        is_only = chosen.sum() == 1 and bool((self.periods["step"] < 0).all())
        return union_of_rows(self.ops, chosen & is_only)

    def device_start(self) -> Intervals:
        """Return the time in which the program's thread starts a device, if it does so once."""
        chosen = starts_device(self.ops) & (self.op_threads == self.main)
        return union_of_rows(self.ops, chosen & (chosen.sum() == 1))

    @cached_property
    def communicating(self) -> Intervals:
        """The time in communication of the CPU, as a union: small messages are mostly the call."""
        if not self.works.any():
            return self.held_up
        on_main = (self.python["tid"] == self.main).to_numpy()
        called = spans_of(self.python[on_main & communicates(self.python["name"])])
        calls = (self.ranges(COMMUNICATING), self.ranges(CALLING, self.main), called)
        return intervals.union(np.concatenate(calls))

    @cached_property
    def phases(self) -> Stretches:
        """The time of the program's thread, cut wherever a phase begins or ends."""
        return stretches(self.ops[self.op_threads == self.main])

    @cached_property
    def collecting(self) -> Intervals:
        """The time in Python's garbage collector, as a union."""
        ranges = spans_of(self.ops, matching(self.ops["name"], COLLECTING))
        by_hand = spans_of(self.python[matching(self.python["name"], COLLECTS)])
        return intervals.union(np.concatenate((ranges, spans_of(self.pauses), by_hand)))

    @cached_property
    def works(self) -> NDArray[np.bool_]:
        """Whether each row of the operators computes: it neither communicates nor only names."""
        return computes(self.ops)

    @cached_property
    def computing(self) -> Intervals:
        """When the program's thread is in an operator that computes, as a union.

        Not where one has called a collective, as backward does for the buckets of DDP: only what
        computes inside of that call. Nor where the one around such a call waits for it.
        """
        on_main = self.works & (self.op_threads == self.main)
        spans, calls = union_of_rows(self.ops, on_main), self.ranges(CALLING, self.main)
        if not len(calls):
            return spans
        inner = spans_of(self.ops, on_main)
        is_inside = intervals.contains(calls, inner[:, 0]) & intervals.contains(
            calls, inner[:, 1] - 1
        )
        around = intervals.difference(spans, calls)
        computing = intervals.union(np.concatenate((around, inner[is_inside])))
        waiting = collective_calls.waiting(self.ops, on_main, self.ranges(COMMUNICATING))
        return intervals.difference(computing, waiting)

    @cached_property
    def sees_cpu(self) -> bool:
        """Whether enough of the CPU was recorded that what is between is Python, and no excerpt."""
        windows = intervals.union(self.windows)
        enough = _EXCERPT * intervals.total(windows)
        recorded = intervals.nothing()
        for rows, which in (
            (self.python, (self.python["kind"] == "function").to_numpy()),
            (self.ops, self.works),
            (self.calls, np.ones(len(self.calls), dtype=np.bool_)),
        ):
            found = union_of_rows(rows, which)
            if len(recorded):
                found = intervals.union(np.concatenate((recorded, found)))
            recorded = found
            if intervals.overlap(windows, recorded).sum() > enough:
                return True
        return False

    @cached_property
    def held_up(self) -> Intervals:
        """The time in collectives after which no further one was called meanwhile, as a union.

        Where no operator was recorded, a further call shows that the rank was at work until then.
        """
        start, end = (self.collectives[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
        calls = np.sort(self.collectives["call_ns"].to_numpy(np.int64))
        last = np.append(calls, -1)[np.searchsorted(calls, end) - 1]
        return intervals.union(np.column_stack((np.maximum(start, last), end)))

    @cached_property
    def waiting_for_ranks(self) -> Intervals:
        """The time that this rank spent in collectives before the last rank came, as a union."""
        start = self.collectives["start_ns"].to_numpy(np.int64)
        wait = self.collectives["wait_ns"].to_numpy(np.int64)
        return intervals.union(np.column_stack((start, start + np.maximum(wait, 0))))
