"""What is worth doing about a step, in the order in which to do it."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from profkit.analyze._actions_of_patterns import of_patterns, of_some_steps
from profkit.analyze._cause_advice import actions, is_bound_by_launches
from profkit.analyze._communication_advice import without_types
from profkit.analyze.division import gpu, names
from profkit.analyze.division.details import COVERS
from profkit.core.verdict import Action, Cause, Confidence, Limiter
from profkit.patterns._parameter_loops import IS_UPDATE

_ALONE = ("single_rows",)
"""Patterns on how the program is used, which come last, and only if they gain more than others."""
_GENERAL = ("short_operators", "work_beside_the_model", "python_in_the_model")
"""Patterns that fit whatever a line computes."""
_OF_TYPES = "fp32_reductions"
_NO_LESS = 0.5
_UNSURE = 0.5
_MOSTLY = 0.5
_GOING_ON = ("short_kernels", "too_few_workers")

_OF_RANKS = {Limiter.STRAGGLER, Limiter.COMMUNICATION}
_OF_THE_CPU = (Limiter.CPU, Limiter.INPUT)
_WAITS = {Limiter.STRAGGLER: "as ranks wait", Limiter.WAITING: "as the step waits"}


def worthwhile(
    spoken: Sequence[Cause],
    matches: Iterable[Mapping[str, Any]],
    least_ms: float,
    least_unsure_ms: float,
) -> list[Action]:
    """Return what can be done that gains enough to be worth it, more if that is unsure.

    Of what is not even likely, half is taken to be there, as in `in_order`.
    """
    rows = _said_once(matches)
    found, explained = of_patterns(spoken, [row for row in rows if not row["in_steps"]])
    left = _without_gains(_without_parts_of(spoken, explained), found)
    seldom = of_some_steps(row for row in rows if row["in_steps"])
    apart = (one for one in seldom if not any(_is_within(one, other) for other in found))
    others = actions(left, explained)
    if any(one.pattern == _OF_TYPES for one in found):
        others = map(without_types, others)
    known = [*found, *others, *apart]
    least = {
        Confidence.HIGH: least_ms,
        Confidence.MEDIUM: least_unsure_ms,
        Confidence.LOW: least_unsure_ms / _UNSURE,
    }
    worth = [action for action in known if action.gain_ms >= least[action.confidence]]
    most = max((one.gain_ms for one in worth if one.pattern not in _ALONE), default=0.0)
    return [one for one in worth if one.pattern not in _ALONE or one.gain_ms > most]


def of_all(action: Action) -> Action:
    """Return an action on a recording without steps: what it counts is in all that was recorded."""
    numbers = {name.removesuffix("_per_step"): value for name, value in action.evidence.items()}
    advice = re.sub(r" (?:(?:per|in a) step|(?<=times )a step)\b", "", action.advice)
    return replace(action, advice=advice, evidence=numbers)


def _is_within(seldom: Action, action: Action) -> bool:
    """Tell whether a call in some steps is of the function that an action is about."""
    file, _, function = action.place.rpartition("/")[2].partition(".py(")
    called = seldom.title.partition(",")[0]
    is_same = bool(function) and called == f"{file}.{function.partition(': ')[2]}"
    return is_same and not seldom.pattern and seldom.gain_ms <= action.gain_ms


def _said_once(matches: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the rows of matches, of those on the same loop over parameters the largest.

    What is said of any line gives way to what is known of that one, unless it gains far more.
    """
    rows = list(matches)
    known: dict[tuple[str, str], float] = {}
    for row in rows:
        if row["pattern"] not in _GENERAL and ".py(" in row["place"]:
            line = row["place"], row["in_steps"]
            known[line] = max(float(row["covered_ms"]), known.get(line, 0.0))
    rows = [
        row
        for row in rows
        if row["pattern"] not in _GENERAL
        or known.get((row["place"], row["in_steps"]), 0.0) < _NO_LESS * float(row["covered_ms"])
    ]
    alike = [row for row in rows if IS_UPDATE.items() <= json.loads(row["evidence"]).items()]
    largest = max(alike, key=lambda row: float(row["covered_ms"]), default=None)
    return [row for row in rows if row is largest or row not in alike]


def likely_ms(action: Action) -> float:
    """Return what an action gains in a step, of one that is not even likely half of it."""
    return action.gain_ms * (_UNSURE if action.confidence is Confidence.LOW else 1.0)


def in_order(worth: Sequence[Action], limiter: Limiter) -> list[Action]:
    """Return the actions, the largest gain first, but for those on what the GPU waits for.

    These come before others of up to twice their gain, and say so: gains of computing are bounds by
    assumption. Where computing is the limiter they have no precedence, nor where there is no GPU
    that waits for the CPU. So do actions that are sure come before those that are not.
    """
    alone = [action for action in worth if action.pattern in _ALONE]
    worth = [action for action in worth if action.pattern not in _ALONE]
    most = max((action.gain_ms for action in worth), default=0.0)
    least = _NO_LESS * most
    of_gpu = any(action.cause.startswith(gpu.IDLE) for action in worth)
    waits = limiter is not Limiter.GPU and (of_gpu or limiter is not Limiter.CPU)

    def order(action: Action) -> tuple[bool, float]:
        of_action = names.limiter(action.cause)
        # Waiting for ranks and what follows are one communication.
        is_same = of_action is limiter or {of_action, limiter} == _OF_RANKS
        is_on = waits and is_same and likely_ms(action) >= least
        return (not is_on, -likely_ms(action))

    ordered = sorted(worth, key=order)
    if ordered and ordered[0].gain_ms < most:
        largest = max(worth, key=lambda action: action.gain_ms)
        is_alike = order(ordered[0])[0] == order(largest)[0]
        why = "as more certain than the next" if is_alike else _as_limited(limiter)
        ordered[0] = replace(ordered[0], title=f"{ordered[0].title} (first, {why})")
    return [*ordered, *alone]


def _as_limited(limiter: Limiter) -> str:
    """Return what limits the step, as a reason."""
    return _WAITS.get(limiter, f"as the step is {limiter}")


def with_those(
    beside: Iterable[Action], ordered: Sequence[Action], step_ms: float, traced_ms: float
) -> list[Action]:
    """Return the `ordered` actions on a traced step with those `beside` the steps of the run.

    An action beside them comes before those that gain a smaller share of a step.
    """
    all_of_them = list(ordered)
    for action in beside:
        gains_less = (
            place
            for place, other in enumerate(all_of_them)
            if likely_ms(other) * step_ms < action.gain_ms * traced_ms
        )
        all_of_them.insert(next(gains_less, len(all_of_them)), action)
    return all_of_them


def after_waits(
    ordered: Sequence[Action], limiter: Limiter, causes: Sequence[Cause]
) -> list[Action]:
    """Return actions, those last and said to come then that shorten what a GPU computes in vain.

    Where it mostly waits for launches or for workers, both of which go on meanwhile, or the CPU is
    the limit or loads, and launches no sooner than it ends, it would only wait longer, until that
    is changed. A profiler makes the CPU slower, so that no gain is less where the GPU is the limit.
    """
    idle = next((cause.share for cause in causes if cause.id == gpu.IDLE), 0.0)
    goes_on = idle > _MOSTLY and bool(ordered) and _goes_on(ordered[0])
    at_once: list[Action] = []
    later: list[Action] = []
    for one in ordered:
        in_vain = goes_on or (limiter in _OF_THE_CPU and is_in_vain(one, causes))
        (later if in_vain and names.limiter(one.cause) is Limiter.GPU else at_once).append(one)
    then = f"(then, {_as_limited(limiter)})" if at_once else ""
    return [*at_once, *(replace(one, title=f"{one.title} {then}".rstrip()) for one in later)]


def is_in_vain(action: Action, causes: Iterable[Cause]) -> bool:
    """Tell whether the GPU would wait for launches instead of most that it computes less."""
    computing = next((one for one in causes if one.id == gpu.COMPUTING), None)
    if computing is None:
        return action.gain_ms > 0
    now_ms = computing.ms_per_step * (1 - float(computing.evidence.get(COVERS, 0.0)))
    return now_ms < _NO_LESS * action.gain_ms


def _goes_on(action: Action) -> bool:
    """Tell whether an action is about what goes on while the GPU computes."""
    return action.pattern in _GOING_ON or (not action.pattern and is_bound_by_launches(action))


def _without_parts_of(causes: Sequence[Cause], explained: frozenset[str]) -> list[Cause]:
    """Return the causes that are neither part of an explained one, nor made of one."""
    return [
        cause
        for cause in causes
        if not explained & set(names.parts_of(cause.id))
        and not names.has_parts(cause.id, explained)
    ]


def _without_gains(causes: Sequence[Cause], found: Sequence[Action]) -> Iterator[Cause]:
    """Yield the causes, each with the gain that the actions on it leave."""
    for cause in causes:
        gained = sum(action.gain_ms for action in found if action.cause == cause.id)
        yield replace(cause, gain_ms=max(cause.gain_ms - gained, 0.0))
