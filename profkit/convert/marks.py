"""marks: phases as annotations and rows of the CPU, and the collectives of each rank."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from profkit.convert._harness_steps import step_of, steps_of
from profkit.convert._json_lines import complete_lines
from profkit.convert.base import Converted, Raw, converter
from profkit.convert.columns.values import LATEST_NS
from profkit.convert.linking.collectives import columns_of
from profkit.convert.linking.impossible import of_messages
from profkit.convert.linking.messages import Message, operation_of
from profkit.core.errors import InputError
from profkit.core.formatting import agreeing, counted
from profkit.tables import schema

_Ns = Annotated[int, msgspec.Meta(gt=-LATEST_NS, lt=LATEST_NS)]
_Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 50)]
_Elements = Annotated[int, msgspec.Meta(ge=-1, lt=1 << 50)]
_Numbers = Annotated[list[_Ns], msgspec.Meta(min_length=4, max_length=5)]


class _Said(msgspec.Struct):
    """What a call says of itself, see `profkit.capture._collective_calls.Message`."""

    operator: str
    group: str
    description: str
    group_size: int
    group_ranks: str
    dtype: str
    in_elements: _Elements
    out_elements: _Elements
    device: str


class _Line(msgspec.Struct):
    """A line of the file: a step, or a message that calls name by its number."""

    message: _Said | None = None
    begin_ns: _Ns = -1
    phases: list[tuple[str, _Ns, _Ns]] = []
    calls: list[_Numbers] = []
    left_out: _Count = 0


class _Call(NamedTuple):
    """One row of `collectives`."""

    message: int
    sequence: int
    call_ns: int
    start_ns: int
    end_ns: int


class _Phase(NamedTuple):
    """One range of the program."""

    name: str
    start_ns: int
    end_ns: int


@converter(
    *("cpu_ops", "kernels", "runtime_calls", "annotations", "python_calls"),
    *("collectives", "devices"),
    pattern="rank*.marks.jsonl",
)
def convert(raw: Raw, out: Path) -> Converted:
    """Read the marks of one rank; its steps are those that its step clock left beside them."""
    del out
    lines, notes = complete_lines(raw.path, _Line)
    said = [line.message for line in lines if line.message is not None]
    steps = [line for line in lines if line.begin_ns >= 0]
    if not steps:
        raise InputError(f"{raw.path}: holds no step", hint="capture again")
    calls = [_call(line.begin_ns, *numbers) for line in steps for numbers in line.calls]
    described = [call for call in calls if 0 <= call.message < len(said)]
    known = [call for call in described if call.end_ns >= 0]
    phases = sorted(
        (
            _Phase(name, line.begin_ns + start, line.begin_ns + start + lasting)
            for line in steps
            for name, start, lasting in line.phases
        ),
        key=lambda phase: (phase.start_ns, -phase.end_ns),
    )
    left_out = sum(line.left_out for line in steps)
    sentences = (
        (left_out, "{} left out: raise tools.marks.bytes_per_step."),
        (len(calls) - len(described), "{} that the file does not describe left out."),
        (len(described) - len(known), "{} without an end left out."),
    )
    notes += [text.format(counted(n, "collective")) for n, text in sentences if n]
    notes += [*of_messages(map(_message, said)), *_contradictions(steps, phases)]
    tables = {
        "collectives": _collectives(known, said, raw),
        "annotations": _annotations(phases, raw),
        "cpu_ops": _cpu_ops(phases, raw),
    }
    nothing = ("kernels", "runtime_calls", "python_calls", "devices")
    tables |= {name: schema.empty(name) for name in nothing}
    return Converted(tables=tables, notes=tuple(notes))


def _contradictions(steps: Sequence[_Line], phases: Sequence[_Phase]) -> Iterator[str]:
    """Yield what steps and phases, which one thread times, say against one another."""
    begins = [step.begin_ns for step in steps]
    if count := sum(after <= before for before, after in pairwise(begins)):
        yield f"{counted(count, 'step')} not later than the one before: the clock was set back."
    outside = sum(
        start < 0 or (after is not None and step.begin_ns + start + lasting > after)
        for step, after in zip(steps, [*begins[1:], None], strict=True)
        for _, start, lasting in step.phases
    )
    if outside:
        yield agreeing(outside, "{} phase[s] outside of the step that [it is|they are] of.")
    if count := sum(phase.end_ns < phase.start_ns for phase in phases):
        yield agreeing(count, "{} phase[s] that end[s|] before [it begins|they begin].")
    if count := sum(
        before.start_ns < after.start_ns < before.end_ns < after.end_ns
        for before, after in pairwise(phases)
    ):
        yield agreeing(count, "{} phase[s] that end[s|] after the phase around [it|them].")


def _call(  # noqa: PLR0913, PLR0917 - the numbers of a row
    begin_ns: int, message: int, sequence: int, called: int, lasting: int, late: int = 0
) -> _Call:
    """Return a call with its times; the GPU may come to it `late`."""
    call_ns = begin_ns + called
    start_ns = call_ns + late
    return _Call(message, sequence, call_ns, start_ns, start_ns + lasting if lasting >= 0 else -1)


def _where(raw: Raw, count: int) -> dict[str, Any]:
    return {"rank": [raw.rank] * count, "repeat": [raw.repeat] * count}


def _collectives(calls: Sequence[_Call], said: Sequence[_Said], raw: Raw) -> pa.Table:
    calls = sorted(calls, key=lambda call: call.start_ns)
    starts = np.array([call.start_ns for call in calls], dtype=np.int64)
    numbers = np.array([call.message for call in calls], dtype=np.int64)
    own: dict[str, Any] = {
        "collective": range(len(calls)),
        "kind": ["device" if said[call.message].device == "cuda" else "host" for call in calls],
        "name": [said[call.message].operator for call in calls],
        "sequence": [call.sequence for call in calls],
        "call_ns": [call.call_ns for call in calls],
        "start_ns": starts,
        "end_ns": [call.end_ns for call in calls],
        "step": step_of(starts, steps_of(raw)),
    }
    described = columns_of([_message(one) for one in said], numbers)
    return schema.table("collectives", _where(raw, len(calls)) | own | described)


def _message(said: _Said) -> Message:
    return Message(
        operation=operation_of(said.operator),
        group=said.group,
        description=said.description,
        ranks=said.group_ranks,
        size=said.group_size,
        given=said.in_elements,
        got=said.out_elements,
        dtype=said.dtype,
    )


def _annotations(phases: Sequence[_Phase], raw: Raw) -> pa.Table:
    return schema.table("annotations", _ranges(phases, raw) | {"kind": ["host"] * len(phases)})


def _cpu_ops(phases: Sequence[_Phase], raw: Raw) -> pa.Table:
    """Return the phases as rows of the CPU, each below the one around it."""
    open_rows: list[int] = []
    parents, own = [], [phase.end_ns - phase.start_ns for phase in phases]
    for row, phase in enumerate(phases):
        while open_rows and phases[open_rows[-1]].end_ns < phase.end_ns:
            open_rows.pop()
        parents.append(open_rows[-1] if open_rows else -1)
        if open_rows:
            own[open_rows[-1]] -= phase.end_ns - phase.start_ns
        open_rows.append(row)
    count = len(phases)
    columns = {"kind": ["annotation"] * count, "parent": parents, "self_ns": own}
    columns |= {"phase": [phase.name for phase in phases], "pid": [0] * count}
    return schema.table("cpu_ops", _ranges(phases, raw) | columns | {"op": range(count)})


def _ranges(phases: Sequence[_Phase], raw: Raw) -> dict[str, Any]:
    starts = np.array([phase.start_ns for phase in phases], dtype=np.int64)
    return {
        **_where(raw, len(phases)),
        "tid": [0] * len(phases),
        "name": [phase.name for phase in phases],
        "start_ns": starts,
        "end_ns": [phase.end_ns for phase in phases],
        "step": step_of(starts, steps_of(raw)),
    }
