"""Intervals: against SciPy, and on step times that behave badly."""

import numpy as np
import pytest
from scipy import stats

from profkit.analyze.shared.uncertainty import (
    fisher_tail,
    interval,
    resampled,
    student_quantile,
    student_tail,
    unequal_repeats,
)

LEVEL = 0.05


def bound(trials, level=LEVEL):
    """Return how many of `trials` may go wrong before `level` is exceeded beyond chance."""
    return stats.binom.ppf(0.9999, trials, level)


@pytest.mark.parametrize("freedom", [1, 2, 3, 7.5, 30, 1000])
def test_students_distribution_is_that_of_scipy(freedom):
    for t in (0, 0.3, 1, 2.5, 12, 300):
        assert student_tail(-t, freedom) == pytest.approx(2 * stats.t.sf(t, freedom), abs=1e-12)
    for confidence in (0.5, 0.95, 0.999):
        expected = stats.t.ppf((1 + confidence) / 2, freedom)
        assert student_quantile(confidence, freedom) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("freedom", [(1, 4), (2, 6), (9, 20)])
def test_fishers_distribution_is_that_of_scipy(freedom):
    for ratio in (0, 0.1, 1, 3, 30):
        assert fisher_tail(ratio, *freedom) == pytest.approx(stats.f.sf(ratio, *freedom), abs=1e-12)


def test_the_bootstrap_of_one_repeat_is_the_ordinary_one_of_scipy():
    times = np.random.default_rng(5).lognormal(size=40)
    for statistic in (np.median, np.mean):
        ours = resampled([times], statistic, 20_000)
        theirs = stats.bootstrap(
            (times,), statistic, n_resamples=20_000, method="percentile", random_state=1
        )
        assert ours.std() == pytest.approx(theirs.standard_error, rel=0.03)
        ends = theirs.confidence_interval
        assert np.quantile(ours, (0.025, 0.975)) == pytest.approx((ends.low, ends.high), rel=0.03)


def test_the_bootstrap_of_constant_repeats_is_that_of_scipy_over_repeats():
    levels = np.array([1.0, 1.2, 1.5, 1.1])
    ours = resampled(
        [np.full(5 + index, level) for index, level in enumerate(levels)], np.mean, 20_000
    )
    theirs = stats.bootstrap((levels,), np.mean, n_resamples=20_000, random_state=1)
    assert ours.std() == pytest.approx(theirs.standard_error, rel=0.03)


def test_a_bootstrap_is_the_same_every_time_and_in_bounded_pieces():
    times = [np.arange(1.0, 3000.0), np.arange(5.0, 800.0)]
    one, other = resampled(times, np.median, 900), resampled(times, np.median, 900)
    assert one.shape == (900,)
    assert (one == other).all()


def test_what_has_no_spread_is_not_made_up():
    assert interval(5.0, [np.array([4.0, 5.0, 6.0])]) is None
    assert interval(0.0, [np.zeros(3), np.ones(3)]) is None
    # Two repeats that differ by half: 95 % of such intervals reach from microseconds to minutes.
    assert interval(1.2, [np.full(5, 1.0), np.full(5, 1.5)], np.mean) is None
    assert interval(1.0, [np.full(5, 1.0), np.full(5, 1.01)], np.mean).high < 2
    assert unequal_repeats([np.ones(6)]) is None
    assert unequal_repeats([np.ones(5), np.ones(6)]) is None


NOISE = {"between": 0.02, "drift": 0.03, "memory": 0.6, "step": 0.02}
QUIET = {"between": 0.0025, "drift": 0.03, "memory": 0.3, "step": 0.01}


def studies(shape, **noise):
    """Return logarithms of step times of studies of runs that are all the same.

    `shape` is (studies, runs, repeats, steps). Repeats have levels of their own, with heavy tails;
    the machine drifts from repeat to repeat under all runs alike; steps remember those before
    them, have heavy tails too, and some of them are interrupted.
    """
    random, noise = np.random.default_rng(0), NOISE | noise
    times = random.standard_t(3, shape) * noise["step"]
    for step in range(1, shape[-1]):
        times[..., step] += noise["memory"] * times[..., step - 1]
    interrupted = (random.random(shape) < 0.02) * random.exponential(0.5, shape)
    levels = random.standard_t(3, (*shape[:-1], 1)) * noise["between"]
    slope = random.standard_normal((shape[0], 1, 1, 1)) * noise["drift"]
    return times + interrupted + levels + slope * np.arange(shape[2])[:, None]


def test_intervals_hold_the_true_step_time_at_least_as_often_as_stated():
    count = 300
    logs = studies((count, 1, 3, 9), drift=0.0)[:, 0]
    true = np.exp(np.median(logs))
    held = 0
    for times in np.exp(logs):
        known = interval(float(np.median(times)), list(times), draws=200)
        held += known.low <= true <= known.high
    assert count - held <= bound(count)


@pytest.mark.parametrize("steps", [9, 30])
def test_drift_that_is_not_there_is_announced_no_more_often_than_stated(steps):
    count = 1000
    logs = studies((count, 1, 3, steps), between=0.0, drift=0.0, memory=0.3)[:, 0]
    found = sum(unequal_repeats(list(times)) <= LEVEL for times in np.exp(logs))
    assert found <= bound(count)
    drifting = logs + 0.05 * np.arange(3)[:, None]
    found = [unequal_repeats(list(times)) <= LEVEL for times in np.exp(drifting)]
    assert np.mean(found) > 0.7
