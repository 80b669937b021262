"""The record that a job leaves that failed: whatever ended it, its readers have something."""

import gzip
import json

import pyarrow.parquet as pq
import pytest

from profkit.cli import failed, main
from profkit.core.job_record import read_analysis, read_job
from profkit.process import parent_watch
from profkit.tables import schema

TRACEBACK = "Traceback (most recent call last):\n  File x\nKeyError: 'step'\n"


@pytest.fixture(autouse=True)
def in_the_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log").write_text(TRACEBACK)


def leave(stage, name, *out, status=1):
    words = [stage, name, "--status", status, "--log", "log", "--attempt", 3, "--out", *out]
    return main(["failed", *map(str, words)])


@pytest.mark.parametrize(
    ("status", "log", "reason"),
    [
        (1, TRACEBACK, "KeyError: 'step'"),
        (1, "x\nprofkit: x: is damaged\n  hint: look\n", "x: is damaged; hint: look"),
        (137, "", "the job was ended by signal 9"),
        (139, TRACEBACK, "the job was ended by signal 11"),
        (2, "", "the job ended with exit status 2"),
        (125, "done\n", "the job ended with exit status 0, without its result"),
    ],
)  # fmt: skip
def test_the_reason_is_what_the_log_ends_with_or_the_signal(status, log, reason):
    assert failed.reason(status, log) == reason


def test_an_analysis_leaves_an_empty_result(tmp_path):
    assert leave("analyze", "steps", "a/steps.json") == 0
    made = read_analysis(tmp_path / "a/steps.json")
    assert (made.attempt, made.status, made.reason) == (3, "failed", "KeyError: 'step'")


def test_a_conversion_leaves_its_tables_without_rows(tmp_path):
    (tmp_path / "t").mkdir()
    (tmp_path / "t/steps.parquet").write_bytes(b"half a ta")
    assert leave("convert", "baseline", "t/steps.parquet", "t/convert.json", "files/baseline") == 0
    assert pq.read_table(tmp_path / "t/steps.parquet") == schema.TABLES["steps"].empty_table()
    assert read_job(tmp_path / "t/convert.json").status == "failed"
    assert json.loads((tmp_path / "t/convert.json").read_bytes())["notes"] == []
    assert (tmp_path / "files/baseline").is_dir()


def test_a_timeline_leaves_one_that_opens(tmp_path):
    assert leave("timeline", "torch_profiler", "t.trace.json.gz", "t.json") == 0
    assert json.loads(gzip.decompress((tmp_path / "t.trace.json.gz").read_bytes())) == []
    assert read_job(tmp_path / "t.json").status == "failed"


@pytest.mark.parametrize("status", [129, 130, 143])
def test_a_job_that_was_stopped_has_not_failed(tmp_path, status):
    assert leave("analyze", "steps", "steps.json", status=status) == status
    assert not (tmp_path / "steps.json").exists()


def test_a_job_whose_workflow_has_ended_has_not_failed(tmp_path, monkeypatch):
    monkeypatch.setattr(parent_watch, "has_workflow_ended", lambda: True)
    assert leave("analyze", "steps", "steps.json") == 1
    assert not (tmp_path / "steps.json").exists()
