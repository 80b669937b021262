"""Intervals and announcements: against SciPy, and on step times that behave badly."""

import numpy as np
import pytest
from scipy import stats

from profkit.analyze.shared.uncertainty import (
    adjusted,
    compared,
    fisher_tail,
    interval,
    over_repeats,
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


def test_pairs_of_repeats_are_compared_as_scipy_does():
    mine, theirs = {0: 11.0, 1: 12.5, 2: 9.0, 3: 7.0}, {0: 10.0, 1: 12.0, 2: 8.5, 5: 1.0}
    ratio = compared(mine, theirs)
    logs = np.log([[11.0, 12.5, 9.0], [10.0, 12.0, 8.5]])
    expected = stats.ttest_rel(*logs)
    assert ratio.repeats == 3
    assert ratio.p_value == pytest.approx(expected.pvalue)
    assert np.log([ratio.interval.low, ratio.interval.high]) == pytest.approx(
        tuple(expected.confidence_interval())
    )


def test_what_has_no_spread_or_no_pair_is_not_made_up():
    assert compared({0: 1.0}, {1: 1.0}) is None
    alone = compared({0: 3.0}, {0: 2.0})
    assert (alone.ratio, alone.interval, alone.p_value) == (pytest.approx(1.5), None, 1.0)
    assert interval(5.0, [np.array([4.0, 5.0, 6.0])]) is None
    assert interval(0.0, [np.zeros(3), np.ones(3)]) is None
    assert over_repeats({0: 2.0, 1: 2.0}).p_value == 0.0
    assert over_repeats({0: 1.0, 1: 1.0}).p_value == 1.0
    assert unequal_repeats([np.ones(6)]) is None
    assert unequal_repeats([np.ones(5), np.ones(6)]) is None


def test_many_comparisons_are_corrected_as_holm_says():
    assert adjusted([]) == []
    assert adjusted([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert adjusted([0.9, 0.6]) == [1.0, 1.0]


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


def p_values(logs):
    """Return the p-value of each of the last runs of each study against the first run."""
    medians = np.exp(np.median(logs, axis=-1))
    return [
        [compared(dict(enumerate(run)), dict(enumerate(first))).p_value for run in others]
        for first, *others in medians.tolist()
    ]


@pytest.mark.parametrize("repeats", [2, 3, 5, 10])
@pytest.mark.parametrize("machine", [{}, {"drift": 0.0, "between": 0.0}, {"memory": 0.9}])
def test_two_runs_of_one_configuration_are_told_apart_no_more_often_than_stated(repeats, machine):
    count = 2000
    found = p_values(studies((count, 2, repeats, 9), **machine))
    assert sum(p <= LEVEL for (p,) in found) <= bound(count)


def test_many_runs_of_one_configuration_are_told_apart_no_more_often_than_stated():
    count = 1000
    found = p_values(studies((count, 8, 3, 9)))
    assert sum(min(adjusted(study)) <= LEVEL for study in found) <= bound(count)
    # Without the correction it would happen far too often, so the test above can fail.
    assert sum(min(study) <= LEVEL for study in found) > bound(count)


@pytest.mark.parametrize(("repeats", "least"), [(3, 0.8), (5, 0.99)])
def test_a_difference_of_five_percent_is_found_most_of_the_time(repeats, least):
    """On a quiet machine that nevertheless drifts by 3 % from repeat to repeat."""
    logs = studies((1000, 2, repeats, 9), **QUIET)
    logs[:, 1] += np.log(1.05)
    assert np.mean([p <= LEVEL for (p,) in p_values(logs)]) >= least


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
