"""Hardware counters that CUPTI or XPTI recorded per kernel, and the launch that each belongs to."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from profkit.convert.columns.numbering import Column
from profkit.convert.columns.on_disk import Columns
from profkit.convert.columns.values import Ints
from profkit.convert.linking.launches import Launches
from profkit.convert.linking.lookup import at_or

_LAUNCH = re.compile(r"(?:cuda|cu|hip|ze)\w*LaunchKernel|hipModuleLaunch|urEnqueueKernelLaunch")


def order_of(counters: Columns) -> Ints:
    """Return the rows of hardware counters in order of time."""
    order: Ints = np.lexsort((counters["range"], counters["start"]))
    return order


def of_kernels(counters: Mapping[str, Column], launches: Launches) -> dict[str, Any]:
    """Return which kernel the `counters`, in order of time, are of, and what launched it.

    A range says nothing of its launch. While counters are read kernels run one by one, so where
    there are as many launches as ranges the n-th range belongs to the n-th launch; otherwise
    neither operator nor correlation is known.
    """
    ranges = np.stack([counters["start"], counters["range"]])
    _, kernel = np.unique(ranges, axis=1, return_inverse=True)
    kernel = kernel.ravel()
    call = at_or(_launching(launches, int(kernel.max(initial=-1)) + 1), kernel)
    return {
        "kernel": kernel,
        "correlation": launches.recorded.at("correlation", call),
        "op": at_or(launches.op(), call),
    }


def _launching(launches: Launches, count: int) -> Ints:
    """Return the rows of the calls that launch kernels, by time, if there are `count` of them."""
    calls = launches.recorded
    rows = calls.named(launches.gathered.names.matching(_LAUNCH.match))
    if len(rows) != count:
        return np.full(count, -1, dtype=np.int64)
    ordered: Ints = rows[np.argsort(calls.select(rows)["start"], kind="stable")]
    return ordered
