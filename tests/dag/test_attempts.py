"""Attempts of captures: what is captured again, and why."""

import hashlib
import json
import os
import socket
from dataclasses import asdict
from pathlib import Path

import pytest

from profkit.core import program_variables
from profkit.core.checksums import version
from profkit.core.job_record import NOTHING
from profkit.dag.attempts import Attempts, of_report
from profkit.process import parent_watch

_WRITTEN_S = 1_700_000_000
REST = {"reason": "", "settings": {}, "workload": {}}


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (None, 1),
        ({"attempt": 3, "status": "ok"}, 3),
        ({"attempt": 3, "status": "oom"}, 4),
        ({"attempt": 3, "status": "ok", "exit_code": 1, "interrupted": True}, 4),
        ({"attempt": 3, "status": "ok", "exit_code": 0, "interrupted": True}, 3),
        ({"attempt": 3, "status": "ok", "exit_code": 1}, 3),
        ({"attempt": 1, "status": "timeout"}, 2),
        ({"attempt": 1, "status": "unavailable"}, 2),
    ],
    ids=[
        *("never captured", "good", "out of memory"),
        *("interrupted", "a server that was interrupted", "a bad end of its own"),
        *("timeout", "available again"),
    ],
)
def test_a_failed_capture_gets_another_attempt(tmp_path, record, expected):
    path = tmp_path / "capture.json"
    if record:
        path.write_text(json.dumps({**record, **REST}))
    assert Attempts().number(path, "baseline") == expected


@pytest.mark.parametrize(
    "end", [{"status": "error"}, {"status": "ok", "exit_code": 1, "interrupted": True}]
)
def test_what_failed_in_this_invocation_is_not_tried_again_in_it(tmp_path, monkeypatch, end):
    path = tmp_path / "capture.json"
    path.write_text(json.dumps({"attempt": 3, **end, "invocation": "a", **REST}))
    monkeypatch.setenv(parent_watch.INVOCATION, "a")
    assert Attempts().number(path, "baseline") == 3
    monkeypatch.setenv(parent_watch.INVOCATION, "b")
    assert Attempts().number(path, "baseline") == 4


def test_a_folder_in_the_place_of_a_record_is_a_failed_attempt(tmp_path):
    path = tmp_path / "capture.json"
    path.mkdir()
    assert Attempts().number(path, "baseline") > path.stat().st_mtime


def test_a_damaged_record_is_a_failed_attempt_that_no_other_has_the_number_of(tmp_path):
    path = tmp_path / "capture.json"
    path.write_text('{"attempt": 3, "sta')
    assert Attempts().number(path, "baseline") == int(path.stat().st_mtime) + 1


@pytest.fixture
def captured(tmp_path, monkeypatch):
    """Return the good capture of a script with a helper, which lie in this folder."""
    monkeypatch.chdir(tmp_path)
    for name in ("train.py", "api_token.py"):
        Path(name).write_text(name)
    sources = [
        {"path": name, "sha256": hashlib.sha256(name.encode()).hexdigest()}
        for name in ("train.py", "api_token.py")
    ]
    path = tmp_path / "capture.json"
    path.write_text(json.dumps({"attempt": 2, "status": "ok", "sources": sources, **REST}))
    return path


def edit():
    Path("api_token.py").write_text("changed")


@pytest.mark.parametrize(
    ("change", "number", "reasons"),
    [
        (lambda: None, 2, []),
        (Path("train.py").touch, 2, []),
        (edit, 3, ["api_token.py has changed since it was captured"]),
        (lambda: Path("train.py").unlink(), 3, ["train.py is gone"]),
    ],
    ids=["nothing", "touched", "edited", "deleted"],
)
def test_a_capture_of_files_that_have_changed_is_made_again(captured, change, number, reasons):
    change()
    attempts = Attempts()
    assert attempts.number(captured, "baseline") == number
    assert attempts.changes(json.loads(captured.read_text())) == reasons
    assert Attempts(keeps_old_code=True).number(captured, "baseline") == 2


def test_a_capture_with_another_variable_is_made_again(captured, monkeypatch):
    # Libraries set some in the process that they are loaded into.
    for name in program_variables.of_libraries():
        monkeypatch.delenv(name)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    record = json.loads(captured.read_text())
    record |= {"machine": {"hostname": socket.gethostname()}, "variables": {"OMP_NUM_THREADS": ""}}
    assert Attempts().changes(record) == [
        "the variable OMP_NUM_THREADS has changed since it was captured"
    ]


def test_a_file_that_was_edited_while_it_ran_makes_a_capture_stale(captured):
    captured.write_text(captured.read_text().replace(hashlib.sha256(b"train.py").hexdigest(), ""))
    assert Attempts().number(captured, "baseline") == 3
    edited = ["train.py was edited while it was captured"]
    assert Attempts().changes(json.loads(captured.read_text())) == edited


def test_large_data_counts_by_size_and_time(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = Path("weights.pt")
    data.write_bytes(bytes(2 << 20))
    os.utime(data, (_WRITTEN_S, _WRITTEN_S))
    record = {"sources": [{"path": "weights.pt", "sha256": version(data)}]}
    assert Attempts().changes(record) == []
    data.touch()
    changed = ["weights.pt has changed since it was captured"]
    assert Attempts().changes(record) == changed
    data.write_bytes(b"small")
    assert Attempts().changes(record) == changed
    data.unlink()
    assert Attempts().changes(record) == ["weights.pt is gone"]


@pytest.fixture
def made(tmp_path):
    """Return a function that makes a report, its record and a file, and numbers the next job."""
    output, record, other = (tmp_path / name for name in ("report.html", "report.json", "table"))

    def number(content, *, gone=()):
        for path in (output, record, other):
            path.write_text(content if path == record else "")
            os.utime(path, (_WRITTEN_S, _WRITTEN_S))
            if path.name in gone:
                path.unlink()
        return of_report(output, [other])

    return number


def recorded(**fields):
    return json.dumps({"provenance": asdict(NOTHING), **fields})


def test_a_job_of_which_a_file_is_gone_gets_the_next_number_until_it_has_left_that(made):
    assert made(recorded(attempt=3)) == 3
    assert [made(recorded(attempt=3), gone=["table"]) for _ in range(2)] == [4, 4]
    assert made(recorded(attempt=4)) == 4
    assert made(recorded(), gone=["report.html", "report.json"]) == 1, "is made anyway"


@pytest.mark.parametrize("status", ["failed", "damaged", "unreadable"])
def test_a_job_that_failed_gets_the_next_number(made, status):
    assert made(recorded(attempt=3, status=status)) == 4
    assert made(recorded(attempt=3, status="partial")) == 3


@pytest.mark.parametrize("content", ["", '{"attem', "[1]", '{"attempt": "x"}', '{"attempt": null}'])
def test_a_record_that_is_gone_or_damaged_gives_a_number_that_no_attempt_had(made, content):
    assert made(content) == _WRITTEN_S + 1
    assert made(content, gone=["report.json"]) == _WRITTEN_S
