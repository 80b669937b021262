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
parent_watch.end_with_workflow()
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def workflow():
    """Return a process that could have started a job."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.wait()


def test_a_job_ends_with_all_that_it_started_when_its_workflow_was_killed(workflow):
    environment = os.environ | {parent_watch.VARIABLE: str(workflow.pid)}
    job = subprocess.Popen([sys.executable, "-c", _JOB], env=environment, stdout=subprocess.PIPE)
    child = psutil.Process(int(job.stdout.readline()))
    workflow.kill()  # and it stays a zombie, as in a container without an init
    assert job.wait(60) == 1
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_a_job_without_a_workflow_or_with_one_that_runs_goes_on(workflow):
    assert not parent_watch.has_workflow_ended({})
    assert not parent_watch.has_workflow_ended({parent_watch.VARIABLE: str(workflow.pid)})
    workflow.kill()
    workflow.wait()
    assert parent_watch.has_workflow_ended({parent_watch.VARIABLE: str(workflow.pid)})
