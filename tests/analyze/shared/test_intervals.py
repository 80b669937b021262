import numpy as np
import pytest

from profkit.analyze.shared import intervals
from profkit.analyze.shared.intervals import nothing

CASES = range(60)


def random_spans(seed, size=12, span=40):
    generator = np.random.default_rng(seed)
    start = generator.integers(0, span, generator.integers(0, size + 1))
    return intervals.intervals(start, start + generator.integers(0, 9, len(start)))


def instants(spans):
    return {time for start, end in spans.tolist() for time in range(start, end)}


def is_union(spans):
    return bool(
        (spans[:, 1] > spans[:, 0]).all()
        and (spans[1:, 0] > spans[:-1, 1]).all()
        and spans.dtype == np.int64
        and spans.shape == (len(spans), 2)
    )


@pytest.fixture(params=[4, 1 << 18], ids=["in blocks of four", "all at once"], autouse=True)
def rows_at_once(request, monkeypatch):
    """Let every test hold for many rows as well, which are worked on some at a time."""
    monkeypatch.setattr(intervals, "_ROWS_AT_ONCE", request.param)


@pytest.mark.parametrize("seed", CASES)
def test_set_operations_agree_with_sets_of_instants(seed):
    left, right = random_spans(seed), random_spans(seed + 10_000)
    one, two = intervals.union(left), intervals.union(right)
    both, rest = intervals.intersection(one, two), intervals.difference(one, two)
    assert all(is_union(spans) for spans in (one, two, both, rest))
    assert instants(one) == instants(left)
    assert instants(both) == instants(left) & instants(right)
    assert instants(rest) == instants(left) - instants(right)
    assert intervals.total(one) == len(instants(left))


@pytest.mark.parametrize("seed", CASES)
def test_overlap_of_windows_agrees_with_counting_instants(seed):
    windows, covered = random_spans(seed), intervals.union(random_spans(seed + 20_000))
    inside = instants(covered)
    expected = [len(inside & set(range(start, end))) for start, end in windows.tolist()]
    assert intervals.overlap(windows, covered).tolist() == expected


@pytest.mark.parametrize("seed", CASES)
def test_containment_agrees_with_sets_of_instants(seed):
    covered = intervals.union(random_spans(seed))
    times = np.arange(-2, 60)
    assert intervals.contains(covered, times).tolist() == [
        time in instants(covered) for time in times.tolist()
    ]


@pytest.mark.parametrize("seed", CASES)
def test_what_groups_cover_agrees_with_counting_instants(seed):
    spans = random_spans(seed)
    groups = np.random.default_rng(seed).integers(0, 4, len(spans))
    expected = [len(instants(spans[groups == group])) for group in range(5)]
    before = spans.copy(), groups.copy()
    assert intervals.covered(spans, groups, 5).tolist() == expected
    np.testing.assert_array_equal(spans, before[0])
    np.testing.assert_array_equal(groups, before[1])


def test_groups_of_times_that_cannot_be_are_covered_as_any_other():
    # Of an epoch, with one event that begins before 0.
    now = 1_694_130_348_916_755_000
    spans = np.array([[-1000, now], [5, now + 7]] * 9)
    covered = intervals.covered(spans, np.repeat(np.arange(9), 2), 9)
    assert covered.tolist() == [now + 1007] * 9


def test_intervals_that_touch_become_one_and_empty_ones_vanish():
    spans = np.array([[5, 7], [0, 5], [9, 9], [8, 3]])
    assert intervals.union(spans).tolist() == [[0, 7]]


def test_a_span_is_cut_to_the_window_of_its_row():
    spans = np.array([[0, 10], [4, 6], [20, 30]])
    windows = np.array([[2, 5], [0, 5], [0, 10]])
    assert intervals.clip(spans, windows).tolist() == [[2, 5], [4, 5], [20, 20]]
    assert intervals.clip(spans, windows[:1]).tolist() == [[2, 5], [4, 5], [20, 20]]


def test_no_intervals_are_fine_everywhere():
    none, one = nothing(), np.array([[1, 3]])
    assert intervals.union(none).shape == (0, 2)
    assert intervals.intersection(none, none).shape == (0, 2)
    assert intervals.difference(one, none).tolist() == [[1, 3]]
    assert intervals.difference(none, one).shape == (0, 2)
    assert intervals.overlap(one, none).tolist() == [0]
    assert intervals.overlap(none, one).shape == (0,)
    assert intervals.clip(none, one).shape == (0, 2)
    assert intervals.total(none) == 0


def test_times_beyond_two_to_the_53_stay_exact():
    start = 2**60 + 1
    spans = np.array([[start, start + 3], [start + 2, start + 5]])
    assert intervals.union(spans).tolist() == [[start, start + 5]]
    assert intervals.overlap(np.array([[start + 1, start + 4]]), intervals.union(spans)) == 3


def test_arguments_are_left_as_they_were():
    spans = np.array([[5, 7], [0, 6]])
    copy = spans.copy()
    intervals.union(spans)
    intervals.clip(spans, np.array([[1, 2]]))
    assert (spans == copy).all()


def test_a_million_windows_over_a_million_intervals_are_no_matrix():
    start = np.arange(1_000_000) * 10
    spans = intervals.intervals(start, start + 5)
    covered = intervals.overlap(spans + 2, intervals.union(spans))
    assert covered.sum() == 3_000_000
