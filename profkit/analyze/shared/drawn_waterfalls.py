"""Waterfalls as tables of the report, and as a chart of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from profkit.analyze.shared.waterfall import Bar, Waterfall
from profkit.core.result import Chart, Table, table

_TITLE = "Why the step time differs"

CHART = Chart(
    kind="waterfall",
    title=_TITLE,
    table="steps",
    x="cause",
    y=("from_ms", "to_ms"),
    color="direction",
    choose="compared",
    horizontal=True,
)
"""The chart of `waterfall_tables`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Drawn:
    """A waterfall, and what stands at its ends."""

    before: str
    after: str
    compared: str
    """What tells it from the others beside it."""

    why: Waterfall


def waterfall_tables(drawn: Sequence[Drawn], note: str) -> dict[str, Table]:
    """Return the bars of all waterfalls in ms, and where each starts and ends."""
    bars = [
        {"compared": one.compared, "cause": bar.title}
        | numbers(bar)
        | {"change": bar.change, "module": bar.module, "id": bar.id}
        for one in drawn
        for bar in one.why.bars
    ]
    return {
        "bars": table(
            pd.DataFrame(bars),
            title=_TITLE,
            note=note,
            # The bars of several differences add up to nothing.
            sums=("difference_ms", "before_ms", "after_ms") if len(drawn) == 1 else (),
        ),
        "steps": table(pd.concat(map(_falls, drawn)), title="From one step time to the other"),
    }


def numbers(bar: Bar) -> dict[str, Any]:
    """Return the columns that tell of a bar."""
    ends = bar.interval
    return {
        "difference_ms": bar.difference_ms,
        "low_ms": ends.low if ends else None,
        "high_ms": ends.high if ends else None,
        "before_ms": bar.before_ms,
        "after_ms": bar.after_ms,
    }


def _falls(one: Drawn) -> pd.DataFrame:
    """Return where each bar of a waterfall starts and ends, between the two step times."""
    bars = one.why.bars
    ends = one.why.before_ms + np.cumsum([0.0, *(bar.difference_ms for bar in bars)])
    rows = [(one.before, 0.0, ends[0], "step time")]
    rows += [
        (bar.title, start, end, "more" if end > start else "less")
        for bar, start, end in zip(bars, ends, ends[1:], strict=False)
    ]
    rows.append((one.after, 0.0, ends[-1], "step time"))
    falls = pd.DataFrame(rows, columns=["cause", "from_ms", "to_ms", "direction"])
    return falls.assign(compared=one.compared, difference_ms=falls["to_ms"] - falls["from_ms"])
