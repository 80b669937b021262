"""Collectives that ranks made together."""

import pandas as pd

from profkit.tables import rank_clocks, schema


def test_without_collectives_all_columns_are_there_as_with_them():
    none = schema.frame("collectives")
    found = rank_clocks.matched_collectives(none)
    rows, clocks = rank_clocks._aligned(rank_clocks._matched(none))
    pd.testing.assert_frame_equal(found.rows, rank_clocks._waited(rows))
    pd.testing.assert_frame_equal(found.clocks, clocks)
    assert found.unmatched == 0
