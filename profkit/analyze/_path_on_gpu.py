"""The critical path while a call holds the CPU: it passes through what the GPU does meanwhile."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.shared.blocking_calls import blocks, names_pageable

BLOCKED = "blocked"
_CALLS = ("cuda_runtime", "cuda_driver")
_WORK = ("kernel", "gpu_memcpy", "gpu_memset")

Describe = Callable[[str], tuple[str, str]]
"""Returns the short name and the kind of a kernel."""

Part = tuple[str, str, int, int]
"""Name, kind and time in ns of a part of the path, and its event, -1 for none."""


def through_gpu(
    parts: Iterable[Part],
    events: pd.DataFrame,
    names: list[str],
    described: Describe,
) -> Iterator[Part]:
    """Yield the `parts` of a path, those in calls that hold the CPU divided by what the GPU does.

    `events` are HTA's, with codes of `names`; `described` has the short name and the kind of a
    kernel. What no kernel covers is blocked.
    """
    texts = np.array(names, dtype=object)
    rows = pd.DataFrame(
        {
            "name": pd.Categorical(texts[events["name"]]),
            "start_ns": _ns(events["ts"]),
            "end_ns": _ns(events["ts"] + events["dur"]),
            "call": events["index_correlation"].to_numpy(np.int64),
        },
        index=events["index"].to_numpy(),
    )
    category = texts[events["cat"]]
    calls, work = rows[np.isin(category, _CALLS)], rows[np.isin(category, _WORK)]
    of_pageable = calls.index.isin(work.loc[names_pageable(work["name"]), "call"])
    held = calls[blocks(calls, of_pageable)]
    work = work.sort_values("start_ns")
    starts = dict(zip(held.index.tolist(), held["start_ns"].tolist(), strict=True))
    for part in parts:
        if part[3] in starts:
            yield from _divided(part, starts[part[3]], work, described)
        else:
            yield part


def _ns(times_us: "pd.Series[float]") -> NDArray[np.int64]:
    return np.rint(times_us.to_numpy(np.float64) * 1000).astype(np.int64)


def _divided(part: Part, start: int, work: pd.DataFrame, described: Describe) -> Iterator[Part]:
    """Yield what runs on the GPU from `start` on while the part lasts, each instant once."""
    name, _, left, event = part
    at, until = start, start + left
    running = work[((work["end_ns"] > start) & (work["start_ns"] < until)).to_numpy()]
    row: Any
    for row in running.itertuples():
        time = min(row.end_ns, until) - max(row.start_ns, at)
        if time > 0:
            yield *described(str(row.name)), time, event
            at, left = max(at, row.end_ns), left - time
    if left > 0:
        yield name, BLOCKED, left, event
