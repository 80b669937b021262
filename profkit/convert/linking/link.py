"""Which call launched a piece of device work, and in which step something happened."""

import re
from collections.abc import Callable

import numpy as np

from profkit.convert.columns.numbering import Column
from profkit.convert.columns.values import Ints

_ANNOTATION = re.compile(r"ProfilerStep#|Optimizer\.(?:step|zero_grad)#|enumerate\(DataLoader\)#")
_STEP = re.compile(r"ProfilerStep#(\d{1,9})$")

_COMMUNICATION = re.compile(
    r"nccl|rccl|msccl|oneccl|hccl|nvshmem|deep_?ep\b|cross_device_|userbuffers|multimem_"
    r"|all_?reduce|all_?gather|reduce_?scatter|all_?(?:to|2)_?all"
)
"""In a name in lower case."""
_COMMUNICATING_OP = re.compile(
    r"nccl:|rccl:|xccl:|c10d::|_c10d_functional::|record_param_comms$|symm_mem::"
)
# Inductor names what it generates after the operators of the graph, collectives among them.
_OF_INDUCTOR = re.compile(r"triton_[a-z]+_fused_")
_COPY_KIND = re.compile(r"\b([HDPM])(?:to|2)([HDPM])\b")


def names_communication(kernel: str) -> bool:
    """Return whether a kernel of this name moves data between ranks, whoever wrote it.

    NCCL (``ncclDevKernel``, ``ncclKernel``), RCCL and MSCCL, NVSHMEM, DeepEP, and the custom
    all-reduces of inference engines (``cross_device_reduce``, ``allreduce_fusion``...).
    """
    return _COMMUNICATION.search(kernel.lower()) is not None and not _OF_INDUCTOR.match(kernel)


def launches_communication(op: str) -> bool:
    """Return whether kernels launched directly by this operator move data between ranks."""
    return _COMMUNICATING_OP.match(op) is not None


def copy_direction(text: str) -> str:
    """Return the direction in a name such as ``Memcpy HtoD (...)``; "" for none.

    XPUs write ``M2D``: M is memory of the host that SYCL did not allocate.
    """
    found = _COPY_KIND.search(text)
    return "to".join(found.groups()).replace("M", "H") if found else ""


def is_annotation(name: str) -> bool:
    """Return whether PyTorch itself names its annotations like this, whatever their category."""
    return _ANNOTATION.match(name) is not None


def step_number(name: str) -> int:
    """Return N of ``ProfilerStep#N``, -1 for any other annotation."""
    found = _STEP.match(name)
    return int(found[1]) if found else -1


def step_at(times: Ints, steps: Ints, starts: Ints, ends: Ints) -> Ints:
    """Return the step whose window holds each time, -1 outside of all."""
    if not len(steps):
        return np.full(len(times), -1, dtype=np.int64)
    rows = np.argsort(starts, kind="stable")
    at = np.searchsorted(starts[rows], times, side="right") - 1
    found = rows[at.clip(min=0)]
    inside = (at >= 0) & ((times < ends[found]) | (times == starts[found]))
    return np.where(inside, steps[found], -1)


def nearest_with(holds: Callable[[Column], Column], rows: Column, parents: Column) -> Column:
    """Return for each of `rows` itself or its nearest ancestor of which `holds`; -1 if none."""
    found = rows.copy()
    climbing = np.arange(len(found))
    while len(climbing := climbing[found[climbing] >= 0]):
        climbing = climbing[~holds(found[climbing])]
        found[climbing] = parents[found[climbing]]
    return found


def threads(pid: Ints, tid: Ints) -> Ints:
    """Return one number for each pair of process and thread."""
    processes, process = _numbered(pid)
    _, thread = _numbered(tid)
    return thread * len(processes) + process


def _numbered(values: Ints) -> tuple[Ints, Ints]:
    """Return the distinct values and the number of each: by runs of equal ones, which are few."""
    first = np.flatnonzero(np.diff(values, prepend=values[:1] - 1))
    distinct, which = np.unique(values[first], return_inverse=True)
    return distinct, np.repeat(which, np.diff(first, append=len(values)))


def by_start(start: Ints, *others: Column) -> Ints:
    """Return rows in order of `start`, those of equal start in order of `others`, the first first.

    As ``np.lexsort``, which sorts all rows by all keys: few rows start at once, and most lie in
    order already.
    """
    order = np.argsort(start, kind="stable")
    begun = start[order]
    same = begun[1:] == begun[:-1]
    if same.any():
        tied = np.append(same, False) | np.append(False, same)
        rows = order[tied]
        order[tied] = rows[np.lexsort([each[rows] for each in (*reversed(others), start)])]
    return order


def at_or(values: Column, rows: Column, otherwise: int | Column = -1) -> Column:
    """Return ``values[row]`` for each row, and `otherwise` for row -1."""
    if not len(values):
        return np.broadcast_to(np.asarray(otherwise, dtype=np.int64), rows.shape)
    found: Column = np.where(rows >= 0, values[rows], otherwise)
    return found
