"""What a pattern finds in parts of a recording, put together."""

import pytest

from profkit.analyze.division.found_in_parts import Found
from profkit.patterns.base import Match, Step


def found(*parts, steps=6):
    """Return the matches of parts of two steps each."""
    made = Found()
    for matches in parts:
        made.add(Step(count=2, ms=1.0), matches)
    return made.matches(steps)


def match(gain_ns, place="a.py(1): f", cause="cpu_operators.x", calls=3.0, **columns):
    evidence = {"calls_per_step": calls, "largest": gain_ns}
    given = {"advice": f"of {gain_ns}", "evidence": evidence, **columns}
    return Match(cause=cause, gain_ns=gain_ns, place=place, **given)


def test_what_is_found_in_one_part_is_the_same():
    several = (match(5.0), match(7.0, "b.py(2): g"))
    assert found(several) == [*several]


def test_gains_are_summed_and_counts_are_those_of_a_step():
    (made,) = found((match(5.0),), (match(9.0, calls=6.0),), ())
    assert made.gain_ns == 14.0
    assert made.evidence == {"calls_per_step": 3.0, "largest": 9.0}
    assert made.advice == "of 9.0"
    assert made.also == {}


def test_the_largest_says_where_it_is():
    (made,) = found((match(5.0),), (match(9.0, "b.py(2): g"),))
    assert (made.place, made.gain_ns) == ("b.py(2): g", 14.0)


def test_the_cause_of_another_part_has_its_share():
    other = match(5.0, cause="python", also={"cpu_operators.x": 2.0})
    (made,) = found((other,), (match(9.0, also={"loading_data": 4.0}),))
    assert made.cause == "cpu_operators.x"
    assert made.also == {"python": 3.0, "loading_data": 4.0}


def test_of_several_those_of_a_place_belong_together():
    first, second = "a.py(1): f", "b.py(2): g"
    parts = ((match(5.0, first), match(6.0, second)), (match(7.0, second),))
    assert [(one.place, one.gain_ns) for one in found(*parts)] == [(first, 5.0), (second, 13.0)]


@pytest.mark.parametrize("parts", [(), ((),), ((), ())], ids=["no part", "one", "two"])
def test_nothing_found_is_no_match(parts):
    assert found(*parts) == []
