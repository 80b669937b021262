"""Texts by number."""

import pickle

import msgspec
import pytest

from profkit.convert.columns import numbering, values
from profkit.convert.columns.numbering import Text


@pytest.mark.parametrize(
    ("values", "numbers", "texts"),
    [
        ([], [], [""]),
        ([b"[1, 2]", b"", b"[1,2]", b"[[]]"], [1, 0, 1, 2], ["", "[1,2]", "[[]]"]),
        ([b""], [0], [""]),
        ([b"", b"", b""], [0, 0, 0], [""]),
        ([b"", b"1"], [0, 1], ["", "1"]),
    ],
    ids=["nothing", "white space", "no argument", "no arguments", "one of two"],
)
def test_json_is_numbered_whatever_its_white_space(values, numbers, texts):
    text = Text()
    assert text.json_codes([msgspec.Raw(value) for value in values]).tolist() == numbers
    assert list(text.numbers) == texts


def test_another_process_goes_on_numbering():
    text = Text()
    assert text.codes(["b", "a", "b"]).tolist() == [1, 2, 1]
    assert text.listed == ["", "b", "a"]
    other = pickle.loads(pickle.dumps(text))  # noqa: S301 - our own
    assert other.codes(["", "a", "new"]).tolist() == [0, 2, 3]
    assert other.listed == ["", "b", "a", "new"]


def test_json_that_was_forgotten_keeps_its_number(monkeypatch):
    monkeypatch.setattr(numbering, "REMEMBERED_BYTES", 16)
    text, values = Text(), [msgspec.Raw(b"[%d, 2]" % number) for number in range(9)]
    first = text.json_codes(values)
    assert first.tolist() == [*range(1, 10)]
    assert text.json_codes(values).tolist() == first.tolist()
    other = pickle.loads(pickle.dumps(text))  # noqa: S301 - our own
    assert other.json_codes(values[::-1]).tolist() == first[::-1].tolist()


def test_json_that_was_forgotten_is_written_again(monkeypatch):
    monkeypatch.setattr(values, "REMEMBERED_BYTES", 16)
    compact = values._Compact()
    given = [b"[%d, 2]" % number for number in range(9)] * 2 + [b"[" + b"1, " * 20 + b"1]"]
    assert [compact[text] for text in given] == [text.decode().replace(" ", "") for text in given]
    assert len(compact) == 1


def test_passwords_of_addresses_are_not_in_names_that_are_shown():
    texts = Text()
    named = ["aten::add", "get https://bob:hunter2@data.org/x", "get https://data.org/x"]
    codes = texts.codes(named)
    shown = ["aten::add", "get https://[masked]@data.org/x", "get https://data.org/x"]
    assert texts.decoded(codes).to_pylist() == shown
    # The same name has one number still, as it is in the file.
    assert texts.codes(named).tolist() == codes.tolist()
