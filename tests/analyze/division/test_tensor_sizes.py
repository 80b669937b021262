"""Steps whose matrix products have other shapes than those of the step before."""

import pytest

from profkit.analyze.division.tensor_sizes import sizes_vary
from profkit.analyze.shared.large_table import LargeTable
from profkit.tables import schema


def ops(*shapes_of_steps, name="aten::addmm"):
    rows = [
        {"rank": 3, "repeat": 1, "step": step, "name": name, "input_shapes": shapes}
        for step, all_shapes in enumerate(shapes_of_steps)
        for shapes in all_shapes
    ]
    return LargeTable.of(schema.frame("cpu_ops", rows))


@pytest.mark.parametrize(
    ("steps", "vary"),
    [
        ((["[64, 9]"], ["[96, 9]"], ["[64, 9]"]), True),
        ((["[64, 9]", "[9, 9]"], ["[9, 9]", "[64, 9]"], ["[64, 9]", "[9, 9]"]), False),
        # The last batch of an epoch.
        ((["[64, 9]"], ["[64, 9]"], ["[64, 9]"], ["[7, 9]"]), False),
        # Calls of one model on several threads.
        ((["[1, 9]", "[2, 9]"], ["[2, 9]", "[3, 9]"], ["[1, 9]", "[2, 9]", "[3, 9]"]), False),
        (([""], [""]), False),
        ((["[64, 9]"],), False),
        ((), False),
    ],
)
def test_sizes_vary_where_most_steps_have_others_than_the_one_before(steps, vary):
    assert sizes_vary(ops(*steps), (3, 1)) == vary
    assert not sizes_vary(ops(*steps), (3, 0))
    assert not sizes_vary(ops(*steps, name="aten::add"), (3, 1))
