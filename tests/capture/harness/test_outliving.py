"""Tools that end before the program that they started."""

import subprocess
import sys

import pytest

from profkit.capture.harness.outliving import waiting

# Starts the program, which then has nobody, and ends.
TOOL = "import subprocess, sys; subprocess.Popen(sys.argv[2:]); sys.exit(int(sys.argv[1]))"
# Leaves something that goes on until the test closes its input.
DAEMON = (
    "import subprocess, sys;"
    "subprocess.Popen([sys.executable, '-c', 'import sys; sys.stdin.read()'])"
)
PROGRAM = "import sys, time; time.sleep(1); open(sys.argv[1], 'x').close()"


@pytest.mark.parametrize("status", [0, 3])
def test_the_program_is_waited_for_and_the_status_is_that_of_the_tool(tmp_path, status):
    program = [sys.executable, "-c", PROGRAM, str(tmp_path / "done")]
    tool = [sys.executable, "-c", TOOL, str(status), *program]
    done = subprocess.run(waiting(tool, program), check=False)
    assert done.returncode == status
    assert (tmp_path / "done").exists()


def test_what_else_the_tool_left_is_not_waited_for():
    program = [sys.executable, "-c", PROGRAM, "never started"]
    tool = [sys.executable, "-c", DAEMON, *program]
    with subprocess.Popen(waiting(tool, program), stdin=subprocess.PIPE) as ended:
        assert ended.wait(60) == 0
