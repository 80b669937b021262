"""Records of jobs, and tables that are no longer as their conversion made them."""

import json
import os
from dataclasses import asdict

import pytest

from profkit.core.checksums import checksum, damage
from profkit.core.errors import InputError
from profkit.core.job_record import NOTHING, damaged_outputs, read_analysis, read_job, verified
from profkit.testing import ResultTree

DAMAGES = {
    "truncated": lambda content: content[: len(content) // 2],
    "empty": lambda _: b"",
    "garbage": lambda _: b"\x00\xff\xfe{",
    "of another type": lambda _: b"[1]",
    "another record": lambda _: b'{"schema_version": 1}',
    "null": lambda _: b"null",
}


def flipped(content):
    return content[:-9] + bytes([content[-9] ^ 4]) + content[-8:]


@pytest.fixture
def table(tmp_path):
    """Return a table that a conversion made."""
    rows = [(0, step, 10 * step, 10 * step + 9) for step in range(40)]
    table = ResultTree(tmp_path).table("baseline", "steps", rows, "rank step start_ns end_ns")
    record = {"provenance": asdict(NOTHING), "tables": {"steps": asdict(checksum(table))}}
    table.with_name("convert.json").write_text(json.dumps(record))
    for path in (table, table.with_name("convert.json")):
        os.utime(path, (1e9, 1e9))  # what is written now is newer, however coarse the clock
    return table


def found(table):
    record = table.with_name("convert.json")
    return damaged_outputs(record, read_job(record))


def test_one_flipped_bit_at_any_position_of_a_table_is_noticed(table):
    made, content = checksum(table), table.read_bytes()
    with table.open("r+b", buffering=0) as file:
        for position, byte in enumerate(content):
            os.pwrite(file.fileno(), bytes([byte ^ 1 << position % 8]), position)
            assert damage(table, made), position
            os.pwrite(file.fileno(), bytes([byte]), position)
    assert not damage(table, made)


@pytest.mark.parametrize("change", [flipped, *list(DAMAGES.values())[:3]])
def test_a_table_that_was_changed_is_found_without_being_asked_for(table, change):
    assert found(table) == {}
    table.write_bytes(change(table.read_bytes()))
    assert "is damaged or was edited" in found(table)[table]
    table.unlink()
    assert found(table) == {table: "is gone"}


def test_a_table_that_was_only_touched_or_copied_is_whole(table):
    table.touch()
    assert found(table) == {}
    assert verified(table) == checksum(table).sha256


def test_a_table_that_rotted_is_found_by_its_reader_and_then_by_the_next_run(table):
    state = table.stat()
    table.write_bytes(flipped(table.read_bytes()))
    os.utime(table, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert found(table) == {}
    with pytest.raises(InputError, match=r"steps\.parquet: is damaged .*\n.*converts it again"):
        verified(table)
    assert list(found(table)) == [table]


@pytest.mark.parametrize("read", [read_job, read_analysis])
@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_record_is_that_of_a_failed_job(tmp_path, read, how):
    path = tmp_path / "record.json"
    path.write_bytes(DAMAGES[how](json.dumps({"provenance": asdict(NOTHING)}).encode()))
    made = read(path)
    assert (made.status, made.has_failed) == ("unreadable", True)
    assert made.attempt == int(path.stat().st_mtime)
