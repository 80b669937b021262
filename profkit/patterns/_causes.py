"""Causes that a pattern looks for by what they are called."""

from dataclasses import dataclass

import pandas as pd

from profkit.patterns._rows import having
from profkit.patterns.base import Step


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """One row of ``causes``, its gain over all steps."""

    id: str
    gain_ns: float
    place: str


def largest(causes: pd.DataFrame, expression: str, column: str, step: Step) -> Known | None:
    """Return the cause that gains most of those whose `column` contains the regular `expression`.

    Of those that gain the same it is the one deepest in the tree.
    """
    found = causes[having(causes, expression, column)]
    if found.empty:
        return None
    depth = found["id"].astype(str).str.count(r"\.")
    order = found.assign(depth=depth).sort_values(["gain_ms", "depth"], ascending=False)
    row = order.iloc[0]
    gain_ns = float(row["gain_ms"]) * 1e6 * step.count
    return Known(id=str(row["id"]), gain_ns=gain_ns, place=str(row["place"]))
