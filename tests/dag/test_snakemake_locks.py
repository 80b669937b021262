"""Whether somebody works in a folder, asked by processes that live and die."""

import subprocess
import sys
from pathlib import Path

import pytest

ENTER = "import sys; from profkit.dag.snakemake_locks import register; register(); "
WORK = f"{ENTER}print('entered', flush=True); "


@pytest.fixture
def lock(tmp_path, monkeypatch):
    """Return the lock that a Snakemake has left in the current folder."""
    monkeypatch.chdir(tmp_path)
    lock = tmp_path / ".snakemake/locks/0.input.lock"
    lock.parent.mkdir(parents=True)
    lock.write_text("results/report.html\n")
    return lock


def entered(then):
    """Start a process that has entered and waits for its end, or does what `then` says."""
    command = [sys.executable, "-c", WORK + then]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "entered\n"
    return process


def held():
    return list(Path("results/.profkit/running").glob("*.lock"))


def test_the_lock_of_one_that_was_killed_is_taken_away(lock):
    killed = entered("sys.stdin.read()")
    killed.kill()
    killed.communicate()
    assert lock.is_file()
    assert len(held()) == 1
    entered("").communicate()
    assert not lock.exists()
    assert held() == []


def test_a_lock_of_one_that_lives_stays_although_another_was_killed(lock):
    killed, alive = entered("sys.stdin.read()"), entered("sys.stdin.read()")
    killed.kill()
    killed.communicate()
    entered("").communicate()
    assert lock.is_file()
    alive.communicate()
    assert lock.is_file()
    entered("").communicate()
    assert not lock.exists()


def test_a_lock_of_somebody_else_is_left_alone(lock):
    entered("").communicate()
    assert lock.is_file()


def test_one_that_enters_twice_is_still_there_once(lock):
    killed = entered("sys.stdin.read()")
    killed.kill()
    killed.communicate()
    twice = entered("register(); print('again', flush=True); sys.stdin.read()")
    assert twice.stdout.readline() == "again\n"
    assert not lock.exists()
    assert len(held()) == 1
    twice.communicate()
    assert held() == []
