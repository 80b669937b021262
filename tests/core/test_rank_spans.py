import pytest

from profkit.core.errors import ConfigError
from profkit.core.rank_spans import EVERY_RANK, RankSpan, spans


@pytest.mark.parametrize(("ranks", "each"), [(1, 128), (128, 128), (0, 3), (3, 3)])
def test_a_run_that_one_job_can_do_is_not_divided(ranks, each):
    assert spans(ranks, each) == []


@pytest.mark.parametrize(("ranks", "each"), [(2, 1), (8, 3), (129, 128), (1000, 128)])
def test_each_rank_is_in_one_span_and_so_is_what_has_another_number(ranks, each):
    divided = spans(ranks, each)
    for rank in (-1, *range(ranks), ranks + 5, None):
        assert sum(rank in span for span in divided) == 1, rank
    assert len(divided) == -(-ranks // each)
    assert all(sum(rank in span for rank in range(ranks)) <= each for span in divided)


def test_a_span_is_what_it_says():
    assert [str(span) for span in spans(8, 3)] == [":3", "3:6", "6:"]
    for span in (*spans(8, 3), EVERY_RANK):
        assert RankSpan.parsed(str(span)) == span


@pytest.mark.parametrize("text", ["", "3", "a:b", "1:2:3", "-1:2"])
def test_what_is_no_span_is_refused(text):
    with pytest.raises(ConfigError, match="no span of ranks"):
        RankSpan.parsed(text)
