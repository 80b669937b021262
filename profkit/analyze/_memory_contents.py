"""What allocations are: activations, gradients, weights, copies and workspaces."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.shared.allocation_origins import AFTER, BEFORE, UNKNOWN, WHERE

CONTENTS = {
    "forward": "activations",
    "backward": "gradients",
    "optimizer": "optimizer states",
    "data": "input batches",
    "set-up": "parameters",
    BEFORE: "blocks from before the history",
    AFTER: "blocks from after the window",
    UNKNOWN: "blocks of unknown origin",
}
"""What allocations of each origin are, if nothing more is known of them."""

TEMPORARIES = "temporaries of backward"
OF_UPDATE = "temporaries of the optimizer"
WITHOUT_GRADIENTS = "temporaries without gradients"
CAST_WEIGHTS = "weights cast by autocast"
WORKSPACES = "workspaces of libraries"

_OF_WORKSPACE = r"getNewWorkspace|[wW]orkspace\("
_LATER = 64
"""Allocations after which a block is kept: those of a layer without gradients are freed by then."""
_MOST_KEPT = 0.1
"""Of the bytes, where no gradients are: under 4 % were seen without, 13 to 50 % with them."""
_FEWEST_KEPT = 0.03
"""Of the blocks, as an answer of the model is one alone: 10 to 48 % were seen with gradients."""
_CAST = r"at::autocast::cached_cast"
_WITHOUT_GRADIENTS = r"decorate_context \([^;]*_contextlib\.py"
"""The frame of ``@torch.no_grad()`` and ``@torch.inference_mode()``, in which nothing is kept."""


def with_contents(allocations: pd.DataFrame) -> pd.DataFrame:
    """Return `allocations`, which have their origin, with a column ``content``."""
    origin = allocations["origin"].astype(object)
    content = origin.map(CONTENTS).to_numpy(dtype=object)
    is_forward = (origin == "forward").to_numpy(bool)
    content[is_forward & _containing(allocations, _WITHOUT_GRADIENTS)] = WITHOUT_GRADIENTS
    content[_without_gradients(allocations, origin.to_numpy(dtype=object))] = WITHOUT_GRADIENTS
    backward, update = ((origin == phase).to_numpy(bool) for phase in ("backward", "optimizer"))
    content[_freed_in_it(allocations, backward)] = TEMPORARIES
    content[_freed_in_it(allocations, update, others_last=True)] = OF_UPDATE
    content[_cast_weights(allocations, origin.isin([BEFORE, "set-up"]).to_numpy())] = CAST_WEIGHTS
    content[_containing(allocations, _OF_WORKSPACE)] = WORKSPACES
    return allocations.assign(content=pd.Categorical(content.astype(str)))


def _without_gradients(allocations: pd.DataFrame, origin: NDArray[np.object_]) -> NDArray[np.bool_]:
    """Tell which rows a forward pass makes that keeps hardly any of its blocks, and no backward.

    Calls of `torch.set_grad_enabled(False)` leave no frame.
    """
    found = np.zeros(len(allocations), dtype=bool)
    starts, ends, sizes = (
        allocations[name].to_numpy(np.int64) for name in ("start_event", "end_event", "size_bytes")
    )
    passing = np.flatnonzero(np.isin(origin, ["forward", UNKNOWN]) & (starts >= 0))
    for rows in allocations.groupby(WHERE, observed=True).indices.values():
        own = np.intersect1d(rows, passing)
        is_told = 2 * (origin[own] == "forward").sum() >= max(len(own), 4 * _LATER)
        if not is_told or np.isin(origin[rows], ["backward", "optimizer"]).any():
            continue
        own = own[np.argsort(starts[own])]
        early, later = own[:-_LATER], own[_LATER:]
        are_kept = (ends[early] < 0) | (ends[early] > starts[later])
        is_little = sizes[early][are_kept].sum() < _MOST_KEPT * sizes[early].sum()
        found[own] = is_little or are_kept.mean() < _FEWEST_KEPT
    return found


def _freed_in_it(
    allocations: pd.DataFrame, phase: NDArray[np.bool_], *, others_last: bool = False
) -> NDArray[np.bool_]:
    """Tell which rows of a `phase` are freed while it goes on: gradients and states outlive it.

    It goes on as long as nothing else allocates. Gradients may be freed right after it; where the
    `others_last`, as states do, all that is freed before anything else allocates was freed in it.
    """
    found = np.zeros(len(allocations), dtype=bool)
    for rows in allocations.groupby(WHERE, observed=True).indices.values():
        start, end = (allocations[name].to_numpy()[rows] for name in ("start_event", "end_event"))
        starts = np.sort(start[start >= 0])
        others = np.sort(start[(start >= 0) & ~phase[rows]])
        none = np.iinfo(starts.dtype).max
        after_end = np.append(starts, none)[np.searchsorted(starts, end)]
        other = np.append(others, none)[np.searchsorted(others, start)]
        found[rows] = phase[rows] & (end >= 0) & ((end if others_last else after_end) < other)
    return found


def _cast_weights(allocations: pd.DataFrame, weights: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Tell which rows are halves of a weight's size that autocast made: it casts inputs as well."""
    size = allocations["size_bytes"].to_numpy(np.int64)
    halves = np.isin(2 * size, size[weights])
    return halves & _containing(allocations, _CAST)


def _containing(allocations: pd.DataFrame, expression: str) -> NDArray[np.bool_]:
    """Tell which rows have a stack that contains `expression`."""
    stacks = allocations["stack"].cat
    contains = np.append(stacks.categories.str.contains(expression), False)
    return contains[stacks.codes.to_numpy()].astype(bool)
