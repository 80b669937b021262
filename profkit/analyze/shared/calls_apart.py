"""What a program calls at some times alone, as between steps or in a few of them, and how long."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from profkit.tables.frame_files import imported_library, is_profkits
from profkit.tables.python_frames import is_foreign, is_wrapper, known_as
from profkit.tables.tree_paths import SEPARATOR

if TYPE_CHECKING:
    import pandas as pd

_RECORDS = "torch/profiler/"
_BUILT_IN = "<built-in "
_WRAPPERS = (
    *("torch/utils/_contextlib.py", "torch/_compile.py", "torch/_dynamo/", "contextlib.py"),
    "torch/distributed/c10d_logger.py",
)
_MODULE = "torch/nn/modules/module.py"
_MODEL = "model(...)"
PHASE = (
    r"torch/(?:_tensor\.py\(\d+\): backward"
    r"|optim/(?!lr_scheduler|swa_utils)\w+\.py\(\d+\): (?:step|wrapper))"
)
"""Frames of a backward pass and of an optimizer: without them a training step is none."""

_PHASE = re.compile(PHASE)
_LINE = re.compile(r"\(\d+\)")
_MOSTLY = 0.5
_LESS = 0.1
"""A frame is one of other times as well where its part of them is at least this part of that of
these: where the same lines train and evaluate, the forward pass is a third of the steps, say, and
no less."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CallApart:
    """A call that is made at these times alone."""

    place: str
    """Line of the program that makes it."""

    call: str
    """What it calls, as the program knows it; empty if that is not known."""

    spent_ns: float
    """Time in it."""

    share: float
    """The same as a part of the program's time then."""

    stacks: frozenset[str]
    """Those that were seen."""

    line: str
    """Innermost line of the program below `place` that has most of it; empty if none has."""

    is_phase: bool
    """Whether most of it is a backward pass or an optimizer's step, which each step has."""

    model_share: float
    """Part of it that is in calls of modules."""

    frames: frozenset[str]
    """Of the stacks, the frames that are not of other times: of an evaluation, not the model."""


def calls_apart(there: "pd.Series[Any]", elsewhere: "pd.Series[Any]") -> list[CallApart]:
    """Return what runs `there` and not `elsewhere`, from the time of each stack, longest first.

    That is the outermost frame that is not of `elsewhere`. What profkit and the recorder do is left
    out, of the whole as well, as it is no part of the program.
    """
    stacks = [(stack, frames, ns) for stack, ns in _times(there) if (frames := _frames(stack))]
    whole = sum(ns for *_, ns in stacks) or 1.0
    shares = _shares((frames, ns / whole) for _, frames, ns in stacks)
    usual_ns = float(elsewhere.sum()) or 1.0
    usual = _shares((_frames(stack), ns / usual_ns) for stack, ns in _times(elsewhere))
    every = _functions((frames, ns / whole) for _, frames, ns in stacks)
    in_usual = _functions((_frames(stack), ns / usual_ns) for stack, ns in _times(elsewhere))
    functions = frozenset(one for one in every if in_usual[one] >= _LESS * every[one])
    found: defaultdict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    inside: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for stack, frames, ns in stacks:
        own = [at for at, name in enumerate(frames) if usual[name] < _LESS * shares[name]]
        if own:
            first = next((at for at in own if not _is_handler(frames[at])), own[0])
            key = _place_and_call(frames, first, functions)
            found[key][stack] = ns
            inside[key].update(frames[at] for at in own)
    rows = [
        CallApart(
            place=key[0],
            call=key[1],
            spent_ns=(spent_ns := sum(times.values())),
            share=spent_ns / whole,
            stacks=frozenset(times),
            line=_line_below(key[0], times),
            is_phase=_in_phases(key[0], times) > _MOSTLY * spent_ns,
            model_share=sum(ns for stack, ns in times.items() if _MODULE in stack)
            / (spent_ns or 1.0),
            frames=frozenset(inside[key]),
        )
        for key, times in found.items()
    ]
    return sorted(rows, key=lambda row: -row.spent_ns)


def _is_handler(frame: str) -> bool:
    """Tell whether a library has put a function around one of the program, as around handlers."""
    return is_wrapper(frame) and not frame.startswith(_WRAPPERS)


def _times(by_stack: "pd.Series[Any]") -> list[tuple[str, float]]:
    return [(str(stack), float(ns)) for stack, ns in by_stack.items()]


def _place_and_call(frames: list[str], at: int, usual: frozenset[str]) -> tuple[str, str]:
    """Return the program's frame at `at` or above it, and what that calls.

    Where a library makes the call it is its first function that is not `usual`: `evaluate`, and
    not the `train` around it. The usual ones are of other times as well.
    """
    above = (place for place in range(at, -1, -1) if not is_foreign(frames[place]))
    place = next(above, at)
    if place == at:
        return frames[place], _called(frames[place + 1 :])
    below = [frame for frame in frames[at:] if _function(frame) not in usual]
    public = (frame for frame in below if not _function(frame).rpartition(" ")[-1].startswith("_"))
    return frames[place], _called([*public] or below or frames[place + 1 :])


def _functions(stacks: Iterable[tuple[list[str], float]]) -> dict[str, float]:
    """Return for each function the part of all in whose stack it is; 0 for others."""
    return _shares(([*map(_function, frames)], share) for frames, share in stacks)


def _function(frame: str) -> str:
    """Return a frame without its line."""
    return _LINE.sub("", frame)


def _line_below(place: str, stacks: Mapping[str, float]) -> str:
    """Return the innermost of the program's lines below `place` that most of the time is in."""
    spent_ns: defaultdict[str, float] = defaultdict(float)
    depth: dict[str, int] = {}
    for stack, ns in stacks.items():
        own = [frame for frame in _below(stack, place) if not is_foreign(frame)]
        depth |= {frame: at for at, frame in enumerate(own)}
        for frame in {*own}:
            spent_ns[frame] += ns
    least_ns = _MOSTLY * sum(stacks.values())
    lines = [frame for frame, ns in spent_ns.items() if ns > least_ns]
    return max(lines, key=depth.__getitem__, default="")


def _below(stack: str, place: str) -> list[str]:
    frames = _frames(stack)
    return frames[frames.index(place) + 1 :]


def _in_phases(place: str, stacks: Mapping[str, float]) -> float:
    """Return the time in phases that no other code of the program than `place` stands around."""
    return sum(
        ns
        for stack, ns in stacks.items()
        if any(map(_PHASE.match, takewhile(_is_others, _below(stack, place))))
    )


def _is_others(frame: str) -> bool:
    return is_foreign(frame) or imported_library(frame) != ""


def _frames(stack: str) -> list[str]:
    """Return the frames of a stack that are not of profkit; none where it, or a recorder, runs."""
    every = stack.split(SEPARATOR)
    calling = next((frame for frame in every[::-1] if not frame.startswith(_BUILT_IN)), "")
    if is_profkits(calling) or any(frame.startswith(_RECORDS) for frame in every):
        return []
    return [frame for frame in every if not is_profkits(frame)]


def _called(frames: list[str]) -> str:
    """Return what the first of `frames` is that is no decorator, as programs name it."""
    first = next((frame for frame in frames if not frame.startswith(_WRAPPERS)), "")
    return _MODEL if first.startswith(_MODULE) else known_as(first)


def _shares(stacks: Iterable[tuple[list[str], float]]) -> dict[str, float]:
    """Return for each frame the part of all in whose stack it is; 0 for others."""
    found: defaultdict[str, float] = defaultdict(float)
    for frames, share in stacks:
        for frame in set(frames):
            found[frame] += share
    return found
