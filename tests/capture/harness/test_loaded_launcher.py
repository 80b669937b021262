"""torchrun in a fork of a process that has loaded it starts ranks as torchrun itself does."""

import json
import os
import resource
import signal
import sys
import time

import psutil
import pytest

from profkit.capture.harness import loaded_launcher
from profkit.capture.harness.launch import launch
from profkit.process import caller_environment
from tests.capture.harness import process_state
from tests.capture.harness.conftest import SETTINGS
from tests.waiting import until

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
TOKEN = "the-token-of-this-capture"  # noqa: S105 - a mark, no secret
BURNT_S, LEAST_LOADING_S = 0.3, 0.3
STATE = f"""
{process_state.CODE}
import subprocess, time
rank, how = os.environ["RANK"], sys.argv[1]
state |= dict(
    argv=sys.argv[1:],
    ignored=[n for n in signal.valid_signals() if signal.getsignal(n) == signal.SIG_IGN],
)
write()
if how == "daemon" and rank == "0":
    command = ["setsid", "sleep", "86397"]
    pathlib.Path("daemon").write_text(str(subprocess.Popen(command, env=dict()).pid))
    time.sleep(600)
elif how == "fail" and rank == "1":
    raise SystemExit(3)
while time.process_time() < {BURNT_S}:
    pass
print("done", rank)
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Return a function that launches two ranks and returns the end, the states and the output."""
    monkeypatch.setattr("profkit.process.process_tree.adopt_orphans", lambda: None)
    program, folder = tmp_path / "ranks.py", tmp_path / "cwd"
    program.write_text(STATE)
    folder.mkdir()

    def start(how, stop_reason=str):
        own = {"OMP_NUM_THREADS": "3", "PROFKIT_TEST": TOKEN, "PYTHONPATH": "some folder"}
        environment = caller_environment.restored() | own
        log, words = tmp_path / "capture.log", [*TORCHRUN, str(program), how, "a 'b' c"]
        ended = launch(words, environment, log, 300, TOKEN, str(folder), stop_reason)
        states = [json.loads(path.read_text()) for path in sorted(folder.glob("state*.json"))]
        return ended, states, log.read_text()

    return start


def of_children():
    """Return the CPU time of children of this process that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.slow
def test_ranks_are_as_those_of_a_launcher_that_was_not_loaded(run, request, monkeypatch):
    ended, bare, _ = run("end")
    assert (ended.exit_code, len(bare)) == (0, 2)
    request.getfixturevalue("server")
    start, started = loaded_launcher.start, []

    def noted(*words):
        started.append(start(*words))
        return started[-1]

    monkeypatch.setattr(loaded_launcher, "start", noted)
    own_s = of_children()
    ended, states, printed = run("end")
    assert all(started)
    # That of its ranks as well, which are no children of this process, and of loading PyTorch.
    assert ended.cpu_s > BURNT_S * len(states) + LEAST_LOADING_S
    assert of_children() == own_s
    assert (ended.exit_code, ended.survivors) == (0, ())
    assert "done 0" in printed
    assert list(map(process_state.of_user, states)) == list(map(process_state.of_user, bare))


@pytest.mark.slow
@pytest.mark.usefixtures("server")
def test_it_ends_as_the_launcher_does(run):
    ended, _, printed = run("fail")
    assert ended.exit_code == 1
    assert "exitcode  : 3" in printed


@pytest.mark.slow
@pytest.mark.usefixtures("server")
def test_stopped_it_takes_all_that_it_started_with_it(run, tmp_path):
    started = tmp_path / "cwd/daemon"
    ended, _, _ = run("daemon", lambda: "enough" if started.is_file() else "")
    assert (ended.stopped, ended.exit_code) == ("enough", -signal.SIGKILL)
    until(lambda: not psutil.pid_exists(int(started.read_text())))
    until(lambda: not of_token())


@pytest.mark.slow
def test_without_its_server_a_launcher_starts_as_any_program(run, server):
    server.kill()
    server.wait()
    ended, states, _ = run("end")
    assert (ended.exit_code, len(states)) == (0, 2)


@pytest.mark.slow
def test_a_server_that_is_killed_meanwhile_leaves_nothing(run, server, tmp_path):
    started = tmp_path / "cwd/daemon"

    def stop_reason():
        if started.is_file() and server.is_running():
            server.kill()
            server.wait()
            time.sleep(0.1)
            return "enough"
        return ""

    ended, _, _ = run("daemon", stop_reason)
    assert ended.exit_code == -signal.SIGKILL
    until(lambda: not psutil.pid_exists(int(started.read_text())))
    until(lambda: not of_token())


def of_token():
    """Return the processes that were started with the token in their environment."""
    return [
        process
        for process in psutil.process_iter(["environ"])
        if (process.info["environ"] or {}).get("PROFKIT_TEST") == TOKEN
    ]


@pytest.mark.parametrize(
    "settings",
    [
        SETTINGS | {"name": "python"},
        SETTINGS | {"python": "/usr/bin/python3"},
        SETTINGS | {"container": {"engine": "docker"}},
        SETTINGS | {"hosts": ["one", "two"]},
        SETTINGS | {"nnodes": 2, "across": ["srun"]},
    ],
)
def test_what_cannot_be_loaded_needs_no_server(settings, monkeypatch):
    monkeypatch.delenv(caller_environment.LOADED_LAUNCHER, raising=False)
    loaded_launcher.serve([{"launcher": settings}])
    assert caller_environment.LOADED_LAUNCHER not in os.environ
