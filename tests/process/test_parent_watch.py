"""Jobs do not outlive the process that asked for them."""

import os
import subprocess
import sys

import psutil
import pytest

from profkit.process import parent_watch

_JOB = """
import subprocess, sys, time
from profkit.process import parent_watch
parent_watch.end_with_it()
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def asking():
    """Return a process that could have asked for a job."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.wait()


def test_a_job_ends_with_all_that_it_started_when_its_owner_was_killed(asking):
    told = os.environ | {parent_watch.VARIABLE: str(asking.pid)}
    job = subprocess.Popen([sys.executable, "-c", _JOB], env=told, stdout=subprocess.PIPE)
    child = psutil.Process(int(job.stdout.readline()))
    asking.kill()  # and nobody has waited for it yet, as in a container without an init
    assert job.wait(60) == 1
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_a_job_without_an_owner_or_with_one_that_lives_goes_on(asking):
    assert not parent_watch.is_gone({})
    assert not parent_watch.is_gone({parent_watch.VARIABLE: str(asking.pid)})
    asking.kill()
    asking.wait()
    assert parent_watch.is_gone({parent_watch.VARIABLE: str(asking.pid)})
