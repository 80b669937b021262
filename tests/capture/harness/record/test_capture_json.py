import json

import pytest

from profkit.capture.harness.record import capture_json
from profkit.core.capture_record import damaged_files, read_capture


def test_only_files_that_a_capture_writes_are_cleared(tmp_path):
    ours = ("capture.json", "capture.log", "rank0_dp0_tp0_pp0.steps.json")
    theirs = ("notes.txt", "rank.txt", "rank0.json")
    for name in (*ours, *theirs):
        (tmp_path / name).touch()
    folder = tmp_path / "rank10_dp10_tp0_pp0.tables"
    folder.mkdir()
    (folder / "x").touch()
    capture_json.clear(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(theirs)


def test_the_tail_of_a_log_is_its_last_forty_lines(tmp_path):
    log = tmp_path / "capture.log"
    assert capture_json.tail(log) == []
    log.write_bytes(b"\xff" * 200_000 + b"\n" + b"".join(b"%d\n" % line for line in range(50)))
    assert capture_json.tail(log) == [str(line) for line in range(10, 50)]


def test_the_tail_of_a_log_has_no_colours(tmp_path):
    (tmp_path / "capture.log").write_text("\x1b[31mRuntimeError\x1b[0m: x\n")
    assert capture_json.tail(tmp_path / "capture.log") == ["RuntimeError: x"]


def test_every_file_is_written_down_with_its_hash_and_compared_later(tmp_path):
    (tmp_path / "rank0.nsys").mkdir()
    whole, nested = tmp_path / "rank0.steps.json", tmp_path / "rank0.nsys" / "part"
    for path in (whole, nested):
        path.write_bytes(b"12345")
    (tmp_path / "capture.log").touch()
    request = {"attempt": 1, "status": "ok", "reason": "", "settings": {}, "workload": {}}
    capture_json.write(tmp_path, {**request, "files": capture_json.files(tmp_path)})
    record = tmp_path / "capture.json"
    assert [len(file["sha256"]) for file in read_capture(record)["files"]] == [64] * 3
    assert damaged_files(record) == {}
    nested.write_bytes(b"12385")
    whole.unlink()
    (tmp_path / "capture.log").write_text("nothing reads it")
    found = damaged_files(record)
    assert found[whole] == "is gone"
    assert "SHA-256" in found.pop(nested)
    assert list(found) == [whole]


def test_a_record_of_before_there_were_hashes_is_compared_by_size(tmp_path):
    request = {"attempt": 1, "status": "ok", "reason": "", "settings": {}, "workload": {}}
    capture_json.write(tmp_path, {**request, "files": [{"path": "a", "size_bytes": 2}]})
    (tmp_path / "a").write_bytes(b"12")
    assert damaged_files(tmp_path / "capture.json") == {}
    (tmp_path / "a").write_bytes(b"123")
    assert "3 bytes instead of 2" in damaged_files(tmp_path / "capture.json")[tmp_path / "a"]


@pytest.mark.parametrize(
    "change", [{"attempt": "1"}, {"files": 3}, {"files": [{}]}, {"settings": []}, {"warnings": "x"}]
)
def test_a_record_with_a_field_of_another_type_is_a_failed_attempt(tmp_path, change):
    request = {"attempt": 1, "status": "ok", "reason": "", "settings": {}, "workload": {}}
    capture_json.write(tmp_path, request | change)
    record = read_capture(tmp_path / "capture.json")
    assert (record["status"], record["reason"]) == ("error", "capture.json is damaged")
    assert record["attempt"] > 1
    assert damaged_files(tmp_path / "capture.json") == {}


def test_the_record_is_written_whole_with_its_version(tmp_path):
    capture_json.write(tmp_path, {"tool": "baseline"})
    assert [path.name for path in tmp_path.iterdir()] == ["capture.json"]
    written = json.loads((tmp_path / "capture.json").read_text())
    assert len(written.pop("checksum")) == 64
    assert written == {"schema_version": 1, "tool": "baseline"}
