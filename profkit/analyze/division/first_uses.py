"""What calls of an operator take longer than others that do the same, at the same place each step.

The first operators of a step that use memory take its page faults, and find caches empty. Without
them others do, so that this time moves and is not gained.
"""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.division.recorded_rank import RecordedRank

_FEWEST = 3
"""Calls alike in a step, and steps, that are enough to know what is usual."""


def above_usual(
    rank: RecordedRank, rows: NDArray[np.int64], own_ns: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return by how much each of these operators is above what is usual; 0 where not known.

    Alike are calls of one name, shapes and types below the same operator. What is longer in single
    steps is no first use: it counts as the median over the steps. `own_ns` are their own times.
    """
    ops = rank.ops.iloc[rows]
    parents = rank.op_parents[rows]
    names = ops["name"].astype(object).to_numpy()
    above = np.where(parents >= 0, rank.ops["name"].astype(object).to_numpy()[parents], "")
    shapes, types = (
        ops[name].astype(object).to_numpy() for name in ("input_shapes", "input_types")
    )
    kind = pd.DataFrame({"name": names, "above": above, "shapes": shapes, "types": types})
    calls = pd.DataFrame(
        {
            "kind": kind.groupby(list(kind), dropna=False, sort=False).ngroup(),
            "step": ops["step"].to_numpy(np.int64),
            "ns": own_ns,
        }
    )
    order = np.argsort(ops["start_ns"].to_numpy(np.int64), kind="stable")
    calls["place"] = calls.iloc[order].groupby(["kind", "step"]).cumcount()
    places = calls.groupby(["kind", "place"])["ns"].agg(["median", "size"])
    medians = places.loc[places["size"] >= _FEWEST, "median"]
    of_kind = medians.groupby(level="kind")
    is_enough = of_kind.transform("size") >= _FEWEST
    longer = (medians - of_kind.transform("median")).clip(lower=0.0)[is_enough]
    found = calls.join(longer.rename("longer"), on=["kind", "place"])["longer"].fillna(0.0)
    is_known = (shapes != "") & (ops["step"].to_numpy(np.int64) >= 0)
    return np.where(is_known, np.minimum(found, own_ns), 0.0).astype(np.int64)
