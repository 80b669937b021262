"""Rows that are alike lie together."""

import itertools

import numpy as np
import pytest

from profkit.analyze.shared.alike_rows import alike_order


def _noise(rows: int, columns: int) -> np.ndarray:
    return np.random.default_rng(3).normal(100, 1, (rows, columns))


def _groups(order: list[int], group_of: np.ndarray) -> list[int]:
    """Return the group of each stretch of rows in `order`."""
    named = group_of[order]
    return [int(named[0]), *(int(b) for a, b in itertools.pairwise(named) if a != b)]


@pytest.mark.parametrize("rows", [16, 64, 1000])
def test_ranks_of_two_hosts_that_alternate_come_apart(rows: int) -> None:
    host = np.arange(rows) % 2
    values = _noise(rows, 20)
    values[:, 5:] += 6 * host[:, None]
    order = alike_order(values)
    assert sorted(order) == list(range(rows))
    assert sorted(_groups(order, host)) == [0, 1]


def test_a_step_in_which_all_are_slow_does_not_decide_alone() -> None:
    host = np.arange(64) % 2
    values = _noise(64, 20)
    values[:, :10] += 6 * host[:, None]
    # Thirty times as slow, and as far apart; who is slower there has nothing to do with the host.
    values[:, 15] = 30 * np.random.default_rng(4).permutation(values[:, 15])
    assert sorted(_groups(alike_order(values), host)) == [0, 1]


def test_three_groups_with_times_that_are_not_known_come_apart() -> None:
    group = np.arange(60) * 7 % 3
    values = _noise(60, 30)
    values[group == 1, :10] += 20
    values[group == 2, 20:] += 20
    values[::5, ::3] = np.nan
    values[:, 12] = np.nan
    assert sorted(_groups(alike_order(values), group)) == [0, 1, 2]


def test_the_rank_that_stands_out_lies_at_an_end() -> None:
    values = _noise(300, 10)
    values[123] += 40
    assert 123 in {alike_order(values)[0], alike_order(values)[-1]}


@pytest.mark.parametrize(
    "values",
    [np.full((5, 4), 7.0), np.full((5, 4), np.nan), np.ones((5, 0)), _noise(2, 9), _noise(2001, 2)],
    ids=["all are equal", "none is known", "no column", "too few rows", "too many rows"],
)
def test_rows_without_groups_keep_their_order(values: np.ndarray) -> None:
    assert alike_order(values) == []
