"""The search for a revision, over comparisons whose answers are made up."""

import numpy as np
import pytest

from profkit.analyze.shared.bisection import MOST_COMPARISONS, RevisionFailed, bisected

CHANGE = np.log(1.03)


def oracle(changed, *, noise=0.01, broken=(), seed=0, change=CHANGE):
    """Return a comparison of revisions of which those from `changed` on are slower."""
    random = np.random.default_rng(seed)

    def compare(before, after, pairs):
        for position in (before, after):
            if position in broken:
                raise RevisionFailed(position)
        return change * (before < changed <= after) + random.normal(0, noise, pairs)

    return compare


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.02])
@pytest.mark.parametrize("changed", [1, 2, 17, 63, 64])
def test_the_revision_is_found_with_few_comparisons(changed, noise):
    found = [bisected(64, oracle(changed, noise=noise, seed=seed)) for seed in range(5)]
    assert {(one.before, one.after) for one in found} == {(changed - 1, changed)}
    assert all(one.is_sure for one in found)
    assert np.mean([len(one.comparisons) for one in found]) <= 14
    last = found[0].comparisons[-1]
    assert (changed - 1, changed) in {(one.before, one.after) for one in found[0].comparisons}
    assert len(last.logs) >= 3


def test_an_improvement_is_found_as_well():
    found = bisected(20, oracle(7, change=-CHANGE))
    assert (found.before, found.after) == (6, 7)


def test_revisions_that_fail_are_skipped_and_left_in_the_answer():
    found = bisected(32, oracle(16, broken={15, 16, 17, 30}))
    assert (found.before, found.after, found.is_sure) == (14, 18, True)
    assert {15, 16, 17} <= set(found.failed) <= {15, 16, 17, 30}


def test_next_to_one_another_takes_what_shows_the_difference():
    found = bisected(1, oracle(1))
    assert (found.before, found.after, len(found.comparisons)) == (0, 1, 1)


def test_ends_that_do_not_differ_have_no_answer():
    found = bisected(64, oracle(1, change=0.0))
    assert (found.probability, found.is_sure) == (0.0, False)
    assert len(found.comparisons) <= 6


def test_noise_that_hides_the_change_ends_without_an_answer():
    # The ends differ, as they happen to be compared on a quiet machine.
    quiet, loud = oracle(32, noise=0.001), oracle(32, noise=0.3, seed=1)
    found = bisected(64, lambda *wanted: (quiet if wanted[:2] == (0, 64) else loud)(*wanted))
    assert not found.is_sure
    assert len(found.comparisons) == MOST_COMPARISONS


@pytest.mark.parametrize("end", [0, 64])
def test_an_end_that_fails_is_not_skipped(end):
    with pytest.raises(RevisionFailed):
        bisected(64, oracle(5, broken={end}))


def test_the_same_answers_make_the_same_search():
    assert bisected(64, oracle(40, noise=0.03)) == bisected(64, oracle(40, noise=0.03))
