"""A command that somebody waits for at a terminal."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from profkit.capture.harness import foreground
from profkit.capture.harness.foreground import END, ENDED_EARLY, INPUT, OUTPUT, Foreground
from profkit.capture.harness.launch import launch
from profkit.process import process_tree
from tests.waiting import until


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Return a function that runs a line of shell with links, and returns how it ended."""
    monkeypatch.setattr("profkit.process.process_tree.adopt_orphans", lambda: None)

    def start(line, folder="", **variables):
        links = replace(Foreground.of(variables), folder=str(folder))
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
    assert (ended.exit_code, ended.timed_out, ended.interrupted) == (5, False, True)
    assert (tmp_path / "capture.log").read_text() == "saved\n"


def test_without_a_terminal_it_reads_nothing(run):
    assert run("read answer").exit_code == 1


def age(path, by_s):
    then = path.stat().st_mtime - by_s
    os.utime(path, (then, then))


def test_a_command_whose_processes_go_on_is_not_left_waiting(tmp_path):
    steps, early = tmp_path / "rank1.steps.part", tmp_path / ENDED_EARLY
    steps.touch()
    age(steps, 1000)
    left = Foreground(folder=str(tmp_path))
    now = time.time()
    assert not left.is_left_waiting(now)
    early.touch()
    assert not left.is_left_waiting(now)
    age(early, 1000)
    assert left.is_left_waiting(now)
    age(early, -980)  # 20 s ago
    assert left.is_left_waiting(0)
    assert not left.is_left_waiting(now)
    steps.write_text("[1, 2]")
    assert not left.is_left_waiting(0)


def test_what_only_waits_for_a_process_that_was_ended_early_is_interrupted(
    run, tmp_path, monkeypatch
):
    monkeypatch.setattr(foreground, "_QUIET_S", -1.0)
    early = tmp_path / ENDED_EARLY
    ended = run(
        f"trap 'echo left; exit 7' INT; touch {early}; while :; do sleep 0.1; done", early.parent
    )
    assert (ended.exit_code, ended.timed_out, ended.interrupted) == (0, False, False)
    said, left = (tmp_path / "capture.log").read_text().splitlines()
    assert said.startswith("profkit: the rest of the command waits for a process that was ended")
    assert left == "left"


def test_a_process_that_computes_is_at_work_and_one_that_sleeps_is_not():
    for code, expected in (("while True: pass", True), ("import time; time.sleep(99)", False)):
        # Behind a shell, as programs are started in scripts.
        command = ["sh", "-c", f"{sys.executable} -c '{code}'; true"]
        with subprocess.Popen(command, start_new_session=True) as process:
            try:
                until(lambda: process_tree.works(process.pid) == expected)  # noqa: B023
            finally:
                os.killpg(process.pid, signal.SIGKILL)
