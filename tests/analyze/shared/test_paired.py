"""Paired comparisons: against SciPy, by hand, and on step times that behave badly."""

import numpy as np
import pytest
from scipy import stats

from profkit.analyze.shared.paired import (
    Outcome,
    adjusted,
    bootstrap_bounds,
    bounds,
    compared,
    discovered,
    drifting,
    judged,
    narrow_enough,
    no_interval,
    order_correlation,
    outcomes,
    over_repeats,
    pairs_for,
    sign_flips,
)
from tests.analyze.shared.test_uncertainty import LEVEL, QUIET, bound, studies


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
    assert judged({0: 1.0}, {1: 1.0}) is None
    alone = compared({0: 3.0}, {0: 2.0})
    assert (alone.ratio, alone.interval, alone.p_value) == (pytest.approx(1.5), None, 1.0)
    assert over_repeats({0: 2.0, 1: 2.0}).p_value == 0.0
    assert over_repeats({0: 1.0, 1: 1.0}).p_value == 1.0


def test_many_comparisons_are_corrected_as_holm_says():
    assert adjusted([]) == []
    assert adjusted([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert adjusted([0.9, 0.6]) == [1.0, 1.0]


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


NORMAL = np.random.default_rng(3).normal(0.01, 0.02, (3, 10))


def test_ends_of_intervals_and_correlations_are_those_of_scipy():
    low, high = bounds(NORMAL)
    for row, *ends in zip(NORMAL, low, high, strict=True):
        expected = stats.ttest_1samp(row, 0).confidence_interval()
        assert ends == pytest.approx(tuple(expected))
        rank = stats.spearmanr(np.arange(10), row.round(2)).statistic
        assert order_correlation(row.round(2)) == pytest.approx(rank)
    assert order_correlation(np.ones(7)) == 0
    made = stats.bootstrap((NORMAL[0],), np.mean, method="BCa", rng=np.random.default_rng(5))
    assert bootstrap_bounds(NORMAL[0]) == pytest.approx(tuple(made.confidence_interval), rel=0.05)
    assert bootstrap_bounds(NORMAL[0]) == bootstrap_bounds(NORMAL[0])


@pytest.mark.parametrize("count", [3, 6, 10])
def test_sign_flips_are_the_exact_permutation_test_of_scipy(count):
    for logs in NORMAL[:, :count]:
        expected = stats.permutation_test(
            (logs,), np.mean, permutation_type="samples", n_resamples=np.inf
        )
        assert sign_flips(logs) == pytest.approx(expected.pvalue)
    # By hand: only all signs as they are, or all of them turned, are as far from 0.
    assert sign_flips(np.arange(1.0, count + 1)) == 2 / 2**count
    assert sign_flips(np.zeros(count)) == 1


def test_the_pairs_that_an_interval_takes_are_those_of_the_protocol():
    """Half widths of 2.48, 1.05 and 0.72 standard deviations at 3, 6 and 10 pairs."""
    assert [pairs_for(1.0, half) for half in (2.49, 2.48, 1.05, 0.72, 0.71)] == [3, 4, 6, 10, 11]
    assert pairs_for(0.0, 0.01) == 2
    assert pairs_for(1.0, 0.0) > 1000


def rounds(ratios):
    """Return both runs' values in each repeat, whose ratios are these."""
    return {i: 100.0 * ratio for i, ratio in enumerate(ratios)}, dict.fromkeys(
        range(len(ratios)), 100.0
    )


STEADY = np.array([0.0, 0.002, -0.001, 0.001, -0.002, 0.0])


@pytest.mark.parametrize(
    ("ratios", "outcome"),
    [
        (1.1 + STEADY, Outcome.HIGHER),
        (0.9 + STEADY, Outcome.LOWER),
        (1 + STEADY, Outcome.SAME),
        (1.01 + STEADY, Outcome.INCONCLUSIVE),
        (1.1 + STEADY[:5], Outcome.INCONCLUSIVE),
        ([1.1], Outcome.INCONCLUSIVE),
        (np.linspace(1, 1.1, 6), Outcome.VOID),
        (np.full(6, 1.02), Outcome.HIGHER),
    ],
)
def test_the_interval_and_the_band_decide(ratios, outcome):
    judgement = judged(*rounds(ratios))
    assert judgement.outcome is outcome
    assert judgement.doubts == ()
    assert bool(judgement.reason) == (outcome in (Outcome.INCONCLUSIVE, Outcome.VOID))


def test_pairs_that_would_decide_are_counted():
    assert judged(*rounds([1.1])).more_pairs == 5
    assert judged(*rounds(1.1 + STEADY[:4])).more_pairs == 2
    assert judged(*rounds(1 + 10 * STEADY)).more_pairs == pytest.approx(6, abs=3)
    at_the_edge = judged(*rounds(1.01 + STEADY))
    assert at_the_edge.more_pairs == 0


def test_an_interval_that_says_nothing_is_not_shown():
    judgement = judged(*rounds(np.array([1.0, 16.0])))
    assert (judgement.ratio.interval, judgement.outcome) == (None, Outcome.INCONCLUSIVE)
    assert judgement.reason == "the pairs differ too much for an interval"
    assert "set repeats=6" in no_interval(judgement.ratio.repeats)
    assert judged(*rounds(np.array([1.0, 1.1]))).ratio.interval is not None


def test_runs_that_slow_down_together_are_void_and_a_level_that_stays_is_not():
    together = 100 * np.linspace(1, 1.2, 8)
    values = dict(enumerate(together.tolist()))
    judgement = judged({i: 1.1 * value for i, value in values.items()}, values)
    assert judgement.outcome is Outcome.VOID
    assert judgement.reason == (
        "the level of both runs drifts by +20.0% over the 8 pairs (rank correlation with time 1.00)"
    )
    assert not drifting(np.linspace(0, 0.005, 8), 0.01)


def test_checks_that_disagree_with_the_interval_are_named():
    # One pair far off makes the interval wide; that all are above 1 is beyond chance.
    above = judged(*rounds([1.02, 1.021, 1.019, 1.022, 1.018, 1.4]))
    assert above.outcome is Outcome.INCONCLUSIVE
    assert above.doubts == ("the exact permutation test sees a difference (p = 0.031)",)


@pytest.mark.parametrize("pairs", [6, 20])
def test_equal_runs_are_judged_different_no_more_often_than_stated(pairs):
    logs = studies((1000, 2, pairs, 1), drift=0.0)[..., 0]
    found = outcomes(logs[:, 0] - logs[:, 1], logs.mean(axis=1), band=0.0)
    assert np.isin(found, [Outcome.HIGHER, Outcome.LOWER]).sum() <= bound(1000)


def test_pairs_end_with_the_width_of_the_interval_alone():
    even = np.tile([0.001, -0.001], 3)
    assert narrow_enough(even)
    assert narrow_enough(even + 1.0)
    assert not narrow_enough(10 * even)


def test_of_many_differences_those_beyond_chance_are_told():
    random = np.random.default_rng(0)
    noise = random.normal(0, 1, (400, 6))
    assert sum(discovered(noise.tolist())) == 0
    assert sum(stats.ttest_1samp(noise, 0, axis=1).pvalue <= 0.05) > 10
    real = [[5.0 + value for value in row] for row in noise[:40].tolist()]
    found = discovered([*real, *noise[40:].tolist()])
    assert sum(found[:40]) > 35
    assert sum(found[40:]) <= 4
    assert discovered([]) == []


def test_of_few_differences_those_are_told_that_scipy_tells():
    shifted = np.random.default_rng(1).normal(0, 1, (200, 5, 6)) + np.linspace(0, 2, 5)[:, None]
    for samples in shifted:
        shares = stats.false_discovery_control(stats.ttest_1samp(samples, 0, axis=1).pvalue)
        assert discovered(samples.tolist()) == [bool(share <= 0.05) for share in shares]
