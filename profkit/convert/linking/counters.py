"""Hardware counters that CUPTI or XPTI recorded per kernel, and the launch that each belongs to."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from profkit.convert.columns.numbering import Column
from profkit.convert.columns.values import Ints
from profkit.convert.linking.link import at_or
from profkit.tables import schema

if TYPE_CHECKING:
    from profkit.convert.linking.linker import Linker

_LAUNCH = re.compile(r"(?:cuda|cu|hip|ze)\w*LaunchKernel|hipModuleLaunch|urEnqueueKernelLaunch")


def kernel_metrics(linker: "Linker", counters: Mapping[str, Column]) -> dict[str, Any]:
    """Return the columns of `kernel_metrics`, in order of time.

    A range says nothing of its launch. While counters are read kernels run one by one, so where
    there are as many launches as ranges the n-th range belongs to the n-th launch; otherwise
    neither operator nor correlation is known.
    """
    order = np.lexsort((counters["range"], counters["start"]))
    _, kernel = np.unique(
        np.stack([counters["start"][order], counters["range"][order]]), axis=1, return_inverse=True
    )
    kernel = kernel.ravel()
    call = at_or(_launches(linker, int(kernel.max(initial=-1)) + 1), kernel)
    return {
        "kernel": kernel,
        "correlation": linker.calls.at("correlation", call),
        "op": at_or(linker.call_op(), call),
        "name": linker.gathered.names.decoded(counters["name"][order]),
        "metric": linker.gathered.texts.decoded(counters["metric"][order]),
        "value": counters["value"][order],
        "unit": schema.text(np.zeros(len(order), dtype=np.int32), [""]),
        "text": schema.text(np.zeros(len(order), dtype=np.int32), [""]),
    }


def _launches(linker: "Linker", count: int) -> Ints:
    """Return the rows of the calls that launch kernels, by time, if there are `count` of them."""
    rows = linker.calls.named(linker.gathered.names.matching(_LAUNCH.match))
    if len(rows) != count:
        return np.full(count, -1, dtype=np.int64)
    ordered: Ints = rows[np.argsort(linker.calls.chosen(rows)["start"], kind="stable")]
    return ordered
