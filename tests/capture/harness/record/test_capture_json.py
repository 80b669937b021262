import json

from profkit.capture.harness.record import capture_json


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


def test_the_record_is_written_whole_with_its_version(tmp_path):
    capture_json.write(tmp_path, {"tool": "baseline"})
    assert [path.name for path in tmp_path.iterdir()] == ["capture.json"]
    written = json.loads((tmp_path / "capture.json").read_text())
    assert written == {"schema_version": 1, "tool": "baseline"}
