"""The steps that the harness timed beside a raw file, for tools that share its clock."""

import json

import numpy as np
from numpy.typing import NDArray

from profkit.convert.base import Raw
from profkit.core.errors import InputError


def steps_of(raw: Raw) -> NDArray[np.int64]:
    """Return start and end of each step of this rank, shape (n, 2)."""
    steps, _ = _timed(raw)
    return np.array([step[:2] for step in steps], dtype=np.int64).reshape(-1, 2)


def ended_steps(raw: Raw) -> int:
    """Return how many steps of this rank ended, as its tool numbers them; -1 if nothing says so."""
    return _timed(raw)[1]


def _timed(raw: Raw) -> tuple[list[list[int]], int]:
    """Return the steps of this rank, and how many they were before some were joined."""
    path = raw.path.with_name(f"{raw.label}.steps.json")
    if not path.is_file():
        return [], -1
    try:
        document = json.loads(path.read_bytes())
        steps = list(document["steps"])
        return steps, int(document.get("ended", len(steps)))
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not what a step clock leaves: {error!r}") from None


def step_of(times_ns: NDArray[np.int64], steps: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each instant the step that it lies in, -1 for none."""
    index = np.searchsorted(steps[:, 0], times_ns, side="right") - 1
    if not len(steps):
        return index
    return np.where((index >= 0) & (times_ns < steps[index, 1]), index, -1)
