"""Which line of the program ran: the innermost Python frame that is its own, not PyTorch's."""

import re

import numpy as np
import pandas as pd

from profkit import calltree
from profkit.analyze._host_work import longest_in
from profkit.intervals import Intervals
from profkit.paths import SEPARATOR

_FOREIGN = re.compile(r"<|torch/|.*/(?:torch|site-packages|dist-packages)/")


def lines_during(python_calls: pd.DataFrame, spans: Intervals) -> list[str]:
    """Return for each of `spans` the frame of the program in which most of it was spent.

    `python_calls` are those of one rank and repeat. Where all frames are PyTorch's, it is the
    innermost of these; "" where less of the span was in any than in none.
    """
    numbered = python_calls.rename(columns={"call": "op"})
    above = calltree.rows_of(numbered, numbered, "caller")
    found = np.array([row for row, _ in longest_in(python_calls, above, spans)], dtype=np.int64)
    name, names = pd.factorize(python_calls["name"])
    foreign = np.array([_FOREIGN.match(each) is not None for each in names], dtype=np.bool_)[name]
    foreign |= (python_calls["kind"] == "module").to_numpy()
    own = calltree.nearest(found, above, foreign)
    return [
        "" if row < 0 else str(names[name[line if line >= 0 else row]])
        for row, line in zip(found.tolist(), own.tolist(), strict=True)
    ]


def line_of(stack: str) -> str:
    """Return the innermost frame of a recorded stack that is the program's own; "" if none is."""
    frames = stack.split(SEPARATOR)
    return next((frame for frame in frames[::-1] if not _FOREIGN.match(frame)), "")
