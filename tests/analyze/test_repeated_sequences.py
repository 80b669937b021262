"""Maximal repeats."""

from collections import Counter, defaultdict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from profkit.analyze._repeated_sequences import distinct, maximal_repeats


def repeats(text, track=None, min_count=2, max_length=20):
    """Return sequence, starts and time covered of the repeats in `text`, 1 ns a letter."""
    value = np.array([ord(letter) for letter in text], dtype=np.int64)
    where = np.zeros(len(text), dtype=np.int64) if track is None else np.array(track)
    found = maximal_repeats(
        value, where, np.ones(len(text), dtype=np.int64), max_length=max_length, min_count=min_count
    )
    return [
        ("".join(map(chr, repeat.values(value))), repeat.starts.tolist(), repeat.covered)
        for repeat in found
    ]


def test_only_maximal_repeats_are_found():
    assert repeats("xabcyabczabcw") == [("abc", [1, 5, 9], 9)]


def test_a_part_that_occurs_more_often_is_found_too():
    assert repeats("xabcyabczbcw") == [("abc", [1, 5], 6), ("bc", [2, 6, 9], 6)]


def test_what_follows_itself_is_cut_where_the_next_begins():
    assert repeats("abcabcabcabc", min_count=3)[0] == ("abc", [0, 3, 6, 9], 12)


def test_no_sequence_reaches_over_the_end_of_a_track():
    assert repeats("abab", track=[0, 1, 1, 2]) == []


def test_nothing_is_found_in_nothing():
    assert repeats("") == []
    assert repeats("abcdef") == []


def test_parts_of_a_sequence_do_not_stand_beside_it():
    value = np.array([ord(letter) for letter in "xabcyabczbcw"], dtype=np.int64)
    ones = np.ones(len(value), dtype=np.int64)
    found = maximal_repeats(value, 0 * value, ones, max_length=5, min_count=2)
    assert [repeat.length for repeat in distinct(found, value, 10)] == [3]


def is_maximal(part, counts):
    longer = [text for letter in "abc" for text in (letter + part, part + letter)]
    return counts[part] > max(counts[text] for text in longer)


@given(st.text("abc", min_size=1, max_size=60))
def test_repeats_are_those_that_trying_all_finds(text):
    starts = defaultdict(list)
    for length in range(1, 9):
        for at in range(len(text) - length + 1):
            starts[text[at : at + length]].append(at)
    counts = Counter({part: len(found) for part, found in starts.items()})
    cut = {
        part[: int(np.median(np.diff(starts[part])))]
        for part, count in counts.items()
        if 1 < len(part) < 8 and count > 1 and is_maximal(part, counts)
    }
    got = {part for part, _, _ in repeats(text, max_length=7)}
    assert got == {part for part in cut if len(part) > 1}
