"""A command that somebody waits for at a terminal."""

import os

import pytest

from profkit.capture.harness.foreground import END, INPUT, OUTPUT, Foreground
from profkit.capture.harness.launch import launch


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Return a function that runs a line of shell with links, and returns how it ended."""
    monkeypatch.setattr("profkit.process.process_tree.adopt_orphans", lambda: None)

    def start(line, **variables):
        links = Foreground.of(variables)
        words = ["sh", "-c", line]
        log = tmp_path / "capture.log"
        return launch(words, dict(os.environ), log, 60, "no such token", foreground=links)

    return start


def test_it_reads_what_is_typed_and_shows_what_it_prints(run, tmp_path):
    typed, shown = tmp_path / "typed", tmp_path / "shown"
    typed.write_text("yes\n")
    shown.touch()
    ended = run("read answer; echo got $answer", **{INPUT: str(typed), OUTPUT: str(shown)})
    assert ended.exit_code == 0
    assert shown.read_text() == "got yes\n"
    assert (tmp_path / "capture.log").read_text() == "got yes\n"


def test_it_is_interrupted_as_by_a_key_and_may_finish(run, tmp_path):
    end = tmp_path / "end"
    line = f"trap 'echo saved; exit 5' INT; touch {end}; while :; do sleep 0.1; done"
    ended = run(line, **{END: str(end)})
    assert (ended.exit_code, ended.timed_out) == (5, False)
    assert (tmp_path / "capture.log").read_text() == "saved\n"


def test_without_a_terminal_it_reads_nothing(run):
    assert run("read answer").exit_code == 1
