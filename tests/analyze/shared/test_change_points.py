"""Change points of generated series, whose changes are known."""

import itertools

import numpy as np
import pytest

from profkit.analyze.shared.change_points import change_points

NOISE = 0.005


def series(*levels, seed=0, noise=NOISE):
    """Return the logs of measurements around levels, each given as its length and level."""
    logs = np.concatenate([np.full(count, np.log(level)) for count, level in levels])
    return logs + np.random.default_rng(seed).normal(0, noise, len(logs))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("levels", "where"),
    [
        ([(20, 100), (15, 105)], [20]),
        ([(10, 100), (2, 105)], [10]),
        ([(15, 100), (5, 110), (20, 100)], [15, 20]),
        ([(12, 100), (12, 103), (12, 108), (12, 99)], [12, 24, 36]),
        ([(8, 100), (3, 110)], [8]),
    ],
    ids=[
        "a step",
        "the newest two",
        "there and back",
        "three in a row",
        "within the fence's reach",
    ],
)
def test_changes_are_found_where_they_are(levels, where, seed):
    found = change_points(series(*levels, seed=seed))
    assert [point.index for point in found] == where
    sizes = [np.log(after / before) for (_, before), (_, after) in itertools.pairwise(levels)]
    assert [point.change for point in found] == pytest.approx(sizes, abs=4 * NOISE)


def test_noise_has_few_changes():
    found = [bool(change_points(series((40, 100), seed=seed))) for seed in range(100)]
    assert sum(found) <= 5


def test_changes_that_do_not_matter_are_none():
    assert change_points(series((20, 100), (20, 100.5), noise=0.0001)) == []


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_too_few_measurements_say_nothing(count):
    assert change_points(np.array([0.0, 0.5] * 3)[:count]) == []


def test_equal_measurements_have_no_change_and_exact_steps_have_one():
    assert change_points(np.zeros(30)) == []
    (found,) = change_points(np.array([0.0] * 8 + [0.1] * 8))
    assert (found.index, found.p_value) == (8, 0.0)
