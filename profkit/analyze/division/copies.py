"""Copies by their direction, and which of them bring weights that the memory of the CPU holds."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.shared import calltree
from profkit.analyze.shared.glob_match import matching, texts

MIGRATIONS = "UVM "
"""How the directions begin of pages of managed memory, which move without a call that copies."""
PREFETCHED = "UVM prefetch "
"""The same of pages that a program asks for; others move when they are touched."""

_LEAST_BYTES = 1 << 20
_SHARDED = ("*FSDP::*", "*FullyShardedDataParallel*")
_FEWEST_MODULES = 2


def copy_names(
    kernels: pd.DataFrame,
    ops: pd.DataFrame,
    kernel_ops: calltree.Rows,
    pageable: NDArray[np.bool_],
) -> NDArray[np.object_]:
    """Return the last part of the id that each of `kernels` has as a copy, "" for no copy.

    `kernel_ops` are the rows of their operators; `pageable` are those that memory slows down.
    """
    found = np.full(len(kernels), "", dtype=object)
    rows = np.flatnonzero(texts(kernels["kind"]) == "copy")
    direction = texts(kernels["copy_kind"])[rows]
    names = np.where(direction == "", "unknown_direction", direction)
    names = np.where(pageable[rows], names + "_pageable", names)
    found[rows] = np.where(_of_weights(kernels, ops, kernel_ops)[rows], "HtoD_of_weights", names)
    return found


def _of_weights(
    kernels: pd.DataFrame, ops: pd.DataFrame, kernel_ops: calltree.Rows
) -> NDArray[np.bool_]:
    """Choose the large copies to the GPU that sharding, an optimizer or several modules make.

    Others of the same size are of weights as well: a recording may lack what launched them.
    """
    size = kernels["size_bytes"].to_numpy(np.int64)
    large = (kernels["copy_kind"] == "HtoD").to_numpy() & (size >= _LEAST_BYTES)
    rows = np.flatnonzero(large & (kernel_ops >= 0))
    if not len(rows):
        return np.zeros_like(large)
    modules = texts(kernels["module"])[rows]
    in_modules = modules != ""
    if len({*modules[in_modules]}) < _FEWEST_MODULES:
        in_modules[:] = False
    known = size[rows[in_modules | _inside(ops, kernel_ops[rows])]]
    return large & np.isin(size, known)


def _inside(ops: pd.DataFrame, at: calltree.Rows) -> NDArray[np.bool_]:
    """Tell which operators `at` these rows are inside of sharding, or of an optimizer's step."""
    owning = matching(ops["name"], _SHARDED) | (ops["phase"] == "optimizer").to_numpy()
    numbers, parents = (ops[name].to_numpy(np.int64) for name in ("op", "parent"))
    found = np.zeros(len(at), dtype=np.bool_)
    while (at >= 0).any():
        found |= (at >= 0) & owning[at]
        at = np.where(at >= 0, calltree.positions(numbers, parents[at]), -1)
    return found
