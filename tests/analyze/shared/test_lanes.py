"""Ranks on one axis of time."""

import numpy as np
import pandas as pd
import pytest

from profkit.analyze.shared import intervals
from profkit.analyze.shared.lanes import Lanes, fitting


def spans(*rows):
    return pd.DataFrame(rows, columns=["rank", "repeat", "start_ns", "end_ns"])


def test_no_rank_meets_another_and_lengths_stay():
    now = 2**60
    ops = spans((0, 0, now, now + 9), (1, 0, now + 2, now + 4), (0, 0, now + 20, now + 21))
    windows = spans((1, 0, now, now + 5), (0, 1, 3, 4), (0, 0, now, now + 30))
    lanes = Lanes([ops, windows])
    moved, frames = lanes.spans(ops), lanes.spans(windows)
    assert (moved[:, 1] - moved[:, 0]).tolist() == [9, 2, 1]
    assert len(intervals.union(frames)) == len(windows)
    inside = intervals.overlap(frames, intervals.union(moved))
    assert inside.tolist() == [2, 0, 10]
    assert ops["start_ns"].tolist() == [now, now + 2, now + 20]


def test_each_gpu_may_have_a_time_of_its_own():
    kernels = spans((0, 0, 5, 8), (0, 0, 5, 8)).assign(device=[0, 1])
    moved = Lanes([kernels], ["rank", "repeat", "device"]).spans(kernels)
    assert intervals.total(intervals.union(moved)) == 6


def test_no_rows_are_no_intervals():
    nothing = spans().astype(np.int64)
    assert Lanes([nothing]).spans(nothing).tolist() == []


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 1, 0, 2]], ids=str)
def test_rows_may_come_in_any_order(order):
    rows = spans((0, 0, 1, 2), (1, 0, 1, 3), (0, 0, 4, 9), (1, 0, 2, 4)).iloc[order]
    moved = Lanes([rows]).spans(rows)
    lengths = (rows["end_ns"] - rows["start_ns"]).to_numpy()
    assert (moved[:, 1] - moved[:, 0]).tolist() == lengths.tolist()
    assert intervals.total(intervals.union(moved)) == 9


def test_ranks_of_times_that_cannot_be_have_an_axis_each():
    now = 2**61
    ops = spans(*((rank, 0, -5 + rank, now) for rank in range(7)))
    parts = list(fitting([ops, ops.iloc[:2]]))
    assert len(parts) > 1
    assert pd.concat([rows for rows, _ in parts]).equals(ops)
    assert sum(len(others) for _, others in parts) == 2
    for rows, _ in parts:
        assert len(intervals.union(Lanes([rows]).spans(rows))) == len(rows)
    (alone,) = fitting([spans((0, 0, 1, 5), (1, 0, 2, 3))])
    assert len(alone[0]) == 2
