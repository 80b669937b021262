"""Attribute kernels and their time to the operators whose costs are known.

Operators nest, and so do their costs: the outermost one with a formula counts, with all kernels
that it and the operators inside it launched.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.base import Columns
from profkit.analyze.costs import PRODUCTS, WRAPPERS, costs
from profkit.analyze.shared import calltree
from profkit.analyze.shared.glob_match import matching, named

FORWARD, BACKWARD, RECOMPUTATION, OPTIMIZER = "forward", "backward", "recomputation", "optimizer"

_ENGINE = ("autograd::engine::evaluate_function: *",)
_OPTIMIZER = ("Optimizer.step#*", "optimizer")
"""Ranges of PyTorch, and of profkit, which may begin in that of PyTorch and end after it."""
_TF32 = "tf32"
_TF32_NAMES = ("tf32", "s1688gemm_", "tensorop_s1688", "xf32", "_S_MX_")

OPS = Columns(
    "rank repeat op parent name start_ns end_ns step sequence "
    "forward_tid input_shapes input_types inputs"
)
"""Columns of `cpu_ops` that are read."""

KERNELS = Columns("rank repeat op step name kind copy_kind start_ns end_ns")
"""Columns of `kernels` that are read."""


@dataclass(frozen=True, slots=True)
class Costed:
    """The operators and kernels of the steps that count."""

    calls: pd.DataFrame
    """Operators that count: rank, repeat, step, name, input_shapes, phase and the columns of
    `profkit.analyze.costs.costs`; ``time_ns`` is the sum of the kernels that each launched,
    without communication and copies from or to the CPU, or its time on the CPU where no kernel
    was recorded."""

    kernels: pd.DataFrame
    """Kernels; ``call`` is the position in `calls` of the operator that launched each, or -1."""


def work(
    cpu_ops: pd.DataFrame, kernels: pd.DataFrame, windows: pd.DataFrame, *, has_kernels: bool = True
) -> Costed:
    """Return the operators that count and the kernels in the steps of `windows`, of some ranks.

    Operators ran on the CPU if no rank `has_kernels`.
    """
    parent = calltree.rows_of(cpu_ops, cpu_ops, "parent")
    cost = costs(cpu_ops)
    delegates = _delegates(cpu_ops, cost, parent)
    known = _outermost((cost["kind"] != "").to_numpy() & ~delegates, parent)
    launched_by = calltree.nearest(calltree.rows_of(cpu_ops, kernels), parent, ~known)
    launched_by = np.where(in_step(kernels, windows), launched_by, -1)
    if not has_kernels:
        spent = (cpu_ops["end_ns"] - cpu_ops["start_ns"]).to_numpy(np.int64)
    else:
        spent = calltree.sums(launched_by, _computing_ns(kernels), len(cpu_ops))
        # An operator that launched nothing ran on the CPU, or was cut off.
        known &= spent > 0
    known &= in_step(cpu_ops, windows)
    rows = np.flatnonzero(known)
    columns = ["rank", "repeat", "step", "name", "input_shapes"]
    cost = cost.iloc[rows]  # those of all operators would take a third of the memory from here on
    parts = [cpu_ops.iloc[rows][columns], cost]
    calls = pd.concat([part.reset_index(drop=True) for part in parts], axis=1)
    calls = calls.assign(phase=_phases(cpu_ops, parent, rows), time_ns=spent[rows])
    # Kernels of an operator outside the steps have no call.
    call = np.append(np.where(known, np.cumsum(known) - 1, -1), -1)[launched_by]
    return Costed(
        calls=_with_tf32(calls, kernels, call),
        kernels=kernels.assign(call=call)[in_step(kernels, windows)],
    )


def in_step(rows: pd.DataFrame, windows: pd.DataFrame) -> NDArray[np.bool_]:
    """Tell which rows are of a step that counts; all are where no step is known."""
    if (windows["step"] < 0).all():
        return np.ones(len(rows), dtype=np.bool_)
    key = ["rank", "repeat", "step"]
    known = pd.MultiIndex.from_frame(windows[key])
    return np.asarray(pd.MultiIndex.from_frame(rows[key]).isin(known))


def _with_tf32(calls: pd.DataFrame, kernels: pd.DataFrame, call: NDArray[np.int64]) -> pd.DataFrame:
    """Return the calls with the type ``tf32`` where the kernels of an fp32 product say so."""
    is_tf32 = named(kernels["name"], _uses_tf32)
    uses_tf32 = np.zeros(len(calls), dtype=np.bool_)
    uses_tf32[call[is_tf32 & (call >= 0)]] = True
    uses_tf32 &= ((calls["type"] == "float") & calls["kind"].isin(PRODUCTS)).to_numpy()
    return calls.assign(type=calls["type"].astype(object).mask(uses_tf32, _TF32))


def _uses_tf32(kernel: str) -> bool:
    """Tell whether the name of a kernel says that it multiplies fp32 as TF32."""
    return any(part in kernel for part in _TF32_NAMES)


def _delegates(
    cpu_ops: pd.DataFrame, cost: pd.DataFrame, parent: calltree.Rows
) -> NDArray[np.bool_]:
    """Tell which wrappers enclose a product, which then counts instead."""
    wrapper = matching(cpu_ops["name"], WRAPPERS)
    inside = (cost["kind"].isin(PRODUCTS).to_numpy() & ~wrapper).astype(np.int64)
    below = calltree.subtree_sums(np.arange(len(cpu_ops)), inside, parent)
    return np.asarray(wrapper & (below > 0))


def _outermost(counted: NDArray[np.bool_], parent: calltree.Rows) -> NDArray[np.bool_]:
    return np.asarray(counted & (calltree.nearest(parent, parent, ~counted) < 0))


def _phases(
    cpu_ops: pd.DataFrame, parent: calltree.Rows, rows: calltree.Rows
) -> NDArray[np.object_]:
    """Return the phase of each of `rows`.

    Autograd records a sequence number where it records a graph: an operator of its own that does
    so inside a node of the backward is run again by activation checkpointing. A gradient of a
    gradient looks the same, and activations that compiled code computes again do not.
    """
    node = matching(cpu_ops["name"], _ENGINE) | (cpu_ops["forward_tid"] > 0).to_numpy()
    step = matching(cpu_ops["name"], _OPTIMIZER)
    recorded = (cpu_ops["sequence"] >= 0).to_numpy() & ~node & ~step
    nearest = calltree.nearest(rows, parent, ~(node | step | recorded))
    outer = calltree.nearest(nearest, parent, ~(node | step))
    inside = outer >= 0
    phase = np.full(len(rows), FORWARD, dtype=object)
    phase[inside & step[outer]] = OPTIMIZER
    phase[inside & node[outer]] = BACKWARD
    phase[inside & node[outer] & (nearest != outer)] = RECOMPUTATION
    return phase


def _computing_ns(kernels: pd.DataFrame) -> NDArray[np.int64]:
    """Return the time of kernels that compute or move memory, 0 for those that a link bounds."""
    kind, copies = kernels["kind"], kernels["copy_kind"]
    own = kind.isin(("compute", "set")) | ((kind == "copy") & (copies == "DtoD"))
    return np.where(own, (kernels["end_ns"] - kernels["start_ns"]).to_numpy(np.int64), 0)
