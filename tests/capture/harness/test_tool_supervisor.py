"""Tools that end before their program has begun, or before it has ended."""

import signal
import subprocess
import sys

import psutil
import pytest

from profkit.capture.harness.tool_supervisor import supervised_command
from profkit.capture.nsys import Capture as Nsys
from profkit.capture.py_spy import Capture as PySpy
from tests.waiting import LIMIT_S

# Starts the program, which then has nobody, and ends.
LEAVING = "import subprocess, sys; subprocess.Popen(sys.argv[2:]); sys.exit(int(sys.argv[1]))"
# Runs the program, and leaves something that goes on until the test closes its input.
DAEMON = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"])
subprocess.run(sys.argv[1:])
"""
# Ends so often before it starts the program, and leaves something that goes on each time.
STUMBLING = """
import subprocess, sys
with open(sys.argv[1], "a+") as left:
    left.seek(0)
    if len(left.readlines()) < int(sys.argv[2]):
        print(subprocess.Popen(["sleep", "600"]).pid, file=left)
        sys.exit(int(sys.argv[3]))
sys.exit(subprocess.run(sys.argv[4:]).returncode)
"""
PROGRAM = """
import sys, time
from profkit.capture.harness.tool_supervisor import report_program_started
print(report_program_started())
time.sleep(float(sys.argv[1]))
open(sys.argv[2], "x").close()
sys.exit(int(sys.argv[3]))
"""
LASTING = Nsys(duration_s=1)


def python(code: str, *arguments: object) -> list[str]:
    return [sys.executable, "-c", code, *map(str, arguments)]


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, timeout=LIMIT_S)


def is_running(pid: str) -> bool:
    try:
        return psutil.Process(int(pid)).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("status", [0, 3])
def test_the_program_is_waited_for_and_the_status_is_that_of_the_tool(tmp_path, status):
    program = python(PROGRAM, 1, tmp_path / "done", 0)
    done = run(supervised_command(LASTING, python(LEAVING, status, *program), program))
    assert done.returncode == status
    assert (tmp_path / "done").exists()


def test_what_else_the_tool_left_is_not_waited_for(tmp_path):
    program = python(PROGRAM, 0, tmp_path / "done", 0)
    command = supervised_command(LASTING, python(DAEMON, *program), program)
    with subprocess.Popen(command, stdin=subprocess.PIPE) as ended:
        assert ended.wait(LIMIT_S) == 0


@pytest.mark.parametrize("status", [0, 7])
def test_a_tool_that_ends_before_the_program_begins_is_started_again(tmp_path, status):
    program = python(PROGRAM, 0, tmp_path / "done", 0)
    tool = python(STUMBLING, tmp_path / "left", 2, status, *program)
    done = run(supervised_command(Nsys(), tool, program))
    assert done.returncode == 0
    told = f"the tool ended before the program began (exit status {status}, {status};"
    assert done.stdout.startswith(told)
    left = (tmp_path / "left").read_text().split()
    assert [is_running(pid) for pid in left] == [False, False]


def test_a_tool_that_always_fails_is_given_up(tmp_path):
    program = python(PROGRAM, 0, tmp_path / "done", 0)
    done = run(
        supervised_command(Nsys(), python(STUMBLING, tmp_path / "left", 9, 7, *program), program)
    )
    assert done.returncode == 7
    assert len((tmp_path / "left").read_text().split()) == 3


def test_a_program_that_fails_is_not_started_again(tmp_path):
    program = python(PROGRAM, 0, tmp_path / "done", 4)
    done = run(
        supervised_command(Nsys(), python(STUMBLING, tmp_path / "left", 0, 7, *program), program)
    )
    assert (done.returncode, done.stdout) == (4, "\n")


def test_a_tool_that_was_told_to_end_is_not_started_again():
    waiting = python("print('here', flush=True); import time; time.sleep(600)")
    with subprocess.Popen(
        supervised_command(Nsys(), waiting, []), stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"here\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == b""
        assert process.wait(LIMIT_S) == 128 + signal.SIGTERM


def test_other_tools_stand_between_nobody():
    assert supervised_command(PySpy(), ["py-spy", "true"], ["true"]) == ["py-spy", "true"]
