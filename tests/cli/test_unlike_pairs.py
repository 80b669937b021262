"""Pairs whose two captures were made under different conditions."""

from profkit.cli.unlike_pairs import unlike


def test_pairs_are_named_by_what_was_not_the_same():
    quiet = {"other_work_share": 0.01, "load_before": 1.0, "cpu.clock_mhz": 2000.0}
    before = dict.fromkeys(range(4), quiet)
    after = {
        0: quiet | {"load_before": 9.0},
        1: quiet | {"other_work_share": 0.2},
        2: quiet | {"cpu.clock_mhz": 1800.0},
        3: quiet | {"other_work_share": 0.3},
        4: quiet,
    }
    assert list(unlike(before, after)) == [
        "not the same clock on both sides: pair 2",
        "not the same work of other processes on both sides: pairs 1, 3",
    ]
