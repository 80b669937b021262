"""Programs of others are asked within bounds, and nothing of them is left."""

import sys

import psutil
import pytest

from profkit.process import bounded_command
from profkit.process.bounded_command import ask
from tests.waiting import LIMIT_S, until

SLEEPS = "import time; time.sleep(600)"
STARTS = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {SLEEPS!r}])
print(child.pid, flush=True)
"""


def python(code, **bounds):
    return ask([sys.executable, "-Sc", code], **{"timeout_s": LIMIT_S, **bounds})


def is_running(pid):
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_what_it_prints_and_its_status_are_the_answer():
    answer = python("import sys; print(7); sys.stderr.write('no\\x00 GPU\\n'); sys.exit(3)")
    assert (answer.text, answer.exit_code, answer.failure) == ("7\n", 3, "")
    assert (answer.said, answer.reason) == ("no? GPU", "no? GPU")
    assert not python("print(7)").reason
    assert python("raise SystemExit(4)").reason == "exit status 4"


@pytest.mark.parametrize("rest", ["", SLEEPS])
def test_what_it_started_ends_with_it_and_is_not_waited_for(rest):
    answer = python(STARTS + rest, timeout_s=2 if rest else LIMIT_S)
    assert answer.failure == ("it does not end within 2 s" if rest else "")
    # Killed, and not a child of this process.
    until(lambda: not is_running(int(answer.text)))


DAEMON = f"""
import os, time
if not os.fork():
    os.setsid()
    if not os.fork():
        print(os.getpid(), flush=True)
        {SLEEPS}
    os._exit(0)
time.sleep(600)
"""


def test_a_daemon_of_one_that_hangs_ends_with_it():
    answer = python(DAEMON, timeout_s=2)
    assert answer.failure == "it does not end within 2 s"
    until(lambda: not is_running(int(answer.text)))


def test_a_daemon_that_it_leaves_is_spared_if_it_has_to():
    answer = python(STARTS, spares_children=True)
    assert answer.reason == ""
    daemon = psutil.Process(int(answer.text))
    assert is_running(daemon.pid)
    daemon.kill()


def test_a_program_that_prints_without_end_is_ended(monkeypatch):
    monkeypatch.setattr(bounded_command, "_BLOCK", 1 << 10)
    answer = python("while True: print('x' * 1000)", most_bytes=4 << 10)
    assert answer.failure == "it prints more than 4 KiB"
    assert len(answer.output) <= 5 << 10


@pytest.mark.parametrize(
    ("content", "reason"), [("\x7fELF?", "Exec format error"), (None, "No such file or directory")]
)
def test_what_cannot_be_started_says_why(tmp_path, content, reason):
    path = tmp_path / "nsys"
    if content:
        path.write_text(content)
        path.chmod(0o755)
    assert ask([str(path)], timeout_s=9).reason == f"it cannot be started: {reason}"
