"""A server of jobs for tests, and what its jobs do."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from profkit.process import job_server


def describe(path):
    """Write where this job runs, and with what."""
    found = {"cwd": str(Path.cwd()), "argv": sys.argv[1:], "environment": dict(os.environ)}
    Path(path).write_text(json.dumps(found | {"parent": os.getppid()}))
    sys.stdout.write("to the output\n")
    sys.stderr.write("to the errors\n")


def linger(path):
    """Write the process ids of this job and of a process that it starts, and stay."""
    child = subprocess.Popen(["sleep", "600"])
    Path(path).write_text(f"{os.getpid()} {child.pid}")
    time.sleep(600)


def crash(path):
    """End as from a segmentation fault."""
    Path(path).write_text(str(os.getppid()))
    os.kill(os.getpid(), signal.SIGSEGV)


def refuse(path):
    """End as after a user's mistake."""
    sys.exit(3 if path else 0)


if __name__ == "__main__":
    job_server.serve(int(sys.argv[1]))
    _, job, path = sys.argv[1:]
    globals()[job](path)
