"""Texts by number."""

import msgspec
import pytest

from profkit.convert.columns.numbering import Text


@pytest.mark.parametrize(
    ("values", "numbers", "texts"),
    [
        ([], [], [""]),
        ([b"[1, 2]", b"", b"[1,2]", b"[[]]"], [1, 0, 1, 2], ["", "[1,2]", "[[]]"]),
        ([b""], [0], [""]),
    ],
    ids=["nothing", "white space", "no argument"],
)
def test_json_is_numbered_whatever_its_white_space(values, numbers, texts):
    text = Text()
    assert text.json_codes([msgspec.Raw(value) for value in values]).tolist() == numbers
    assert list(text.numbers) == texts
