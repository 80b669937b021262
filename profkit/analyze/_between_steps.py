"""Where the time between steps goes: what the program calls there and nowhere in a step."""

from collections import Counter, defaultdict
from collections.abc import Iterable

import pandas as pd

from profkit.tables.frame_files import is_profkits
from profkit.tables.python_frames import known_as
from profkit.tables.tree_paths import SEPARATOR

_RECORDS = "torch/profiler/"
_BUILT_IN = "<built-in "
_WRAPPERS = ("torch/utils/_contextlib.py", "torch/_compile.py", "torch/_dynamo/", "contextlib.py")
_MODULE = "torch/nn/modules/module.py"
_MODEL = "model(...)"
_LESS = 0.1
"""A frame is one of steps where its part of them is at least this part of that between them: where
the same lines train and evaluate, the forward pass is a third of the steps, say, and no less."""


def between_steps_by_call(between: pd.DataFrame, inside: pd.DataFrame) -> pd.DataFrame:
    """Return place, call and share of the program's time between steps, the largest first.

    `between` and `inside` are rows of ``between_steps`` and ``python_samples``. The place is the
    outermost frame that steps do not have, and the call what it called. What profkit and the
    recorder do is left out, of the whole as well, as it is no part of the program.
    """
    spent = between.groupby("stack", observed=True)["spent_ns"].sum()
    stacks = [(frames, int(ns)) for stack, ns in spent.items() if (frames := _frames(stack))]
    whole = sum(ns for _, ns in stacks) or 1
    shares = _shares((frames, ns / whole) for frames, ns in stacks)
    looks = inside["stack"].value_counts(normalize=True)
    usual = _shares((_frames(stack), float(share)) for stack, share in looks.items())
    found: Counter[tuple[str, str]] = Counter()
    for frames, ns in stacks:
        own = [frame for frame in frames if usual[frame] < _LESS * shares[frame]]
        if own:
            found[own[0], _called(frames[frames.index(own[0]) + 1 :])] += ns
    rows = [(place, call, ns / whole) for (place, call), ns in found.most_common()]
    return pd.DataFrame(rows, columns=["place", "call", "share"])


def _frames(stack: object) -> list[str]:
    """Return the frames of a stack that are not of profkit; none where it, or a recorder, runs."""
    every = str(stack).split(SEPARATOR)
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
