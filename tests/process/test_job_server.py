"""Jobs in forks of a server are as jobs of their own: streams, status, signals, ends."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from profkit.process import job_client, job_server
from tests.waiting import LIMIT_S, until

ROOT = Path(__file__).parents[2]
COMMAND = (
    "import sys; from profkit.process.job_client import handed_over;"
    "_, kind, path, *argv = sys.argv; status = handed_over(path, argv, kind=kind.encode());"
    "print('status', status)"
)
OUTPUT = "to the output\nstatus 0\n"


@pytest.fixture(scope="module")
def server():
    """Start a server as a workflow does; return its process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        before = set(psutil.Process().children())
        job_server.start("tests.process.job_program")
        (process,) = set(psutil.Process().children()) - before
        yield process
        job_server.stop()
        assert not process.is_running()


def begin(*argv, address=None, kind=job_client.ALONE, **options):
    """Start a command that hands its job over, to the server of this process if none is named."""
    address = address or job_server.address()
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, kind.decode(), address, *map(str, argv)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def test_a_job_has_the_streams_folder_and_environment_of_its_command(server, tmp_path):
    made = tmp_path / "made"
    environment = os.environ | {"PROFKIT_TEST": "with 'quotes' and \n a line"}
    output, errors = begin("analyze", "describe", made, cwd=tmp_path, env=environment).communicate()
    found = json.loads(made.read_text())
    assert (output, errors) == (OUTPUT, "to the errors\n")
    assert found["parent"] == server.pid
    assert found["cwd"] == str(tmp_path)
    assert found["argv"] == ["analyze", "describe", str(made)]
    assert found["environment"] == environment


@pytest.mark.parametrize(("job", "status"), [("refuse", 3), ("crash", -signal.SIGSEGV)])
@pytest.mark.usefixtures("server")
def test_the_status_is_that_of_the_job_and_the_others_go_on(job, status, tmp_path):
    other = begin("analyze", "linger", tmp_path / "other")
    until((tmp_path / "other").is_file)
    output, _ = begin("convert", job, tmp_path / "made").communicate()
    assert output == f"status {status}\n"
    assert other.poll() is None
    other.kill()
    other.communicate()


@pytest.mark.usefixtures("server")
def test_a_job_ends_with_its_command_and_so_does_what_it_started(tmp_path):
    made = tmp_path / "made"
    command = begin("report", "linger", made)
    until(lambda: made.is_file() and len(made.read_text().split()) == 2)
    processes = [psutil.Process(int(pid)) for pid in made.read_text().split()]
    command.kill()
    command.communicate()
    until(lambda: all(map(has_ended, processes)))


def shared(*argv, **options):
    """Do a job that may share a process; return the status and what it wrote of itself."""
    command = begin("analyze", *argv, kind=job_client.SHARED, **options)
    output, _ = command.communicate()
    made = Path(argv[-1])
    return int(output.split()[-1]), json.loads(made.read_text() if made.is_file() else "{}")


@pytest.mark.usefixtures("server")
def test_jobs_that_may_share_a_process_find_it_as_their_own(tmp_path):
    first = shared("describe", tmp_path / "1", cwd=tmp_path, env=os.environ | {"A": "a"})
    second = shared("describe", tmp_path / "2", cwd=ROOT, env=os.environ | {"B": "b"})
    assert (first[0], second[0]) == (0, 0)
    (_, first), (_, second) = first, second
    assert second["process"] == first["process"]
    assert (first["cwd"], second["cwd"]) == (str(tmp_path), str(ROOT))
    assert second["argv"] == ["analyze", "describe", str(tmp_path / "2")]
    assert second["environment"] == os.environ | {"B": "b"}
    assert begin("analyze", "describe", tmp_path / "3").communicate()[0] == OUTPUT
    assert json.loads((tmp_path / "3").read_text())["process"] != first["process"]


LEAVING = ("refuse", "crash", "grow", "leave_thread", "leave_process", "wait_for_process")


@pytest.mark.parametrize("left", LEAVING)
@pytest.mark.usefixtures("server")
def test_a_process_that_a_job_leaves_other_than_it_was_does_no_more(left, tmp_path):
    _, first = shared("describe", tmp_path / "1")
    status, _ = shared(left, tmp_path / "2")
    assert status == {"refuse": 3, "crash": -signal.SIGSEGV}.get(left, 0)
    assert (tmp_path / "2.pid").read_text() == str(first["process"])
    _, third = shared("describe", tmp_path / "3")
    assert third["process"] != first["process"]


@pytest.mark.usefixtures("server")
def test_each_of_several_jobs_says_what_python_warns_of_once(tmp_path):
    for _ in range(2):
        command = begin("analyze", "warn", tmp_path / "1", kind=job_client.SHARED)
        assert command.communicate()[1].count("UserWarning: of this job") == 1


@pytest.mark.usefixtures("server")
def test_the_second_job_of_a_process_ends_with_its_command(tmp_path):
    _, first = shared("describe", tmp_path / "1")
    command = begin("analyze", "linger", tmp_path / "2", kind=job_client.SHARED)
    until(lambda: (tmp_path / "2").is_file() and len((tmp_path / "2").read_text().split()) == 2)
    processes = [psutil.Process(int(pid)) for pid in (tmp_path / "2").read_text().split()]
    assert processes[0].pid == first["process"]
    command.kill()
    command.communicate()
    until(lambda: all(map(has_ended, processes)))


def test_without_a_server_nothing_is_handed_over():
    assert job_client.handed_over("/nowhere/socket", ["analyze"]) is None


WORKFLOW = """
import time
from profkit.process import job_server
job_server.start("tests.process.job_program")
print(job_server.address(), flush=True)
time.sleep(600)
"""


@pytest.fixture
def workflow():
    """Start a process with a server of its own; return it, the address and the server."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", WORKFLOW]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    address = process.stdout.readline().strip()
    yield process, address, *psutil.Process(process.pid).children()
    process.kill()
    process.communicate()


def has_ended(process):
    """Say whether `process` has ended; its new parent may not have asked how."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_the_server_and_its_folder_go_when_the_workflow_is_killed(workflow):
    process, address, server = workflow
    folder = Path(address).parent
    assert folder.stat().st_mode & 0o77 == 0
    process.kill()
    process.wait()
    until(lambda: has_ended(server) and not folder.exists())


def test_a_job_whose_server_was_killed_was_not_done(workflow):
    _, address, server = workflow
    server.kill()
    output, _ = begin("analyze", "refuse", "x", address=address).communicate()
    assert output == "status None\n"


def test_a_fork_of_this_process_runs_jobs_and_ends_with_it(tmp_path):
    code = """
import os, signal, sys, threading, time
from pathlib import Path
from profkit.process import job_client, job_server
from tests.waiting import LIMIT_S, until

loaded = ["by the workflow"]

def load():
    loaded.append("by the server")

def later():
    loaded.append("while the first works")
    Path("later").touch()

def job():
    print(loaded, sys.argv[1:], flush=True)
    Path("in folder of job").touch()
    until(Path("later").exists)
    if sys.argv[1] != "wait":
        raise SystemExit(3)
    Path("waits").touch()
    time.sleep(LIMIT_S)

Path("before").touch()
job_server.fork(load, job, [lambda: loaded.append("once one works"), later])
path = job_server.address()
status = job_client.handed_over(path, ["analyze", "x"])
waiting = threading.Thread(target=lambda: print(job_client.handed_over(path, ["wait"])))
waiting.start()
until(Path("waits").exists)
job_server.signal_jobs(signal.SIGINT)
waiting.join()
job_server.stop()
print(status, job_server.address())
"""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=LIMIT_S,
    )
    assert done.stdout.splitlines() == [
        "['by the workflow', 'by the server'] ['analyze', 'x']",
        "['by the workflow', 'by the server', 'once one works', 'while the first works'] ['wait']",
        "1",
        "3 None",
    ]
    assert done.stderr.splitlines()[-1] == "KeyboardInterrupt"
    made = {path.name for path in tmp_path.iterdir()}
    assert made == {"before", "in folder of job", "later", "waits"}
