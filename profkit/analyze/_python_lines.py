"""Which line of the program ran: the innermost Python frame that is its own, not PyTorch's."""

import re

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze._host_work import longest_in
from profkit.analyze.shared import calltree
from profkit.analyze.shared.glob_match import named
from profkit.analyze.shared.intervals import Intervals
from profkit.tables.tree_paths import SEPARATOR

_FOREIGN = re.compile(r"<|torch/|.*/(?:torch|site-packages|dist-packages)/")


def lines_during(
    python_calls: pd.DataFrame, counted: NDArray[np.bool_], spans: Intervals
) -> list[str]:
    """Return for each of `spans` the frame of the program in which most of it was spent.

    `python_calls` are those of one rank and repeat, of which those `counted` matter. Where all
    frames are PyTorch's, it is the innermost of these; "" where less of the span was in any than
    in none.
    """
    call, caller = (python_calls[name].to_numpy(np.int64) for name in ("call", "caller"))
    around = calltree.places(call, caller)
    longest = longest_in(python_calls, around, counted, spans)
    found = np.array([row for row, _ in longest], dtype=np.int64)
    names = python_calls["name"]
    foreign = named(names, lambda name: _FOREIGN.match(name) is not None)
    foreign |= (python_calls["kind"] == "module").to_numpy()
    own = calltree.nearest(found, around, foreign)
    return [
        "" if row < 0 else str(names.iloc[line if line >= 0 else row])
        for row, line in zip(found.tolist(), own.tolist(), strict=True)
    ]


def line_of(stack: str) -> str:
    """Return the innermost frame of a recorded stack that is the program's own; "" if none is."""
    frames = stack.split(SEPARATOR)
    return next((frame for frame in frames[::-1] if not _FOREIGN.match(frame)), "")
