"""A flipped bit is known, wherever it is, unless the object says the same all the same."""

import json

import pytest

from profkit.core.errors import InputError
from profkit.core.job_record import read_analysis
from profkit.core.result import Document, Provenance, Result, read, write
from profkit.core.sealed_json import is_damaged, sealed

CONTENT = b'{"count": 12, "text": "a \\"checksum\\": b", "list": [1.5, null]}\n'


def test_what_is_sealed_says_the_same_and_is_whole():
    content = sealed(CONTENT)
    found = json.loads(content)
    assert len(found.pop("checksum")) == 64
    assert found == json.loads(CONTENT)
    assert not is_damaged(content)


def test_what_was_never_sealed_is_not_called_damaged():
    assert not is_damaged(CONTENT)
    assert not is_damaged(b"")


def test_every_flipped_bit_is_known_or_changes_nothing():
    content = sealed(CONTENT)
    for position in range(len(content)):
        for bit in range(8):
            flipped = bytearray(content)
            flipped[position] ^= 1 << bit
            try:
                found = json.loads(bytes(flipped))
            except ValueError:
                continue
            same = {key: found.get(key) for key in json.loads(CONTENT)} == json.loads(CONTENT)
            assert same or is_damaged(bytes(flipped)), (position, bit)


def test_a_result_with_a_changed_number_is_not_read(tmp_path):
    path = tmp_path / "steps.json"
    nothing = Provenance(settings={}, modules={}, packages={}, inputs={})
    made = Document(
        analysis="steps", title="", summary="", result=Result(), provenance=nothing, attempt=3
    )
    write(path, made)
    assert read(path) == made
    assert read_analysis(path).attempt == 3
    path.write_bytes(path.read_bytes().replace(b'"attempt": 3', b'"attempt": 2'))
    assert read_analysis(path).status == "unreadable"
    with pytest.raises(InputError, match="is damaged or was edited"):
        read(path)
