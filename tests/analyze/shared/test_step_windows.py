import numpy as np
import pandas as pd
import pytest

from profkit.analyze.shared.step_windows import (
    extents,
    filtered,
    last_ends,
    step_windows,
    with_clock,
)
from profkit.tables import schema
from profkit.testing import ORIGIN_NS, span


def windows(steps, kernels, skip_first=0):
    found, missing = step_windows(
        schema.frame("steps", steps), schema.frame("kernels", kernels), skip_first
    )
    rows = zip(
        found["step"], found["start_ns"] - ORIGIN_NS, found["end_ns"] - ORIGIN_NS, strict=True
    )
    return [*rows], [abstention.reason for abstention in missing]


def test_a_step_lasts_until_its_device_work_is_done_and_the_next_begins_there():
    steps = [span(0, 50), span(50, 100, step=1), span(110, 150, step=2)]
    kernels = [span(10, 70), span(70, 90, step=1), span(120, 170, step=2)]
    assert windows(steps, kernels) == ([(0, 0, 70), (1, 70, 100), (2, 110, 170)], [])
    assert windows(steps, kernels, skip_first=2) == ([(2, 110, 170)], [])
    assert len(windows(steps, kernels, skip_first=5)[0]) == 3


def test_without_steps_there_is_one_window_of_all_work():
    assert windows([], [span(10, 20), span(15, 40)]) == (
        [(-1, 10, 40)],
        ["no step was marked: the numbers are those of all that was recorded"],
    )
    (found, (reason,)) = windows([span(1000, 1100)], [span(10, 20)])
    assert found == [(-1, 10, 20)]
    assert reason.startswith("the steps are those of another capture")


def test_the_slowest_rank_of_a_repeat_is_the_clock():
    steps = [span(0, 10), span(0, 30, rank=1), span(0, 20, repeat=1)]
    kernels = [span(0, 5), span(0, 5, rank=1), span(0, 5, repeat=1)]
    found, _ = step_windows(schema.frame("steps", steps), schema.frame("kernels", kernels), 0)
    assert with_clock(found)["step_time_ns"].tolist() == [30, 20, 30]
    assert found[["rank", "repeat"]].to_numpy().tolist() == [[0, 0], [0, 1], [1, 0]]


def test_a_rank_without_steps_is_left_out_and_that_is_said():
    found, missing = windows([span(0, 10)], [span(0, 5), span(0, 5, rank=1), span(0, 5, rank=2)])
    assert found == [(0, 0, 10)]
    assert missing == ["GPU work was recorded, but no step that counts: it is left out"]


def test_rows_of_a_rank_need_not_lie_together():
    rows = [span(20, 30), span(0, 90, rank=1), span(5, 25), span(8, 40, step=1), span(6, 7)]
    kernels = schema.frame("kernels", rows)
    found = extents(kernels) - ORIGIN_NS
    assert found.to_dict("index") == {
        (0, 0): {"first": 5, "last": 40},
        (1, 0): {"first": 0, "last": 90},
    }
    assert (last_ends(kernels) - ORIGIN_NS).to_dict() == {
        (0, 0, 0): 30,
        (0, 0, 1): 40,
        (1, 0, 0): 90,
    }
    counted = (kernels["start_ns"] < ORIGIN_NS + 8).to_numpy()
    assert (last_ends(kernels, counted) - ORIGIN_NS).to_dict() == {(0, 0, 0): 25, (1, 0, 0): 90}


@pytest.mark.parametrize(
    ("which", "kept", "is_copied"),
    [("0110", [1, 2], False), ("1111", [0, 1, 2, 3], False), ("1011", [0, 2, 3], True),
     ("0000", [], False)],
)  # fmt: skip
def test_rows_that_lie_together_are_no_copy(which, kept, is_copied):
    rows = pd.DataFrame({"start_ns": np.arange(4)})
    found = filtered(rows, np.array([mark == "1" for mark in which]))
    assert found["start_ns"].tolist() == found.index.tolist() == kept
    shared = np.shares_memory(found["start_ns"].to_numpy(), rows["start_ns"].to_numpy())
    assert shared == (bool(kept) and not is_copied)


def test_no_rows_of_an_empty_table_are_none():
    assert filtered(pd.DataFrame({"start_ns": []}), np.array([], dtype=bool)).empty
