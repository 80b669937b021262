"""The log of a capture keeps its two ends, however much is printed."""

import os

import pytest

from profkit.capture.harness.record import bounded_log
from profkit.capture.harness.record.bounded_log import BoundedLog


@pytest.fixture
def small(monkeypatch):
    """Keep 100 bytes of the beginning and 200 of the end."""
    monkeypatch.setattr(bounded_log, "HEAD_BYTES", 100)
    monkeypatch.setattr(bounded_log, "TAIL_BYTES", 200)


def prints(log, first, last):
    """Print lines of 10 bytes, as a process with the descriptor does."""
    for number in range(first, last):
        os.write(log.descriptor, f"line {number:04}\n".encode())


@pytest.mark.usefixtures("small")
def test_both_ends_are_kept_in_whole_lines_and_what_is_between_is_counted(tmp_path):
    with BoundedLog(tmp_path / "capture.log") as log:
        for last in range(50, 1001, 50):
            prints(log, last - 50, last)
            log.shorten(slack_bytes=300)
    lines = (tmp_path / "capture.log").read_text().splitlines()
    assert lines[:10] == [f"line {number:04}" for number in range(10)]
    assert lines[10:12] == ["", "[profkit left out 9,710 bytes of output here]"]
    assert lines[12:] == [f"line {number:04}" for number in range(981, 1000)]


@pytest.mark.usefixtures("small")
def test_a_short_log_stays_as_it_is_and_one_line_without_end_is_cut(tmp_path):
    with BoundedLog(tmp_path / "short.log") as log:
        prints(log, 0, 30)
    assert (tmp_path / "short.log").stat().st_size == 300
    with BoundedLog(tmp_path / "line.log") as log:
        os.write(log.descriptor, b"x" * 900)
    text = (tmp_path / "line.log").read_text()
    assert text == "x" * 100 + "\n[profkit left out 600 bytes of output here]\n" + "x" * 200


@pytest.mark.usefixtures("small")
def test_the_end_of_one_long_last_line_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(bounded_log, "_NEAR_BYTES", 20)
    with BoundedLog(tmp_path / "capture.log") as log:
        os.write(log.descriptor, b"Traceback\n" + b"x" * 900 + b" the last words\n")
    text = (tmp_path / "capture.log").read_text()
    assert text.startswith("Traceback\nxxx")
    assert text.endswith("x the last words\n")
    assert len(text) < 400


@pytest.mark.usefixtures("small")
def test_all_of_it_is_copied_as_it_comes_also_what_is_not_kept(tmp_path):
    shown = tmp_path / "terminal"
    shown.touch()
    with BoundedLog(tmp_path / "capture.log", str(shown)) as log:
        for last in range(50, 1001, 50):
            prints(log, last - 50, last)
            log.shorten(slack_bytes=300)
    assert shown.read_text().splitlines() == [f"line {number:04}" for number in range(1000)]
    assert (tmp_path / "capture.log").stat().st_size < 400


def test_a_terminal_that_is_gone_does_no_harm(tmp_path):
    with BoundedLog(tmp_path / "capture.log", str(tmp_path / "gone" / "terminal")) as log:
        prints(log, 0, 3)
    assert (tmp_path / "capture.log").read_text().splitlines()[-1] == "line 0002"
