"""Whether steps differ because their tensors do, as with texts of other lengths."""

from itertools import pairwise

from profkit.analyze.shared.glob_match import matching
from profkit.analyze.shared.large_table import LargeTable
from profkit.analyze.shared.step_windows import WHERE

_PRODUCTS = ("aten::*mm", "aten::*convolution")
_MOSTLY = 0.5
_MORE = 1.5


def sizes_vary(ops: LargeTable, where: tuple[int, int]) -> bool:
    """Say whether most steps have matrix products of other shapes than the step before.

    That is of the rank and repeat `where`. Shapes that were not recorded do not differ.
    """
    rank, repeat = where
    shapes_of: dict[int, set[str]] = {}
    for part in ops.narrowed([*WHERE, "name", "step", "input_shapes"]).only({rank}).portions():
        mine = ((part["repeat"] == repeat) & (part["step"] >= 0)).to_numpy()
        rows = part.loc[mine & matching(part["name"], _PRODUCTS), ["step", "input_shapes"]]
        for step, shapes in rows.drop_duplicates().itertuples(index=False):
            shapes_of.setdefault(int(step), set()).add(str(shapes))
    by_step = [shapes_of[step] for step in sorted(shapes_of)]
    changes = [before != after for before, after in pairwise(by_step)]
    # Steps on several threads have each a part of the same shapes.
    every, most = set().union(*by_step), max(map(len, by_step), default=0)
    return sum(changes) > _MOSTLY * len(changes) and len(every) > _MORE * most
