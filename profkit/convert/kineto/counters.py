"""Hardware counters that CUPTI or XPTI recorded per kernel, and the launch that each belongs to."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from profkit import schema
from profkit.convert.kineto.columns import Column
from profkit.convert.kineto.events import Args, Event, Ints
from profkit.convert.kineto.link import at_or
from profkit.convert.kineto.text import decoded

if TYPE_CHECKING:
    from profkit.convert.kineto.tables import Linker

_CATEGORIES = frozenset({"cuda_profiler_range", "xpu_scope_profiler"})
_LAUNCH = re.compile(r"(?:cuda|cu|hip|ze)\w*LaunchKernel|hipModuleLaunch|urEnqueueKernelLaunch")


class _Ranged(msgspec.Struct, gc=False):
    """An event whose arguments are whatever they are."""

    args: Any = None


class _RangedDocument(msgspec.Struct):
    traceEvents: list[_Ranged] = msgspec.field(default_factory=list)  # noqa: N815


def add_counters(events: Sequence[Event], text: bytes, *, whole: bool = False) -> None:
    """Give the ranges among `events` their counters, which only `text` has the names of.

    The decoder skips arguments that no column is made of, and counters have any name. `text` is
    the JSON list that `events` were decoded from, or with `whole` the object that holds it.
    """
    if _CATEGORIES.isdisjoint({event.cat for event in events}):
        return
    found = decoded(text, _RangedDocument if whole else list[_Ranged])
    ranged = found.traceEvents if whole else found
    for event, each in zip(events, ranged, strict=True):
        if event.cat in _CATEGORIES:
            event.args = event.args or Args()
            event.args.counters = each.args


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
        "correlation": at_or(linker.calls["correlation"], call),
        "op": at_or(linker.call_op, call),
        "name": linker.gathered.names.decoded(counters["name"][order]),
        "metric": linker.gathered.texts.decoded(counters["metric"][order]),
        "value": counters["value"][order],
        "unit": schema.text(np.zeros(len(order), dtype=np.int32), [""]),
        "text": schema.text(np.zeros(len(order), dtype=np.int32), [""]),
    }


def _launches(linker: "Linker", count: int) -> Ints:
    """Return the rows of the calls that launch kernels, by time, if there are `count` of them."""
    launching = linker.gathered.names.matching(_LAUNCH.match)[linker.calls["name"]]
    rows = np.flatnonzero(launching)
    if len(rows) != count:
        return np.full(count, -1, dtype=np.int64)
    ordered: Ints = rows[np.argsort(linker.calls["start"][rows], kind="stable")]
    return ordered
