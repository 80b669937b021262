"""Which operators do the work and what it costs: shared by analyses of FLOPs.

Operators nest, and so do their costs: what counts is the outermost one that there is a formula
for, with all device work that it and the operators inside it launched.
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
_OPTIMIZER = ("Optimizer.step#*",)
_TF32 = "tf32"
_TF32_NAMES = ("tf32", "s1688gemm_", "tensorop_s1688", "xf32", "_S_MX_")

OPS = Columns(
    "rank repeat op parent name start_ns end_ns step sequence "
    "forward_tid input_shapes input_types inputs"
)
"""Columns of `cpu_ops` that are read."""


@dataclass(frozen=True, slots=True)
class Costed:
    """The work of the steps that count."""

    calls: pd.DataFrame
    """Operators that count: rank, repeat, step, name, input_shapes, phase and the columns of
    `profkit.analyze.costs.costs`; ``time_ns`` is the sum of the device work that each launched,
    without communication and copies from or to the host, or its time on the host where no device
    was recorded."""

    kernels: pd.DataFrame
    """Device work; ``call`` is the position in `calls` of what launched it, -1 if nothing there."""


def work(cpu_ops: pd.DataFrame, kernels: pd.DataFrame, windows: pd.DataFrame) -> Costed:
    """Return the operators that count and the device work in the steps of `windows`."""
    parent = calltree.rows_of(cpu_ops, cpu_ops, "parent")
    each = costs(cpu_ops)
    yields = _yields(cpu_ops, each, parent)
    known = _outermost((each["kind"] != "").to_numpy(), yields, parent)
    owner = calltree.nearest(calltree.rows_of(cpu_ops, kernels), parent, ~known)
    owner = np.where(_in_step(kernels, windows), owner, -1)
    if kernels.empty:
        spent = (cpu_ops["end_ns"] - cpu_ops["start_ns"]).to_numpy(np.int64)
    else:
        spent = calltree.sums(owner, _computing_ns(kernels), len(cpu_ops))
        # What launched nothing ran on the host, or was cut off.
        known &= spent > 0
    known &= _in_step(cpu_ops, windows)
    rows = np.flatnonzero(known)
    columns = ["rank", "repeat", "step", "name", "input_shapes"]
    parts = [cpu_ops.iloc[rows][columns], each.iloc[rows]]
    calls = pd.concat([part.reset_index(drop=True) for part in parts], axis=1)
    calls = calls.assign(phase=_phases(cpu_ops, parent)[rows], time_ns=spent[rows])
    # Work of an operator outside the steps has no call.
    place = np.append(np.where(known, np.cumsum(known) - 1, -1), -1)[owner]
    return Costed(
        calls=_with_tf32(calls, kernels, place),
        kernels=kernels.assign(call=place)[_in_step(kernels, windows)],
    )


def _in_step(rows: pd.DataFrame, windows: pd.DataFrame) -> NDArray[np.bool_]:
    """Tell which rows are of a step that counts; all are where no step is known."""
    if (windows["step"] < 0).all():
        return np.ones(len(rows), dtype=np.bool_)
    key = ["rank", "repeat", "step"]
    known = pd.MultiIndex.from_frame(windows[key])
    return np.asarray(pd.MultiIndex.from_frame(rows[key]).isin(known))


def _with_tf32(
    calls: pd.DataFrame, kernels: pd.DataFrame, place: NDArray[np.int64]
) -> pd.DataFrame:
    """Return the calls with the type ``tf32`` where the kernels of an fp32 product say so."""
    says = named(kernels["name"], _uses_tf32)
    tensor = np.zeros(len(calls), dtype=np.bool_)
    tensor[place[says & (place >= 0)]] = True
    tensor &= ((calls["type"] == "float") & calls["kind"].isin(PRODUCTS)).to_numpy()
    return calls.assign(type=calls["type"].astype(object).mask(tensor, _TF32))


def _uses_tf32(kernel: str) -> bool:
    """Tell whether the name of a kernel says that it multiplies fp32 as TF32."""
    return any(part in kernel for part in _TF32_NAMES)


def _yields(cpu_ops: pd.DataFrame, each: pd.DataFrame, parent: calltree.Rows) -> NDArray[np.bool_]:
    """Tell which wrappers enclose a product, which then counts instead."""
    wrapper = matching(cpu_ops["name"], WRAPPERS)
    inside = (each["kind"].isin(PRODUCTS).to_numpy() & ~wrapper).astype(np.int64)
    below = calltree.subtree_sums(np.arange(len(cpu_ops)), inside, parent)
    return np.asarray(wrapper & (below > 0))


def _outermost(
    known: NDArray[np.bool_], yields: NDArray[np.bool_], parent: calltree.Rows
) -> NDArray[np.bool_]:
    counted = known & ~yields
    return np.asarray(counted & (calltree.nearest(parent, parent, ~counted) < 0))


def _phases(cpu_ops: pd.DataFrame, parent: calltree.Rows) -> NDArray[np.object_]:
    """Return the phase of each row.

    Autograd records a sequence number where it records a graph: an operator of its own that does
    so inside a node of the backward is run again by activation checkpointing. A gradient of a
    gradient looks the same, and activations that compiled code computes again do not.
    """
    node = matching(cpu_ops["name"], _ENGINE) | (cpu_ops["forward_tid"] > 0).to_numpy()
    step = matching(cpu_ops["name"], _OPTIMIZER)
    recorded = (cpu_ops["sequence"] >= 0).to_numpy() & ~node & ~step
    around = np.append(np.where(node, BACKWARD, np.where(step, OPTIMIZER, "")), FORWARD)
    every = np.arange(len(cpu_ops))
    nearest = calltree.nearest(every, parent, ~(node | step | recorded))
    outer = calltree.nearest(nearest, parent, ~(node | step))
    again = (nearest >= 0) & (outer >= 0) & (nearest != outer)
    phase = around[outer]
    return np.asarray(np.where(again & (phase == BACKWARD), RECOMPUTATION, phase), dtype=object)


def _computing_ns(kernels: pd.DataFrame) -> NDArray[np.int64]:
    """Return the time of work that the device does by itself, 0 for what a link bounds."""
    kind, copies = kernels["kind"], kernels["copy_kind"]
    own = kind.isin(("compute", "set")) | ((kind == "copy") & (copies == "DtoD"))
    return np.where(own, (kernels["end_ns"] - kernels["start_ns"]).to_numpy(np.int64), 0)
