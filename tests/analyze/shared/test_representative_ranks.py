"""Which ranks stand for all."""

import numpy as np
import pandas as pd

from profkit.analyze.shared.representative_ranks import by_gpu_time, left_out, representative


def _kernels(ends: list[int]) -> pd.DataFrame:
    rows = [
        {"rank": rank, "repeat": 0, "start_ns": 0, "end_ns": end} for rank, end in enumerate(ends)
    ]
    return pd.DataFrame(rows)


def test_all_ranks_are_looked_at_where_they_are_few() -> None:
    assert by_gpu_time(_kernels([10, 20, 30]), 16) == ([0, 1, 2], 3)


def test_the_rank_that_is_farthest_off_is_among_those_that_stand_for_all() -> None:
    ends = [100] * 40
    ends[27] = 900
    chosen, count = by_gpu_time(_kernels(ends), 4)
    assert count == 40
    assert len(chosen) == 4
    assert 27 in chosen
    assert {0, 39} & set(chosen)


def test_what_is_left_out_is_named() -> None:
    (missing,) = left_out("the path", [0, 27], 40)
    assert missing.what == "the path of 38 ranks"
    assert "0, 27 stand for all 40" in missing.reason
    assert left_out("the path", [0, 1], 2) == ()


def test_a_rank_without_times_is_not_an_outlier() -> None:
    times = pd.DataFrame({"rank": [0, 1, 2], "time_ns": [5, 5, 50]})
    assert 2 in representative(times, np.arange(4), 2)
