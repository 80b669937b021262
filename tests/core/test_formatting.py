import pytest

from profkit.core import formatting


@pytest.mark.parametrize(("count", "text"), [(0, "0 calls"), (1, "1 call"), (2, "2 calls")])
def test_one_thing_has_no_plural(count, text):
    assert formatting.counted(count, "call") == text


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, "0 rows of [a|b] have no end and count as 0 ns long, of 7."),
        (1, "1 row of [a|b] has no end and counts as 0 ns long, of 7."),
        (1_234, "1,234 rows of [a|b] have no end and count as 0 ns long, of 7."),
    ],
)
def test_nouns_and_verbs_agree_with_their_number(count, said):
    text = "{} row[s] of {table} [has|have] no end and count[s|] as 0 ns long, of {limit:,}."
    assert formatting.agreeing(count, text, table="[a|b]", limit=7) == said


@pytest.mark.parametrize(
    ("time_ns", "text"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (1_234, "1.23 µs"),
        (45_600_000, "45.6 ms"),
        (999_960_000, "1,000 ms"),
        (1_211_000_000, "1,211 ms"),
        (17_500_000_000, "17.5 s"),
        (-2_000, "-2 µs"),
        (3.6e12, "3,600 s"),
    ],
)
def test_times_have_three_digits_and_a_fitting_unit(time_ns, text):
    assert formatting.duration(time_ns) == text


def test_numbers_have_four_digits_and_large_ones_no_exponent():
    found = [formatting.number(value) for value in (0, 0.01234567, 307.69, 9999.4, 9999.6, 71270.4)]
    assert found == ["0", "0.01235", "307.7", "9,999", "10,000", "71,270"]


def test_a_time_far_below_its_unit_has_no_exponent():
    assert [formatting.milliseconds(ms) for ms in (3e-5, 1.234e-6, 0.0, 0.5)] == [
        "0.00003",
        "0.00000123",
        "0",
        "0.5",
    ]


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (2_713_000_000, "2.53 GiB"), (432_013_312, "412 MiB"), (2**20 - 1, "1,024 KiB")],
)
def test_sizes_have_three_digits_and_a_fitting_unit(count, text):
    assert formatting.size(count) == text


def test_a_long_text_is_cut_to_its_ends_with_what_is_left_out():
    assert formatting.cut("short", 10) == "short"
    assert (
        formatting.cut("a" * 50 + "b" * 50, 10)
        == "aaaaa [... 90 of 100 characters left out ...] bbbbb"
    )


@pytest.mark.parametrize(("numbers", "text"), [((3,), "pair 3"), ((1, 3), "pairs 1, 3")])
def test_things_are_named_by_their_numbers(numbers, text):
    assert formatting.numbered("pair", numbers) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\x1b[1mdo those steps\x1b[0m.", "do those steps."),
        ("\x1b[38;5;196mred\x1b[m", "red"),
        ("\x1b]0;a title\x07text\x1b]8;;https://example.org\x1b\\link", "textlink"),
        ("a\x1bcb\x08", "a cb "),
    ],
)
def test_styles_of_a_terminal_leave_nothing_behind(text, said):
    assert formatting.without_controls(text) == said
