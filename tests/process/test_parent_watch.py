"""Jobs do not outlive the process that asked for them."""

import os
import subprocess
import sys

import psutil
import pytest

from profkit.process import parent_watch
from tests.waiting import LIMIT_S

_JOB = """
import subprocess, sys, time
from profkit.process import parent_watch
parent_watch.end_with_workflow()
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
time.sleep(600)
"""


_WORKFLOW = "from profkit.process import parent_watch; print(parent_watch.identity()); input()"


@pytest.fixture
def workflow():
    """Return a process that could have started a job."""
    process = subprocess.Popen(
        [sys.executable, "-uc", _WORKFLOW], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    yield process
    process.kill()
    process.wait()


def identity_of(workflow):
    return {parent_watch.VARIABLE: workflow.stdout.readline().strip()}


def test_a_job_ends_with_all_that_it_started_when_its_workflow_was_killed(workflow):
    environment = os.environ | identity_of(workflow)
    job = subprocess.Popen([sys.executable, "-c", _JOB], env=environment, stdout=subprocess.PIPE)
    child = psutil.Process(int(job.stdout.readline()))
    workflow.kill()  # and it stays a zombie, as in a container without an init
    assert job.wait(LIMIT_S) == 1
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_a_job_without_a_workflow_or_with_one_that_runs_goes_on(workflow):
    environment = identity_of(workflow)
    assert not parent_watch.has_workflow_ended({})
    assert not parent_watch.has_workflow_ended(environment)
    workflow.kill()
    workflow.wait()
    assert parent_watch.has_workflow_ended(environment)


def test_a_process_number_of_elsewhere_is_not_looked_up_here():
    numbering, _, began = parent_watch.identity().split("/")
    nobody = 1 << 22  # above what Linux gives
    for host in ("other-boot-pid:[4026531836]", f"{numbering}1", "otherhost"):
        elsewhere = {parent_watch.VARIABLE: f"{host}/{nobody}/{began}"}
        assert not parent_watch.has_workflow_ended(elsewhere)
    assert parent_watch.has_workflow_ended({parent_watch.VARIABLE: f"{numbering}/{nobody}/{began}"})


def test_another_process_that_got_the_number_of_the_workflow_is_not_the_workflow():
    numbering, pid, began = parent_watch.identity().split("/")
    earlier = {parent_watch.VARIABLE: f"{numbering}/{pid}/{int(began) - 1}"}
    assert parent_watch.has_workflow_ended(earlier)
