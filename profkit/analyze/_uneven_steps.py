"""Whether the time is that of steps, and one costs what the step time says."""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from statistics import fmean
from typing import Any

from profkit.analyze.division import phases
from profkit.analyze.division.trust import MOST_VARIATION
from profkit.analyze.shared.step_times import (
    BETWEEN_STEPS,
    BETWEEN_STEPS_BY_CALL,
    GROWTH,
)
from profkit.core.formatting import counted, duration
from profkit.core.result import Finding, Result
from profkit.core.step_time import UNEVEN, is_mean_of_uneven, unprofiled_mean
from profkit.core.verdict import TIME_SHARE, Action, Confidence, Evidence, Trust

SLOW_STEPS = "slow_steps"
"""Evidence of an action on slow steps that were not traced: which part of the steps they are."""

_MOST = 0.5
_MUCH = 0.3
"""Part of the time between steps from which on a call is named."""
_GROWN = 0.3
"""Growth from the first third of the steps to the last that is worth a change."""
_TRACED = 4.0
"""How many times as long a step may take with the profiler, at most."""
_NS_PER_MS = 1e6
_GROW = ("prefix_computed_again", "growing_cache")
"""Patterns of programs whose steps grow."""

_LOADERS = tuple(
    f"torch.utils.data.dataloader.{name}"
    for name in ("__init__", "__iter__", "__del__", "_shutdown_workers")
)
"""Calls in which the workers of a DataLoader are started or ended."""
_OF_WORKERS = "keep one iterator, or workers with `persistent_workers=True`, not new ones each time"
_OF_CALLS = "do it less often, or make it cheaper"
_OF_ROLLOUTS = "let it act in more environments at a time, or make their steps cheaper"
_ROLLS_OUT = re.compile(r"rollout|(?:^|[._])(?:collect|gather)_\w*(?:experience|trajector|episode)")

_BETWEEN = f"python.{phases.BETWEEN}"


def between_steps(steps: Result | None) -> Iterator[Trust]:
    """Yield the check that fails if much of the time passes between steps."""
    if steps and (found := steps.metrics.get(BETWEEN_STEPS)):
        call = _largest_between(steps).get("call")
        where = f"mostly in `{call}`" if call else "as in evaluation"
        message = (
            f"{found.value:.0%} of the time passes between steps, {where}: the step time and its "
            "causes are of the rest."
        )
        yield Trust(check="between steps", passed=False, message=message)


def beside_steps(steps: Result | None, *, memory_grows: bool) -> list[Action]:
    """Return what to do about the run that causes of a step do not show, the largest gain first.

    That is where much time passes between steps, and where steps and the memory of the process
    grow: other programs slow steps down too, but take none of its memory.
    """
    step = steps.metrics.get("step_time_ns") if steps else None
    if steps is None or step is None:
        return []
    found = [*_between(steps, step.value), *(_growing(steps, step.value) if memory_grows else ())]
    return sorted(found, key=lambda action: -action.gain_ms)


def not_said_beside(actions: Iterable[Action], steps: Result | None) -> list[Action]:
    """Return the actions but for those on time between steps, if that of the run is known.

    What is done between two steps belongs to the one before in a trace, which has few of them.
    """
    is_known = steps is not None and BETWEEN_STEPS in steps.metrics
    return [one for one in actions if not (is_known and one.cause.startswith(_BETWEEN))]


def is_most(action: Action) -> bool:
    """Say whether an action of `beside_steps` or `slow_steps` is about most of the time."""
    share = float(action.evidence.get(TIME_SHARE, 0.0))
    return share >= _MOST and action.confidence is not Confidence.LOW


def time_in_some_steps(matches: Iterable[Mapping[str, Any]]) -> float:
    """Return the share of the time that is spent in some steps only, from rows of `matches`."""
    found = (json.loads(row["evidence"]) for row in matches if row["in_steps"])
    return sum(float(evidence.get(TIME_SHARE, 0.0)) for evidence in found)


def with_known_variation(
    checks: Iterable[Trust], matches: Iterable[Mapping[str, Any]]
) -> list[Trust]:
    """Return the checks, of which that of the variation passes where what is known explains it.

    That is what `matches` found in some steps only: a share s of the time in a part p of the steps
    makes these vary by s times the square root of (1 - p) / p.
    """
    most = 0.0
    for row in matches:
        if row["in_steps"]:
            made, of = (int(number.replace(",", "")) for number in row["in_steps"].split(" of "))
            share = float(json.loads(row["evidence"]).get(TIME_SHARE, 0.0))
            # A pattern may see a place in all long steps together, and in none alone.
            most = max(most, share * math.sqrt((of - made) / max(made, 1)))
    why = " Work that only some of them do explains that."
    return [
        replace(check, passed=True, message=f"{check.message}{why}")
        if check.check == "variation" and not check.passed and most >= MOST_VARIATION
        else check
        for check in checks
    ]


def slow_steps(
    steps: Result | None, known: float, traced_ms: float, behaviour: Mapping[str, Any], *, gpu: bool
) -> Iterator[Action]:
    """Yield what to do where a few slow steps take much of the time, and were not looked at.

    Without a `gpu`, all steps were looked at unless the program was ended early. `known` is the
    share of the time that is known to be spent in some steps only. If a traced step, of
    `traced_ms`, is as slow as the mean, or far slower than a profiler makes the median one, slow
    steps were traced. One slow step may be chance.
    """
    mean = unprofiled_mean(steps) if steps else None
    is_ended = bool(behaviour.get("workload", {}).get("stop_after"))
    if steps is None or mean is None or not (gpu or is_ended):
        return
    usual = fmean(float(row["median_ns"]) for row in steps.tables["per_repeat"].records())
    share = 1 - usual / mean.value
    if share - known < _MUCH or traced_ms * _NS_PER_MS >= min(mean.value, _TRACED * usual):
        return
    times = [float(row["step_time_ns"]) for row in steps.tables["clock"].records()]
    slow = [time for time in times if time > UNEVEN * usual]
    if not slow:  # there was no room for them in the table
        return
    yield Action(
        cause="",
        title="Slow steps, none of them traced",
        advice=(
            f"{len(slow)} of {counted(len(times), 'unprofiled step')} took "
            f"{duration(fmean(slow))}, the median {duration(usual)}, as with evaluation or logs: "
            f"{'`+tool=py_spy` shows its lines' if gpu else '`--all` looks at all steps'}."
        ),
        gain_ms=share * mean.value / _NS_PER_MS,
        confidence=Confidence.MEDIUM if is_mean_of_uneven(mean) else Confidence.LOW,
        evidence={TIME_SHARE: share, SLOW_STEPS: f"{len(slow)} of {len(times)}"},
        source="https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
    )


def _between(steps: Result, step_ns: float) -> Iterator[Action]:
    if found := steps.metrics.get(BETWEEN_STEPS):
        title = f"{'Most' if found.value >= _MOST else 'Much'} of the time passes between steps"
        largest = _largest_between(steps)
        place, call, line = (str(largest.get(name, "")) for name in ("place", "call", "line"))
        what = (
            f"`{call}` takes {largest['share']:.0%} of that"
            if call
            else "It is evaluation, checkpoints or logs, as a rule"
        )
        of_call: Evidence = {"call": call, "call_share": largest["share"]} if call else {}
        yield Action(
            cause="",
            title=title,
            place=place,
            advice=(
                f"{what}: {_less_often(call)}"
                f"{f', most of it in {line}' if line else ''}."
                f"{'' if place else ' `+tool=py_spy` shows its lines.'}"
            ),
            gain_ms=step_ns * found.value / (1 - found.value) / _NS_PER_MS,
            evidence={TIME_SHARE: found.value, **of_call},
            source="https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
        )


def _less_often(call: str) -> str:
    """Return what to do about a call between steps."""
    if _ROLLS_OUT.search(call):
        return _OF_ROLLOUTS
    return _OF_WORKERS if call in _LOADERS else _OF_CALLS


def _largest_between(steps: Result) -> Mapping[str, Any]:
    """Return the row of the call that takes most of the time between steps, if it is much."""
    found = steps.tables.get(BETWEEN_STEPS_BY_CALL)
    row = next(iter(found.records()), None) if found else None
    return row if row and row["share"] >= _MUCH else {}


def _growing(steps: Result, step_ns: float) -> Iterator[Action]:
    for finding in _growth(steps):
        first, last = (float(finding.evidence[name]) for name in ("first_ns", "last_ns"))
        if finding.value >= _GROWN:
            yield Action(
                cause="",
                title="Steps take longer and longer",
                advice=(
                    "Pass states on with `.detach()`, and keep no graph, list or hook of earlier "
                    f"steps: {duration(first)} became {duration(last)}, and the memory grows."
                ),
                gain_ms=max(step_ns - first, 0.0) / _NS_PER_MS,
                source="https://docs.pytorch.org/docs/stable/notes/faq.html",
            )


def _growth(steps: Result | None) -> list[Finding]:
    return [one for one in steps.findings if one.metric == f"steps.{GROWTH}"] if steps else []


def growing_steps(steps: Result | None, matches: Iterable[Mapping[str, Any]]) -> Iterator[Trust]:
    """Yield the check that fails if later steps take longer than those that were recorded.

    It passes where `matches` say why they do.
    """
    is_known = any(row["pattern"] in _GROW for row in matches)
    for finding in _growth(steps):
        message = f"{finding.message} {finding.advice}"
        yield Trust(check="growing steps", passed=is_known, message=message)


def uneven_steps(
    steps: Result | None, known: float, *, loads_data: bool, sizes_vary: bool
) -> Iterator[Trust]:
    """Yield the check that fails if unprofiled steps take far more, or less, than the median one.

    It passes where most of the difference is `known`: the share of the time in some steps only.
    Where `sizes_vary` in traced steps, they do in others.
    The batches of several DataLoader workers arrive together: of two workers, each second step
    waits for twice the time that a step takes, and the others do not wait.
    """
    if steps is None or "per_repeat" not in steps.tables:
        return
    rows = steps.tables["per_repeat"].records()
    mean, median = (fmean(float(row[name]) for row in rows) for name in ("mean_ns", "median_ns"))
    if max(mean, median) <= UNEVEN * min(mean, median):
        return
    is_known = known >= _MOST * (1 - median / mean) > 0
    chance = ", or other programs have the cores"
    why = (
        "as the program does more in some of them"
        if is_known
        else "as the sizes of tensors are not the same in all of them"
        if sizes_vary
        else f"as where the batches of several DataLoader workers come together{chance}"
        if loads_data
        else f"as where the program does more in some of them{chance}"
    )
    many = (
        f"some are far slower than others, {why}"
        if mean > median
        else "some are far faster than others"
    )
    message = (
        f"Unprofiled steps are uneven, so their mean counts, {duration(mean)}, and not the median, "
        f"{duration(median)}: {many}."
        if is_mean_of_uneven(steps.metrics.get("step_time_ns"))
        else f"A few unprofiled steps are so slow that the mean is {duration(mean)}, and the step "
        f"time, the median, {duration(median)}."
    )
    yield Trust(check="uneven steps", passed=is_known, message=message)
