"""What patterns found, as things to do: one for each cause, whatever else would explain it."""

import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from profkit.analyze.division import cpu, gpu, names
from profkit.analyze.division.cpu_threads import PYTHON
from profkit.analyze.division.trust import MACHINE
from profkit.core.formatting import counted
from profkit.core.verdict import Action, Cause, Confidence

_WHOLE_PARTS = (gpu.COMPUTING, cpu.COMPUTING, PYTHON)
_EXPLAINED = 0.5
_UNSURE = 1 / 3
_REST = 0.25
_NEARLY_ALL = 0.75
_OF_WORKERS = "too_few_workers"
_OF_IDLE_MACHINES: tuple[str, ...] = ("idle_cores",)
_OF_THE_STEP = ("short_kernels",)
"""Patterns that no line of their cause is the place of."""
_OF_DATA = ("padded_batches",)
_OF_BYTES = ("fp32_reductions",)


def fitting(
    matches: Iterable[dict[str, Any]], failed: Container[str], mine: Iterable[Cause]
) -> list[dict[str, Any]]:
    """Return the matches without advice that a busy machine makes wrong: others need the cores.

    And without what is in the data of a rank that waits for one with more to do, or in the bytes of
    messages which may wait for a rank that was not recorded.
    """
    unfit = _OF_IDLE_MACHINES if MACHINE in failed else ()
    if "ranks" in failed:
        unfit += _OF_BYTES
    if any("flops_ratio" in cause.evidence for cause in mine):
        unfit += _OF_DATA
    return [row for row in matches if row["pattern"] not in unfit]


def with_known_causes(
    matches: Iterable[Mapping[str, Any]], causes: Sequence[Cause]
) -> list[dict[str, Any]]:
    """Return the rows of the table of matches, those of all steps with causes that there are."""
    return [{**row} if row["in_steps"] else _with_known(row, causes) for row in matches]


def _with_known(row: Mapping[str, Any], causes: Sequence[Cause]) -> dict[str, Any]:
    also: dict[str, float] = {}
    for cause, ms in json.loads(row["also"]).items():
        name = _known(cause, causes)
        also[name] = also.get(name, 0.0) + ms
    cause = _known(row["cause"], causes)
    if row["cause"] == gpu.EXPOSED:
        kinds = {one.id: one.ms_per_step for one in causes if one.id.startswith(f"{gpu.EXPOSED}.")}
        own = float(row["covered_ms"]) - sum(also.values())
        share = own / max(sum(kinds.values()), own)
        also |= {name: ms * share for name, ms in kinds.items() if name != cause}
    return {**row, "cause": cause, "also": also}


def with_places_elsewhere(
    causes: Sequence[Cause], matches: Iterable[Mapping[str, Any]]
) -> list[Cause]:
    """Return the causes, one that workers are to blame for at the line that is most of their work.

    The program's own thread waits for them at another one.
    """
    known = {row["cause"]: row["place"] for row in matches if row["pattern"] == _OF_WORKERS}
    return [
        replace(cause, place=known[cause.id]) if ".py(" in known.get(cause.id, "") else cause
        for cause in causes
    ]


def of_patterns(
    spoken: Sequence[Cause], matches: Iterable[Mapping[str, Any]]
) -> tuple[list[Action], frozenset[str]]:
    """Return what the patterns found, as actions, and the ids of the causes that it explains.

    Of several that explain the same cause, the one that gains most counts; unsure ones by a third.
    A smaller one that is certain and has a place counts as well, and its gain is none of the other.
    Communication of which they leave a quarter is not explained, nor is time in which the GPU waits
    for the CPU to launch of which they leave three quarters: that has other advice.
    """
    known = {cause.id: cause for cause in spoken}
    found: dict[str, Action] = {}
    certain: dict[str, Action] = {}
    for row in sorted(matches, key=_weight, reverse=True):
        if (cause := known.get(row["cause"])) is None:
            continue
        also = {name: ms for name, ms in row["also"].items() if name in known}
        action = _of_match(row, cause, also, known)
        if (general := found.get(cause.id)) is not None:
            if _is_specific(action) and not _is_specific(general):
                certain.setdefault(cause.id, action)
            continue
        if sum(ms for name, ms in also.items() if name in found) >= _EXPLAINED * row["covered_ms"]:
            continue
        if any(_is_same(action, other) for other in found.values()):
            continue
        shared = sum(_gains_there(action, also, found))
        if shared >= _EXPLAINED * action.gain_ms:
            continue
        action = replace(action, gain_ms=action.gain_ms - shared)
        most = [name for name, ms in also.items() if ms >= _EXPLAINED * known[name].gain_ms]
        found |= {name: action for name in (cause.id, *most) if name not in found}
    less = {id(found[cause]): action.gain_ms for cause, action in certain.items()}
    general_ones = {id(action): action for action in found.values()}
    rest = [
        replace(action, gain_ms=action.gain_ms - less.get(key, 0.0))
        for key, action in general_ones.items()
    ]
    explained = {name for name, action in found.items() if not _has_rest(action, known[name])}
    return [*rest, *certain.values()], frozenset(explained)


def _has_rest(action: Action, cause: Cause) -> bool:
    """Tell whether an action leaves so much of its cause that this has advice of its own."""
    if cause.id != action.cause:
        return False
    left = cause.gain_ms - action.gain_ms
    if cause.id == f"{gpu.IDLE}.{PYTHON}":
        return left >= _NEARLY_ALL * cause.gain_ms
    return cause.id.startswith(gpu.EXPOSED) and left >= _REST * cause.gain_ms


def _is_same(action: Action, other: Action) -> bool:
    """Tell whether two actions are about the time of one line."""
    above, below = sorted((names.parts_of(action.cause), names.parts_of(other.cause)), key=len)
    return ".py(" in action.place and action.place == other.place and above[-1] in below


def _gains_there(
    action: Action, also: Iterable[str], found: Mapping[str, Action]
) -> Iterator[float]:
    """Yield the gains of those `found` in the same line, of causes that it is also about."""
    about = {*also}
    for other in {id(other): other for other in found.values()}.values():
        is_in_line = ".py(" in action.place and action.place == other.place
        if is_in_line and about.intersection(names.parts_of(other.cause)):
            yield other.gain_ms


def _is_specific(action: Action) -> bool:
    return bool(action.place) and action.confidence is Confidence.HIGH


def _of_match(
    row: Mapping[str, Any], cause: Cause, also: Mapping[str, float], known: Mapping[str, Cause]
) -> Action:
    # An operator or a line is the example of a pattern, whose gain lies in the part of the step.
    parts: dict[str, float] = {}
    for name, ms in (*also.items(), (cause.id, row["covered_ms"] - sum(also.values()))):
        part = _part(name, known).id
        parts[part] = parts.get(part, 0.0) + ms
    gain_ms = sum(min(ms, known[part].gain_ms) for part, ms in parts.items())
    where = "" if row["pattern"] in _OF_THE_STEP else _line(row["place"], cause.place)
    return _action(row, cause.id, gain_ms, where)


def of_some_steps(matches: Iterable[Mapping[str, Any]]) -> list[Action]:
    """Return what the patterns found in some steps alone, of each place what gains most.

    Places with the same advice are one thing to do: a program that starts workers anew waits for
    them in one line, and makes them in another one.
    """
    found: dict[str, Action] = {}
    for row in sorted(matches, key=_weight, reverse=True):
        action = _action(row, row["cause"], row["covered_ms"], row["place"])
        title = f"{row['title']}, in {counted(row['in_steps'], 'step')}"
        action = replace(action, title=title, in_steps=row["in_steps"])
        if all((one.title, one.advice) != (title, action.advice) for one in found.values()):
            found.setdefault(action.place, action)
    return list(found.values())


def _action(row: Mapping[str, Any], cause: str, gain_ms: float, place: str) -> Action:
    return Action(
        cause=cause,
        title=row["title"],
        advice=row["advice"],
        gain_ms=gain_ms,
        place=place,
        confidence=Confidence(row["confidence"]),
        source=row["source"],
        pattern=row["pattern"],
        evidence=json.loads(row["evidence"]),
    )


def _weight(row: Mapping[str, Any]) -> float:
    is_unsure = Confidence(row["confidence"]) is Confidence.LOW
    return float(row["covered_ms"]) * (_UNSURE if is_unsure else 1.0)


def _known(cause: str, causes: Sequence[Cause]) -> str:
    """Return the id that a pattern names, or the nearest above it where it is too small for one.

    What the GPU does not wait for has no id below idle time: then it is none of its causes. Of
    communication it is the kind that takes most; the others have their part of it as well.
    """
    times = {known.id: known.ms_per_step for known in causes}
    above = [name for name in reversed(names.parts_of(cause)) if name in times]
    found = next((name for name in above if name == cause or name != gpu.IDLE), "")
    if found != gpu.EXPOSED:
        return found
    kinds = (name for name in times if name.startswith(f"{found}."))
    return max(kinds, key=lambda name: times[name], default=found)


def _line(of_pattern: str, of_cause: str) -> str:
    """Return the place of a pattern, or that of its cause if only that is a line."""
    return (
        of_cause
        if not of_pattern or (".py(" in of_cause and ".py(" not in of_pattern)
        else of_pattern
    )


def _part(cause: str, known: Mapping[str, Cause]) -> Cause:
    """Return the part of the step that `cause` belongs to: itself, or what it is an example of.

    The share of each line in the time of a pattern is an estimate: lines part that of all Python.
    """
    above = [name for name in names.parts_of(cause) if name in known]
    return known[above[0] if above[0] in _WHOLE_PARTS else above[min(1, len(above) - 1)]]
