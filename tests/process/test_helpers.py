"""Processes that help one."""

import os
import signal
import subprocess
import sys

import psutil
import pytest

from profkit.process import helpers
from tests.waiting import until


def _loaded():
    return os.getppid(), "a_module_of_the_test" in sys.modules


@pytest.fixture
def loaded(monkeypatch):
    """Load a module that no other process could."""
    monkeypatch.setitem(sys.modules, "a_module_of_the_test", sys)


@pytest.mark.usefixtures("loaded")
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing tells the threads")
def test_helpers_are_forks_that_share_what_is_loaded(monkeypatch):
    # Libraries that other tests loaded may have threads in this process.
    monkeypatch.setattr(helpers, "_may_fork", lambda: True)
    with helpers.started(1, "json") as pool:
        assert pool.submit(_loaded).result() == (os.getpid(), True)


@pytest.mark.usefixtures("loaded")
def test_helpers_beside_threads_of_a_library_begin_anew(monkeypatch):
    monkeypatch.setattr(helpers, "_may_fork", lambda: False)
    with helpers.started(1, "json") as pool:
        parent, is_loaded = pool.submit(_loaded).result()
    assert not is_loaded
    assert parent != os.getpid()


KILLED = """
import os, signal
from profkit.process import helpers

pool = helpers.started(1, "json")
print(pool.submit(os.getpid).result(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no kernel ends them")
def test_helpers_end_with_a_process_that_is_killed():
    command = [sys.executable, "-c", KILLED]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as killed:
        helper = int(killed.stdout.readline())
    assert killed.returncode == -signal.SIGKILL
    until(lambda: _has_ended(helper))


def _has_ended(process):
    # What adopted it may never ask how it ended.
    try:
        return psutil.Process(process).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.parametrize(
    ("threads", "may"),
    [
        (["python"], True),
        (["python", "jemalloc_bg_thd"], True),
        (["python", "python"], False),
        (["python", "jemalloc_bg_thd", "openblas"], False),
    ],
)
def test_only_threads_that_forks_take_care_of_let_it_fork(threads, may, tmp_path, monkeypatch):
    for number, name in enumerate(threads):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "comm").write_text(f"{name}\n")
    monkeypatch.setattr(helpers, "_TASKS", tmp_path)
    monkeypatch.setattr(helpers.threading, "active_count", lambda: 1)
    monkeypatch.setattr(helpers.sys, "platform", "linux")
    assert helpers._may_fork() == may


def test_what_is_asked_is_as_it_was_then():
    """A pool pickles it on a thread of its own, which fails if it grows meanwhile."""
    numbers = dict.fromkeys(range(100_000))
    with helpers.started(1, "json") as pool:
        found = [helpers.asked(pool, len, numbers)]
        numbers.clear()
        found += [helpers.asked(pool, len, numbers)]
        assert [one.result() for one in found] == [100_000, 0]
