"""A server of jobs for tests, and what its jobs do."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

from profkit.process import job_server


def describe(path):
    """Write where this job runs, and with what."""
    found = {"cwd": str(Path.cwd()), "argv": sys.argv[1:], "environment": dict(os.environ)}
    found |= {"parent": os.getppid(), "process": os.getpid()}
    Path(path).write_text(json.dumps(found))
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


def grow(path):
    """Keep as much memory as a process that does one more job may not have."""
    kept.append(path[:1].encode() * (100 << 20))


def leave_thread(path):
    """Start a thread that ends later."""
    threading.Thread(target=time.sleep, args=(0.5,), name=path).start()


def leave_process(path):
    """Start a process that goes on."""
    subprocess.Popen(
        ["timeout", "1", "tail", "-f", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def wait_for_process(path):
    """Start a process and wait for its end."""
    subprocess.run(["test", path], check=True)


def warn(path):
    """Warn of something."""
    warnings.warn(f"of this job, {path}", stacklevel=2)


kept: list[bytes] = []


def run() -> int:
    """Do the job that the arguments name, and write which process does."""
    _, job, path = sys.argv[1:]
    Path(f"{path}.pid").write_text(str(os.getpid()))
    globals()[job](path)
    return 0


if __name__ == "__main__":
    job_server.serve(int(sys.argv[1]), (), run)
    run()
