"""Numbers of every notation."""

import math
from decimal import Decimal

import numpy as np

from profkit.convert.columns.values import UNKNOWN_NS, floats, identifiers, integers, nanoseconds


def test_microseconds_become_exact_nanoseconds():
    values = [0, 1.5, 0.001, 2413669097399.166, 8796093022207.999]
    assert nanoseconds(values).tolist() == [0, 1500, 1, 2413669097399166, 8796093022207999]


def test_whole_microseconds_stay_whole_beside_others():
    unknown = UNKNOWN_NS
    for values, expected in (
        ([1694128201437597, 2], [1694128201437597000, 2000]),
        ([1694128201437597, 2.5], [1694128201437597000, 2500]),
        ([2, None], [2000, unknown]),
        ([2**63, -(2**63), 2**60, -3], [unknown, unknown, unknown, -3000]),
    ):
        assert nanoseconds(values).tolist() == expected


def test_absolute_microseconds_keep_their_nanoseconds():
    values = [1694128201435418, "1694128201435418.123", Decimal("1694128201435418.999")]
    assert nanoseconds(values).tolist() == [
        1694128201435418000,
        1694128201435418123,
        1694128201435418999,
    ]


def test_every_relative_nanosecond_survives_in_every_notation():
    given = np.random.default_rng(0).integers(0, 8_000_000_000_000_000, 20_000)
    assert (nanoseconds([float(f"{time / 1:.0f}") / 1000 for time in given]) == given).all()
    texts = [f"{time // 1000}.{time % 1000:03}" for time in given.tolist()]
    assert (nanoseconds(texts) == given).all()
    assert (nanoseconds([*map(Decimal, texts)]) == given).all()


def test_what_is_no_time_is_unknown():
    values = [None, "soon", math.nan, math.inf, 10**30, Decimal("1e999999999"), "", 1]
    assert nanoseconds(values).tolist() == [UNKNOWN_NS] * 7 + [1000]


def test_integers_keep_64_bits():
    values = [2**53 + 1, 2**63 - 1, 2**63, 2**64 - 2, 2**64, "12", "0x10", "3.0", 2.0, None, "x"]
    assert integers(values).tolist() == [
        *(2**53 + 1, 2**63 - 1, -(2**63), -2, -1, 12, 16, 3, 2, -1, -1)
    ]


def test_floats_are_nan_where_unknown():
    assert floats([1, "2.5", None]).tolist()[:2] == [1.0, 2.5]
    assert np.isnan(floats([None, "x", "nan"])).all()


def test_threads_by_name_stay_apart():
    known = {}
    values = [5, "25738", "stream 7", "main", "other", "main", None]
    assert identifiers(values, known).tolist() == [5, 25738, 7, -2, -3, -2, -1]
    assert known == {"main": -2, "other": -3}
