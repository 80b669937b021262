"""Steps of the workload: as annotated on the CPU, and as spans of the device work launched in them.

Where a time lies outside of all steps, its step is -1.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np

from profkit.convert.columns.on_disk import Columns, DiskColumn
from profkit.convert.columns.values import Ints
from profkit.convert.linking.gathered import Gathered

_STEP = re.compile(r"ProfilerStep#(\d{1,9})$")
_MARK = re.compile(r"step#(\d{1,9})$")
_FEWEST_MARKS = 3
_UPDATE, _BATCH = "update of weights", "batch of a server"
_FRAME = r"(?:.*/)?(?:{})\.py\(\d+\): (?:{})$"
# Ranges of an optimizer, and of vLLM and SGLang around all that they compute for a batch, or else
# the functions of these that do so.
_UNNUMBERED = (
    (_UPDATE, "cpu_ops", re.compile(r"Optimizer\.step#")),
    (_BATCH, "cpu_ops", re.compile(r"execute_(?:\d+_)?context_\d+\(.*generation_\d+\(")),
    (_BATCH, "cpu_ops", re.compile(r"step\[[A-Z_]+ bs=\d+")),
    (_BATCH, "python_calls", re.compile(_FRAME.format(r"vllm/.*model_runner", "execute_model"))),
    (
        _BATCH,
        "python_calls",
        re.compile(_FRAME.format(r"sglang/.*tp_worker", r"forward_batch_\w+")),
    ),
)
_NO_BATCH = re.compile(r"execute_(?:0_)?context_0\(.*generation_0\(")


def step_number(name: str) -> int:
    """Return N of ``ProfilerStep#N``, -1 for any other annotation."""
    found = _STEP.match(name)
    return int(found[1]) if found else -1


def mark_number(name: str) -> int:
    """Return N of profkit's own range ``step#N``, -1 for any other annotation."""
    found = _MARK.match(name)
    return int(found[1]) if found else -1


class StepSpans(NamedTuple):
    """Number, start and end of each step."""

    number: Ints
    start: Ints
    end: Ints

    @classmethod
    def none(cls) -> Self:
        """Return no steps."""
        nothing = np.empty(0, dtype=np.int64)
        return cls(nothing, nothing, nothing)

    def select(self, rows: slice | Ints) -> "StepSpans":
        """Return some of them."""
        return StepSpans(self.number[rows], self.start[rows], self.end[rows])

    def resumed(self, marks: "StepSpans") -> "StepSpans":
        """Return the steps as they were begun again, by the `marks` inside of them.

        Of several marks with one number, the earlier ones end with what belongs to no step, such as
        an evaluation between two steps.
        """
        start = self.start.copy()
        rows = np.argsort(marks.start, kind="stable")
        number, begin = marks.number[rows], marks.start[rows]
        for row in np.flatnonzero(number[1:] == number[:-1]) + 1:
            start[(self.start < begin[row]) & (begin[row] < self.end)] = begin[row]
        return StepSpans(self.number, start, self.end)

    def at(self, times: Ints) -> Ints:
        """Return the step whose span holds each time, -1 outside of all."""
        if not len(self.number):
            return np.full(len(times), -1, dtype=np.int64)
        rows = np.argsort(self.start, kind="stable")
        at = np.searchsorted(self.start[rows], times, side="right") - 1
        found = rows[at.clip(min=0)]
        inside = (at >= 0) & ((times < self.end[found]) | (times == self.start[found]))
        return np.where(inside, self.number[found], -1)


@dataclass(frozen=True, kw_only=True)
class Steps:
    """The steps of one recording."""

    gathered: Gathered
    given: StepSpans | None
    """Steps of a recorder that does not call them ProfilerStep."""

    ended: int = -1
    """How many steps ended, by number from 0; -1 if that is not known."""

    def of(self, rows: Columns) -> DiskColumn:
        """Return the step that each of the recorded `rows` starts in on the CPU."""
        return DiskColumn.of(
            rows.spill, rows.count, (self.host.at(part["start"]) for part in rows.parts())
        )

    @cached_property
    def repeated(self) -> int:
        """How many steps, which do not overlap, have the number of another one."""
        number, start, end = self._marked
        apart = (start[1:] >= end[:-1]).all()
        return len(number) - len(set(number.tolist())) if apart else 0

    @property
    def overlapping(self) -> int:
        """How many steps, each with a number of its own, begin before the one before has ended."""
        number, start, end = self._marked
        distinct = len(number) == len(set(number.tolist()))
        return int((start[1:] < end[:-1]).sum()) if distinct else 0

    @cached_property
    def host(self) -> StepSpans:
        """Steps as annotated on the CPU; where numbers come again, they are counted on."""
        number, start, end = self._marked
        counted = number.min() + np.arange(len(number)) if self.repeated else number
        return StepSpans(counted, start, end)

    @cached_property
    def device(self) -> StepSpans:
        """Steps as the spans of the device work launched in them."""
        # Which of several steps a number means, only the CPU's annotations say.
        return StepSpans.none() if self.repeated else self._numbered("annotations", step_number)

    @cached_property
    def _annotated(self) -> StepSpans:
        return self._numbered("cpu_ops", step_number)

    @property
    def unmarked(self) -> tuple[int, str]:
        """How many steps there are that no one marked, and between what: see `_unnumbered`."""
        is_asked = self.given is None and self.ended < 0
        return (len(self._unnumbered[0].number), self._unnumbered[1]) if is_asked else (0, "")

    @cached_property
    def _unnumbered(self) -> tuple[StepSpans, str]:
        """The time from one range to the next of those that programs repeat, and what these are.

        None where steps were marked.
        """
        for what, table, names in _UNNUMBERED if not len(self._annotated.number) else ():
            spans = self._between(table, names, from_end=what == _UPDATE)
            if len(spans.number):
                return spans, what
        return StepSpans.none(), ""

    def _between(self, table: str, names: re.Pattern[str], *, from_end: bool) -> StepSpans:
        """Return the time from one row of these `names` to the next, if one thread has them."""
        columns = self.gathered.columns(table)
        is_mark = self.gathered.names.mapped(lambda name: bool(names.match(name)), np.bool_)
        rows = columns.select(columns.named(is_mark))
        # Of several optimizers none says where a step ends; batches differ in their names.
        alike = [rows[name] for name in ("pid", "tid", *(["name"] if from_end else []))]
        if len(rows["end"]) < _FEWEST_MARKS or any((one != one[0]).any() for one in alike):
            return StepSpans.none()
        times = rows["end" if from_end else "start"]
        order = np.argsort(times, kind="stable")
        # One runner may call another one.
        is_inner = rows["start"][order][1:] < np.maximum.accumulate(rows["end"][order])[:-1]
        order = order[np.r_[True, ~is_inner]]
        is_empty = self.gathered.names.mapped(lambda name: bool(_NO_BATCH.match(name)), np.bool_)
        filled = np.flatnonzero(~is_empty[rows["name"][order]][:-1])
        return StepSpans(np.arange(len(filled)), times[order][filled], times[order][filled + 1])

    @cached_property
    def _marked(self) -> StepSpans:
        """The steps as they were recorded, in order of time."""
        steps = self._annotated if self.given is None else self.given
        if self.unmarked[0]:
            steps = self._unnumbered[0]
        marked = steps.resumed(self._numbered("cpu_ops", mark_number))
        return marked.select(np.argsort(marked.start, kind="stable"))

    def _numbered(self, table: str, number_of: Callable[[str], int]) -> StepSpans:
        """Return the ranges of a table to whose names `number_of` gives a number."""
        columns = self.gathered.columns(table)
        numbers = self.gathered.names.mapped(number_of, np.int64)
        if self.ended >= 0:
            numbers = np.where(numbers < self.ended, numbers, -1)
        steps = columns.select(columns.named(numbers >= 0))
        return StepSpans(numbers[steps["name"]], steps["start"], steps["end"])
