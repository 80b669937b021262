"""The origin of an allocation, from its stack: forward, backward, optimizer, data or set-up."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

WHERE = ["rank", "repeat", "device"]

UNKNOWN = "unknown"
BEFORE = "before the history"
AFTER = "after the window"

# Tried in this order; the stack of a backward pass names the forward one that began it.
_ORIGINS = (
    ("optimizer", re.compile(r"Optimizer\.step|[\\/]torch[\\/]optim[\\/]|\boptimizer(?:\.py)?\b")),
    (
        "backward",
        re.compile(r"torch::autograd::Engine|autograd::engine|_engine_run_backward|\bbackward\b"),
    ),
    ("forward", re.compile(r"_call_impl|\bforward\b")),
    ("data", re.compile(r"[\\/]torch[\\/]utils[\\/]data[\\/]|^data$")),
    ("set-up", re.compile(r"_apply \(|__init__ \(|\bto \(|load_state_dict|reset_parameters")),
)
_OPERATOR = re.compile(r"at::_ops::(\w+?)::(?:call|redispatch)|\b((?:aten|c10d)::\w+)")
_MODULE = re.compile(r"nn\.Module: ([^;]+)")
_FORWARD = re.compile(r"(?:^|;)forward \((?:[^;]*[\\/])?([^;]*)\)")
_LIBRARY = re.compile(r"(?:^|;)forward \([^;]*[\\/]torch[\\/]nn[\\/][^;]*\)")


def with_origins(allocations: pd.DataFrame) -> pd.DataFrame:
    """Return `allocations` with columns ``origin``, ``operator`` and ``module``.

    ``origin`` is the phase of the program: forward, backward, optimizer, data or set-up, by the
    open range or else by the stack. Allocations that outlive their phase have a purpose: those of
    a forward pass are activations, of a backward pass gradients, of the optimizer its states.
    """
    by_range = _by_distinct(allocations["annotation"], _origin)
    origin = np.where(by_range == UNKNOWN, _by_distinct(allocations["stack"], _origin), by_range)
    origin = np.where(_after(allocations), AFTER, origin)
    origin = np.where(_forgotten(allocations), BEFORE, origin)
    return allocations.assign(
        origin=pd.Categorical(origin.astype(str)),
        operator=pd.Categorical(_by_distinct(allocations["stack"], _operator)),
        module=pd.Categorical(_by_distinct(allocations["stack"], _module)),
    )


def _after(allocations: pd.DataFrame) -> NDArray[np.bool_]:
    """Tell which rows have no time although others of their GPU do: they were found later."""
    where = [name for name in ("run", *WHERE) if name in allocations]
    times = allocations["start_ns"]
    latest = times.groupby([allocations[name] for name in where], observed=True).transform("max")
    return np.asarray((times < 0) & (latest >= 0) & (allocations["start_event"] >= 0))


def _forgotten(allocations: pd.DataFrame) -> NDArray[np.bool_]:
    """Tell which rows were live before the history, unless the allocator kept their stack."""
    return np.asarray((allocations["start_event"] < 0) & (allocations["stack"] == ""))


def _by_distinct(texts: "pd.Series[Any]", read: Callable[[str], str]) -> NDArray[np.object_]:
    """Return `read` of each text, called once for each distinct one."""
    values = np.array([*map(read, texts.cat.categories), read("")], dtype=object)
    return values[texts.cat.codes.to_numpy()]


def _origin(text: str) -> str:
    return next((name for name, pattern in _ORIGINS if pattern.search(text)), UNKNOWN)


def _operator(stack: str) -> str:
    """Return the operator that the program called: the outermost of those that nest."""
    found = _OPERATOR.search(stack)
    return (found[2] or f"aten::{found[1]}") if found else ""


def _module(stack: str) -> str:
    """Return the path of modules that the stack names, or the line of the innermost forward.

    Lines of PyTorch's own modules are the same for every layer: they count only where the program
    has none.
    """
    if named := _MODULE.findall(stack):
        return ".".join(named)
    found = _FORWARD.findall(_LIBRARY.sub("", stack)) or _FORWARD.findall(stack)
    return str(found[-1]) if found else ""


def live_at(allocations: pd.DataFrame, event: int) -> pd.DataFrame:
    """Return the rows of one GPU that are live after entry `event` of its history."""
    start, end = allocations["start_event"].to_numpy(), allocations["end_event"].to_numpy()
    return allocations[(start <= event) & ((end < 0) | (end > event))]


def levels(allocations: pd.DataFrame) -> pd.DataFrame:
    """Return what is allocated on one GPU after each entry of its history, in order of time.

    Columns are the entry (``event``), the ``row`` in `allocations` that it begins or ends, whether
    it frees (``is_free``), and ``level_bytes``. Blocks that were live before the history are one
    entry, -1.
    """
    start, end = allocations["start_event"].to_numpy(), allocations["end_event"].to_numpy()
    size = allocations["size_bytes"].to_numpy(np.int64)
    freed = np.flatnonzero(end >= 0)
    entry = np.concatenate([start, end[freed]])
    change = np.concatenate([size, -size[freed]])
    row = np.concatenate([np.arange(len(start)), freed])
    # Within one entry there is one change, so a stable order by entry is the order of time.
    order = np.argsort(entry, kind="stable")
    level, entry = np.cumsum(change[order]), entry[order]
    # All blocks that were live before have entry -1, and count as one change.
    first = max(int(np.searchsorted(entry, -1, side="right")) - 1, 0)
    return pd.DataFrame(
        {
            "event": entry,
            "row": row[order],
            "is_free": order >= len(start),
            "level_bytes": level,
        }
    )[first:]


def peak_event(allocations: pd.DataFrame) -> tuple[int, int]:
    """Return the entry after which most is allocated on one GPU, and the bytes of it.

    Blocks that were live before the history count; the entry is -1 if they were the most.
    """
    changes = levels(allocations)
    best = changes.iloc[int(changes["level_bytes"].argmax())]
    return int(best["event"]), int(best["level_bytes"])
