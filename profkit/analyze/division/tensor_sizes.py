"""Whether steps differ because their tensors do, as with texts of other lengths."""

from itertools import pairwise

import pandas as pd

from profkit.analyze.shared.glob_match import matching

_PRODUCTS = ("aten::*mm", "aten::*convolution")
_MOSTLY = 0.5


def sizes_vary(ops: pd.DataFrame) -> bool:
    """Say whether most steps have matrix products of other shapes than the step before.

    `ops` are the operators of one rank and repeat. Shapes that were not recorded do not differ.
    """
    rows = ops[(ops["step"] >= 0).to_numpy() & matching(ops["name"], _PRODUCTS)]
    numbers, _ = pd.factorize(rows["input_shapes"].astype(object))
    by_step = pd.Series(numbers).groupby(rows["step"].to_numpy()).agg(frozenset).to_list()
    changes = [before != after for before, after in pairwise(by_step)]
    return bool(sum(changes) > _MOSTLY * len(changes))
