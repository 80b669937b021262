"""What the patterns find in the recording of one rank, whose rows carry what they are charged."""

import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from profkit.analyze.division import charges, cpu, gpu, thread_waits
from profkit.analyze.division.cpu_threads import PYTHON
from profkit.analyze.division.found_in_parts import Found
from profkit.analyze.division.long_steps import (
    SampledSteps,
    SeldomCall,
    calls_within,
    sampled_steps,
    seldom_calls,
)
from profkit.analyze.division.partition import Partition, spans_of
from profkit.analyze.division.recorded_rank import RecordedRank
from profkit.analyze.shared import intervals
from profkit.analyze.shared.calls_apart import CallApart
from profkit.analyze.shared.intervals import Intervals
from profkit.analyze.shared.step_windows import filtered
from profkit.core.verdict import TIME_SHARE, Confidence
from profkit.patterns import patterns, recompilation
from profkit.patterns.base import CAUSE_COLUMNS, CHARGED, Match, Pattern, Step, worthwhile
from profkit.tables.tree_paths import SEPARATOR

_PER_STEP = "calls_per_step"
_RECOMPILATION = "recompilation"
_COMPILES = re.compile(recompilation.COMPILES)
_NS_PER_MS = 1e6
_OPS = "cpu_ops"
_MOSTLY = 0.5
_MUCH = 0.3
_IN_EACH = "in each step"
_UNNAMED = "work_beside_the_model"
"""The pattern that knows no more of a call in some steps than that it is made there alone."""
_PARTS_AT_ONCE = 4
"""Parts of a rank that patterns look at together: about a million operators."""

_COLUMNS = (
    *("pattern", "title", "cause", "advice", "covered_ms", "place", "confidence", "source"),
    *("also", "evidence", "in_steps"),
)


def matches(  # noqa: PLR0913, PLR0917 (what is divided, and what is known of it)
    rank: RecordedRank,
    time: Partition,
    causes: pd.DataFrame,
    known: Mapping[str, Any],
    ranks: int,
    slowdown: float,
) -> pd.DataFrame:
    """Return what the patterns find in the periods of `rank`, the largest gain first.

    `causes` are its own, `known` has the tables and settings that patterns may name besides. For
    `ranks` and `slowdown` see `Step`.
    """
    known = {**known, "causes": causes[list(CAUSE_COLUMNS)]}
    step_of = partial(_step, ranks=ranks, slowdown=max(slowdown, 1.0))
    whole = step_of(rank)
    within = charges.of_operators(rank, time)
    given = _given(rank, time, within, known) | {"step": whole}
    rank.forget()
    rank.tidy()
    fitting = {name: one for name, one in patterns().items() if _fits(one, rank)}
    in_parts = {
        name: one for name, one in fitting.items() if rank.parts_of_ops and _OPS in one.parameters
    }
    found = {name: Found() for name in fitting}
    for name in [name for name in fitting if name not in in_parts]:
        found[name].add(whole, fitting[name].found(given))
        rank.tidy()
    for part in _parts(rank) if in_parts else ():
        of_part = _given(part, time, within, known) | {"step": step_of(part)}
        of_part["causes"] = _causes_of_part(part, given["causes"], of_part["step"].ms / whole.ms)
        part.forget()
        for name, pattern in in_parts.items():
            found[name].add(of_part["step"], pattern.found(of_part))
        del of_part
    steady = [
        (name, match)
        for name, of in found.items()
        for match in worthwhile(of.matches(whole.count), whole)
    ]
    rows = [_row(name, match, whole) for name, match in steady]
    in_some, calls = _in_some_steps(rank, given, {(name, match.place) for name, match in steady})
    rows = _with_seldom_calls([*rows, *in_some], calls)
    made = pd.DataFrame(rows, columns=list(_COLUMNS))
    return made.sort_values("covered_ms", ascending=False, ignore_index=True, kind="stable")


def _fits(pattern: Pattern, rank: RecordedRank) -> bool:
    return not (pattern.without_gpu and len(rank.kernels))


def _step(rank: RecordedRank, ranks: int, slowdown: float) -> Step:
    length = float((rank.windows[:, 1] - rank.windows[:, 0]).mean())
    ms = length / _NS_PER_MS
    return Step(count=len(rank.periods), ms=ms, ranks=ranks, slowdown=slowdown)


def _parts(rank: RecordedRank) -> Iterator[RecordedRank]:
    """Yield the parts of a rank of which there is no room for all operators, with their periods."""
    for part in rank.in_parts(_PARTS_AT_ONCE):
        of_part = np.isin(rank.periods["step"], np.unique(part.ops["step"]))
        periods = rank.periods[of_part]
        if _is_whole(rank):
            start = np.maximum(periods["start_ns"], part.ops["start_ns"].min())
            end = np.minimum(periods["end_ns"], part.ops["end_ns"].max())
            periods = periods.assign(start_ns=start, end_ns=end)[(start < end).to_numpy()]
        if len(periods):
            yield replace(part, periods=periods.reset_index(drop=True))


def _is_whole(rank: RecordedRank) -> bool:
    """Tell whether the only period is all that was recorded."""
    return bool((rank.periods["step"] < 0).all())


def _causes_of_part(part: RecordedRank, causes: pd.DataFrame, share: float) -> pd.DataFrame:
    """Return the `causes` of a step in these steps; of the only one a part has its `share`."""
    if not _is_whole(part):
        return causes
    return causes.assign(**{name: causes[name] * share for name in ("ms_per_step", "gain_ms")})


def _row(name: str, match: Match, step: Step, in_steps: str = "") -> dict[str, Any]:
    pattern, ns_per_ms = patterns().get(name), step.count * _NS_PER_MS
    evidence = match.evidence
    if in_steps:
        # How often in a step says nothing of what most steps have not.
        evidence = {name: of for name, of in evidence.items() if name != _PER_STEP}
        evidence[TIME_SHARE] = match.gain_ns / (ns_per_ms * step.ms)
    return {
        "pattern": name,
        "title": pattern.title if pattern else "",
        "cause": match.cause,
        "advice": match.advice,
        "covered_ms": match.gain_ns / ns_per_ms,
        "place": match.place,
        "confidence": match.confidence.value,
        "source": pattern.source if pattern else "",
        "also": json.dumps({also: ns / ns_per_ms for also, ns in match.also.items()}),
        "evidence": json.dumps(evidence),
        "in_steps": in_steps,
    }


def _in_some_steps(
    rank: RecordedRank, given: Mapping[str, Any], steady: Container[tuple[str, str]]
) -> tuple[list[dict[str, Any]], list[SeldomCall]]:
    """Return what patterns find in long steps after the trace alone, but for what is `steady`.

    And the calls that are made in these alone.
    """
    steps = sampled_steps(rank, of_rank(rank.where, given["sampled_steps"]))
    if steps is None:
        return [], []
    # No operator was recorded then: all that is known is where the program was.
    known = {**{name: given[name].iloc[:0] for name in ("causes", "cpu_ops")}, "step": steps.step}
    long, usual = (calls_within(rank, spans) for spans in (steps.long, steps.usual))
    long_ns, usual_ns = (int(np.diff(spans).sum()) for spans in (steps.long, steps.usual))
    of_python = {
        name: pattern
        for name, pattern in patterns().items()
        if {*pattern.parameters} == {"python_calls", *known}
        and not (name == _UNNAMED or pattern.title.endswith(_IN_EACH))
    }
    found = []
    for name, pattern in of_python.items():
        often = {
            match.place: match.gain_ns / usual_ns
            for match in pattern.matches({**known, "python_calls": usual})
        }
        found += [
            _row(name, match, steps.step, _counted(pattern, match.place, steps, known, long))
            for match in pattern.matches({**known, "python_calls": long})
            if often.get(match.place, 0.0) < _MOSTLY * match.gain_ns / long_ns
            and (name, match.place) not in steady
        ]
    return found, [*seldom_calls(rank, steps, long, usual)]


def _with_seldom_calls(
    found: Sequence[dict[str, Any]], calls: Iterable[SeldomCall]
) -> list[dict[str, Any]]:
    """Return what patterns `found`, and of other calls in long steps alone that they are made.

    What a pattern knows of most of a call goes before that, and what it knows of less goes without
    saying. What it found in a traced step that makes the call says what to do about that, and
    nothing of other steps.
    """
    rows = list(found)
    for call in calls:
        apart = call.apart
        made = _row("", _match(call), call.of, f"{call.steps} of {call.of.count}")
        places = set(SEPARATOR.join(apart.stacks).split(SEPARATOR))
        inside = [row for row in rows if row["in_steps"] and row["place"] in places]
        traced = [row for row in rows if not row["in_steps"] and _is_of(row, apart)]
        rows = [row for row in rows if row not in traced]
        if any(row["covered_ms"] >= _MOSTLY * made["covered_ms"] for row in inside):
            continue
        if _compiles(apart):
            if any(row["pattern"] == _RECOMPILATION for row in rows):
                continue
            pattern = patterns()[_RECOMPILATION]
            made |= {"pattern": _RECOMPILATION, "title": pattern.title, "source": pattern.source}
            made["advice"] = recompilation.ADVICE
        else:
            made["title"] = apart.call or "Work"
        named = [row for row in traced if row["pattern"] != _UNNAMED]
        if named:
            most = max(named, key=lambda row: float(row["covered_ms"]))
            made |= {key: most[key] for key in ("pattern", "title", "advice", "place", "source")}
        rows = [*(row for row in rows if row not in inside), made]
    return rows


def _compiles(apart: CallApart) -> bool:
    """Say whether most of what is called is the compiler at work."""
    found = sum(
        any(_COMPILES.match(frame) for frame in stack.split(SEPARATOR)) for stack in apart.stacks
    )
    return found > len(apart.stacks) / 2


def _is_of(row: Mapping[str, Any], apart: CallApart) -> bool:
    """Say whether a pattern found a call that is made apart: in its frames, or at its line.

    A library may make it at a line of the program that each step has as well, but not each time.
    """
    is_seldom = float(json.loads(row["evidence"]).get(_PER_STEP, 1.0)) < 1
    return row["place"] in apart.frames or (is_seldom and row["place"] == apart.place)


def _match(call: SeldomCall) -> Match:
    apart = call.apart
    line = f": most of it is in {apart.line}" if apart.line else ""
    batches = (
        f"Calls of the model take {apart.model_share:.0%} of it: give it more inputs in each, as "
        "of several environments or requests at once. "
    )
    waits = apart.call.startswith("torch.distributed.")
    return Match(
        cause=PYTHON,
        advice="It waits for other ranks: share out among all ranks what one of them does then, as "
        "evaluation or a checkpoint, or do it less often."
        if waits
        else batches * (apart.model_share >= _MUCH)
        + f"Do it less often, or make it cheaper{line}.",
        gain_ns=call.apart.spent_ns,
        place=call.apart.place,
        confidence=Confidence.MEDIUM,
    )


def _counted(
    pattern: Pattern, place: str, steps: SampledSteps, known: Mapping[str, Any], calls: pd.DataFrame
) -> str:
    """Return in how many of the `steps` a pattern finds something at a `place`, in words."""
    spans = spans_of(calls)
    count = 0
    for span, step in steps.each():
        theirs = {"python_calls": calls[intervals.overlap(spans, span) > 0], "step": step}
        count += any(match.place == place for match in pattern.found({**known, **theirs}))
    return f"{count} of {steps.step.count}"


def _given(
    rank: RecordedRank, time: Partition, within: Intervals, known: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the tables that patterns look at: rows of the periods, with what they are charged.

    Operators are charged with time `within` a union, see `charges.of_operators`. All of a step
    are given: where the first period begins with what the GPU does of it, most came before.
    """
    own = {name: of_rank(rank.where, known[name]) for name in _OF_RANK}
    python = rank.python.assign(**{CHARGED: charges.of_python(rank, _working(rank, time))})
    tables = own | {
        "cpu_ops": rank.ops.assign(**{CHARGED: charges.of_ops(rank, within)}),
        "kernels": rank.kernels.assign(**{CHARGED: charges.of_kernels(rank, time)}),
        "runtime_calls": rank.calls.assign(**{CHARGED: charges.of_calls(rank, time)}),
        "python_calls": python,
        "processes": _with_waits(rank, time, own["processes"]),
    }
    first, last = int(rank.windows[:, 0].min()), int(rank.windows[:, 1].max())
    of_steps: dict[str, Any] = {}
    if len(rank.kernels):
        of_steps = {_OPS: tables[_OPS]["step"].isin(rank.periods["step"])}
    inside = {
        name: filtered(
            rows,
            ((rows["start_ns"] < last) & (rows["end_ns"] >= first)) | of_steps.get(name, False),
        )
        for name, rows in tables.items()
    }
    timeless = {name: of_rank(rank.where, known[name]) for name in _TIMELESS}
    looks = rank.threads["time_ns"].between(first, last)
    threads = {"python_threads": filtered(rank.threads, looks)}
    return {**known, **inside, **timeless, **threads}


def _working(rank: RecordedRank, time: Partition) -> Intervals:
    """Return the periods; of a rank without a GPU without its waiting and communication."""
    windows = intervals.union(rank.windows)
    if len(rank.kernels):
        return windows
    return intervals.difference(windows, charges.union_of(time, gpu.EXPOSED, *thread_waits.CAUSES))


_OF_RANK = ("annotations", "collectives", "processes", "steps")
INPUTS = ("padded_inputs", "given_labels", "repeated_inputs")
"""Tables of what models are given."""

_TIMELESS = ("devices", *INPUTS, "worker_samples")


def _with_waits(rank: RecordedRank, time: Partition, processes: pd.DataFrame) -> pd.DataFrame:
    """Return `processes` charged with the time in operators in which the thread had no core."""
    waited = thread_waits.off_core_ns(rank, time.spans(cpu.COMPUTING))
    return processes.assign(**{CHARGED: waited // max(len(processes), 1)})


def of_rank(where: tuple[int, int], rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of one rank and repeat."""
    return rows[((rows["rank"] == where[0]) & (rows["repeat"] == where[1])).to_numpy()]
