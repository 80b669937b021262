"""Whether somebody works in a folder, asked by processes that live and die."""

import subprocess
import sys

import pytest

from profkit.dag.snakemake_locks import LOCK

ENTER = "import sys; from profkit.dag.snakemake_locks import register; register(); "
WORK = f"{ENTER}print('entered', flush=True); "
WAIT = "sys.stdin.read()"


@pytest.fixture
def lock(tmp_path, monkeypatch):
    """Return the lock that a Snakemake has left in the current folder."""
    monkeypatch.chdir(tmp_path)
    lock = tmp_path / "results/.snakemake/locks/0.input.lock"
    lock.parent.mkdir(parents=True)
    lock.write_text("results/report.html\n")
    return lock


def started(then):
    command = [sys.executable, "-c", WORK + then]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def entered(then):
    """Start a process that has entered and waits for its end, or does what `then` says."""
    process = started(then)
    assert process.stdout.readline() == "entered\n"
    return process


def killed():
    process = entered(WAIT)
    process.kill()
    process.communicate()


def test_the_lock_of_one_that_was_killed_is_taken_away(lock):
    killed()
    assert lock.is_file()
    entered("").communicate()
    assert not lock.exists()
    assert LOCK.read_text() == ""


def test_while_one_works_another_is_refused_and_takes_nothing_away(lock):
    working = entered(WAIT)
    second = started(WAIT)
    _, said = second.communicate()
    assert second.returncode == 1
    assert f"another run works in this folder: process {working.pid} on " in said
    assert lock.is_file()
    working.communicate()
    entered("").communicate()
    assert lock.is_file(), "after a proper end, a lock is somebody else's"


@pytest.mark.usefixtures("lock")
def test_of_many_that_start_in_the_same_instant_one_works():
    many = [started(WAIT) for _ in range(8)]
    # Who is refused ends; who works waits for its standard input.
    refused = [process for process in many if process.stdout.readline() == ""]
    assert len(refused) == len(many) - 1
    for process in many:
        process.communicate()


def test_one_that_enters_twice_is_still_there_once(lock):
    killed()
    twice = entered(f"register(); print('again', flush=True); {WAIT}")
    assert twice.stdout.readline() == "again\n"
    assert not lock.exists()
    twice.communicate()
    assert LOCK.read_text() == ""
