"""Threads at a lock: those of a server that wait for one another in the program's own code."""

import re

import pandas as pd

from profkit.core.formatting import agreeing
from profkit.core.verdict import Confidence
from profkit.patterns._rows import cores_of_a_rank
from profkit.patterns.base import Match, Step, pattern
from profkit.tables.python_frames import ACQUIRES, is_foreign
from profkit.tables.tree_paths import SEPARATOR

_ACQUIRES = re.compile(ACQUIRES)
_FEWEST = 1.0
"""Threads that wait at a time, in the mean: one that works is beside them."""

_CORES = 2
"""Where their number is not known."""

_ADVICE = (
    "{} thread[s] wait[s|] at {place} while one works: take the lock around nothing but what they "
    "share, as what runs in C runs on several cores; if that is a model, let one thread answer "
    "what waits as one batch."
)


@pattern(
    title="Threads wait for one lock",
    source="https://docs.python.org/3/library/threading.html#lock-objects",
    without_gpu=True,
)
def match(
    python_threads: pd.DataFrame, processes: pd.DataFrame, causes: pd.DataFrame, step: Step
) -> Match | None:
    """Find a line of the program at which threads wait for a lock at nearly each look."""
    lines = python_threads["stack"].astype(object).map(_waits_at)
    counts = lines[lines != ""].value_counts()
    waiting = counts.max() / python_threads["time_ns"].nunique() if len(counts) else 0.0
    tops = causes[~causes["id"].astype(str).str.contains(".", regex=False)]
    if waiting < _FEWEST or tops.empty:
        return None
    place = str(counts.idxmax())
    at_once = min(waiting + 1, cores_of_a_rank(processes) or _CORES)
    return Match(
        cause=str(tops.sort_values("ms_per_step")["id"].iloc[-1]),
        advice=agreeing(round(waiting), _ADVICE, place=place),
        gain_ns=step.ms * 1e6 * step.count * (1 - 1 / at_once),
        place=place,
        confidence=Confidence.LOW,
        evidence={"waiting_threads": round(float(waiting), 1)},
    )


def _waits_at(stack: str) -> str:
    """Return the line of the program in which a thread itself waits for a lock, "" for none."""
    *_, around, innermost = ["", "", *str(stack).split(SEPARATOR)]
    return around if _ACQUIRES.match(innermost) and not is_foreign(around) else ""
