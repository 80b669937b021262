"""Collectives that ranks made together."""

import pandas as pd
import pytest

from profkit.tables import rank_clocks, schema
from profkit.testing import frame


def test_without_collectives_all_columns_are_there_as_with_them():
    none = schema.frame("collectives")
    found = rank_clocks.matched_collectives(none)
    rows, clocks = rank_clocks._aligned(rank_clocks._matched(none))
    pd.testing.assert_frame_equal(found.rows, rank_clocks._waited(rows))
    pd.testing.assert_frame_equal(found.clocks, clocks)
    assert found.unmatched == 0


@pytest.mark.parametrize("size_bytes", [-1, 8])
def test_calls_of_unknown_size_are_compared_at_their_place_of_the_step(size_bytes):
    # The first of two all-to-alls moves much, and its ends do not coincide; the second is short.
    calls = [
        {"repeat": 0, "step": step, "rank": rank, "group": "0", "group_ranks": ""}
        | {"operation": "alltoall", "kind": "device", "size_bytes": size_bytes}
        | {"start_ns": 10_000 * step + start, "end_ns": 10_000 * step + end}
        for step in (5, 6)
        for rank in (0, 1, 2)
        for start, end in ((0, 3_000 + 200 * (rank != step - 5)), (4_000, 4_010))
    ]
    found = rank_clocks.matched_collectives(frame("collectives", calls)).rows
    of_first = found[(found["start_ns"] % 10_000 == 0).to_numpy()]
    whole = {3_000, 3_200} if size_bytes < 0 else {10}
    assert {*of_first["transfer_ns"]} == whole
