"""A fork that works as a program of its own: streams, session, signals, end."""

import atexit
import os
import signal
import sys
import threading
import time

import pytest

from profkit.process import forked
from tests.waiting import LIMIT_S


def finish(work, variables=()):
    """Return what `work` prints in a fork, and how that ends."""
    process = forked.start(work, dict(variables))
    printed = process.output.read()
    return printed, process.wait(LIMIT_S)


def test_it_has_streams_a_session_and_variables_of_its_own(capfd):
    def work():
        sys.stdout.write(f"{sys.stdin.read()!r} {os.environ['PROFKIT_TEST']}\n")
        sys.stderr.write(f"{os.getsid(0) == os.getpid()}\n")
        os.write(1, b"from below\n")

    printed, status = finish(work, {"PROFKIT_TEST": "added"})
    assert sorted(printed.splitlines()) == ["'' added", "True", "from below"]
    assert status == 0
    assert "PROFKIT_TEST" not in os.environ
    assert capfd.readouterr() == ("", "")


def refuse():
    sys.exit(3)


def die():
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(("work", "status"), [(refuse, 3), (die, -signal.SIGKILL)])
def test_its_status_is_how_it_ended(work, status):
    assert finish(work) == ("", status)


def test_an_error_is_printed_and_is_its_status():
    printed, status = finish(lambda: {}["missing"])
    assert (printed.splitlines()[-1], status) == ("KeyError: 'missing'", 1)


def test_at_its_end_it_does_what_a_process_does_then_and_nothing_of_this_one():
    done = []
    atexit.register(done.append, "of this process")

    def work():
        threading.Timer(0.05, sys.stdout.write, ["thread\n"]).start()
        atexit.register(lambda: sys.stdout.write(f"at exit {done}\n"))

    try:
        assert finish(work) == ("thread\nat exit []\n", 0)
    finally:
        atexit.unregister(done.append)


def test_it_can_be_waited_for_in_pieces_and_be_interrupted():
    process = forked.start(lambda: time.sleep(600), {})
    assert process.wait(0) is None
    os.killpg(process.pid, signal.SIGINT)
    assert "KeyboardInterrupt" in process.output.read()
    assert process.wait(LIMIT_S) == 1
