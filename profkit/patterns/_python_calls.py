"""Time inside Python functions of a kind: from recorded calls, else from the lines of causes."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from profkit.patterns._causes import largest
from profkit.patterns._rows import Chosen, having
from profkit.patterns.base import Step


@dataclass(frozen=True, kw_only=True, slots=True)
class Spent:
    """Time inside functions of a kind."""

    cause: str
    """Id of the cause that holds it."""

    gain_ns: float
    """Upper bound of what is gained without them."""

    place: str
    """The function with most of it."""

    calls: int = 0
    """Calls of them from outside; 0 if calls were not recorded."""


def spent_in(
    expression: str, python_calls: pd.DataFrame, causes: pd.DataFrame, step: Step
) -> Spent | None:
    """Return the time inside functions whose ``file(line): function`` contains `expression`.

    With a GPU no more is gained than it is idle.
    """
    fits = having(python_calls, expression)
    if not fits.any():
        found = largest(causes, expression, "place", step)
        if found is None:
            return None
        return Spent(cause=found.id, gain_ns=found.gain_ns, place=found.place)
    calls = python_calls[_outermost(python_calls, fits)]
    lasted = (calls["end_ns"] - calls["start_ns"]).groupby(calls["name"].astype(object)).sum()
    ids = causes["id"].astype(str)
    idle = causes.loc[ids == "gpu_idle", "ms_per_step"]
    bound = float(idle.iloc[0]) * 1e6 * step.count if len(idle) else np.inf
    return Spent(
        cause="gpu_idle.python" if len(idle) else "python",
        gain_ns=min(float(lasted.sum()), bound),
        place=str(lasted.idxmax()),
        calls=len(calls),
    )


def _outermost(python_calls: pd.DataFrame, fits: Chosen) -> Chosen:
    """Choose the calls that fit and lie in no other that fits, on the same thread."""
    rows = python_calls[fits].sort_values(["repeat", "tid", "start_ns"], kind="stable")
    ends = rows.groupby(["repeat", "tid"], observed=True)["end_ns"].cummax()
    before = ends.groupby([rows["repeat"], rows["tid"]], observed=True).shift(fill_value=-1)
    chosen = np.zeros(len(python_calls), dtype=bool)
    outer = rows.index[(rows["start_ns"] >= before).to_numpy()]
    chosen[python_calls.index.get_indexer(outer)] = True
    return chosen
