"""A rank that is a fork of its launcher is as a program of its own."""

import json
import os
import subprocess
import sys

import psutil
import pytest
import torch

from profkit.capture.harness import forked_ranks, loaded_launcher
from profkit.capture.harness.forked_ranks import ForkedRank, Loaded
from profkit.capture.harness.rank import PROGRAM
from profkit.capture.harness.spec import VARIABLE
from profkit.process import caller_environment, job_server
from tests.capture.harness import process_state
from tests.capture.harness.conftest import SETTINGS
from tests.waiting import LIMIT_S, until

DRIVER = """
import json, os, sys
from profkit.capture.harness import forked_ranks
from profkit.capture.harness.forked_ranks import Loaded
_, is_forked, module, *words = sys.argv
before = {**os.environ}
if json.loads(is_forked):
    loaded = Loaded.of(["train"], ["torch._dynamo"])
    assert loaded, "ranks cannot be forks"
    os.environ.clear()
    os.environ.update(before)
from torch.distributed import run
if json.loads(is_forked):
    forked_ranks.PROGRAM = ("-m", module)
    forked_ranks.fork_ranks(loaded)
run.main(["--standalone", "--nproc-per-node=2", "-m", module, *words])
"""
RANK = f"""
import atexit, gc, random, threading, time
import numpy
import torch
import torch._dynamo
{process_state.CODE}
rank, how = os.environ["RANK"], os.environ["HOW"]
state |= dict(
    argv=sys.argv,
    name=pathlib.Path("/proc/self/comm").read_text(),
    main=[__name__, __spec__.name, sys.modules["__main__"].__spec__.name],
    signals=[repr(signal.getsignal(n)) for n in sorted(signal.valid_signals())],
    more_descriptors=[n for n in os.listdir("/proc/self/fd") if int(n) > 3],
    streams=[(s.write_through, s.encoding, s.errors) for s in (sys.stdout, sys.stderr)],
    threads=[threading.active_count(), torch.get_num_threads()],
    frozen=gc.get_freeze_count(),
    seeds=[torch.initial_seed(), random.random(), numpy.random.random()],
)
write()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
pathlib.Path(f"peak{{rank}}").write_text(str(peak))
atexit.register(lambda: pathlib.Path(f"ended{{rank}}").touch())
sys.stdout.write(f"rank {{rank}}")
if how == "end":
    sys.exit()
if rank == "0":
    pathlib.Path("pid").write_text(str(os.getpid()))
    time.sleep(600)
while not pathlib.Path("pid").is_file():
    time.sleep(0.02)
if how == "words":
    sys.exit("in words")
if how == "status":
    sys.exit(3)
if how == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
raise ValueError("an error")
"""


@pytest.fixture
def ranks(tmp_path):
    """Return a function that runs two ranks, and returns their folder and what was printed."""
    if any(getattr(torch.version, kind, None) for kind in forked_ranks._DEVICES):
        pytest.skip("PyTorch is built for a device: its ranks are never forks")
    (tmp_path / "driver.py").write_text(DRIVER)
    (tmp_path / "rank_of_test.py").write_text(RANK)

    def run(how, *, is_forked):
        folder = tmp_path / str(is_forked)
        folder.mkdir()
        spec = json.dumps({"workload": {"workload": {"name": "train"}}})
        own = {VARIABLE: spec, "HOW": how, "PYTHONPATH": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, str(tmp_path / "driver.py"), json.dumps(is_forked), "rank_of_test"],
            cwd=folder,
            env=os.environ | own,
            check=False,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        return folder, done

    return run


@pytest.mark.slow
def test_it_is_as_one_that_was_started(ranks):
    states, peaks = [], []
    for is_forked in (True, False):
        folder, done = ranks("end", is_forked=is_forked)
        assert done.returncode == 0, done.stderr
        assert (folder / "ended0").is_file()
        assert (folder / "ended1").is_file()
        assert sorted(done.stdout.replace("rank", " rank").split()) == ["0", "1", "rank", "rank"]
        found = [json.loads((folder / f"state{rank}.json").read_text()) for rank in range(2)]
        assert not {*found[0].pop("seeds")} & {*found[1].pop("seeds")}
        for state in found:
            assert state.pop("cwd") == str(folder)
            assert state["path"].pop(0) == str(folder)
        states.append([*map(process_state.of_user, found)])
        peaks.append(int((folder / "peak0").read_text()))
    assert states[0] == states[1]
    assert peaks[0] == pytest.approx(peaks[1], rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("words", ["in words", "exitcode  : 1"]),
        ("status", ["exitcode  : 3"]),
        ("killed", ["exitcode  : -9", "Signal 9 (SIGKILL)"]),
        ("raise", ["ValueError: an error", "exitcode  : 1"]),
    ],
)
def test_one_that_fails_ends_as_any_and_takes_the_others_with_it(ranks, how, said):
    folder, done = ranks(how, is_forked=True)
    assert done.returncode == 1
    printed = done.stdout + done.stderr
    assert [text for text in said if text not in printed] == []
    until(lambda: not psutil.pid_exists(int((folder / "pid").read_text())))
    # Torchrun ends it by a signal, which no Python of its own gets to see.
    assert not (folder / "ended0").exists()


def loaded(**changed):
    values = {
        "workloads": {"train"},
        "environment": {"LANG": "C", "OMP_NUM_THREADS": "1"},
        "added": {},
        "path": [],
        "pages": [],
        "name": "python",
    }
    return Loaded(**(values | changed))


COMMAND = [sys.executable, "-u", *PROGRAM]
ENVIRONMENT = {
    "LANG": "C",
    "OMP_NUM_THREADS": "1",
    "PATH": "/elsewhere",
    "RANK": "1",
    "LOCAL_RANK": "1",
    "TORCHELASTIC_RUN_ID": "none",
    VARIABLE: json.dumps({"workload": {"workload": {"name": "train"}}}),
}


def test_variables_of_its_launcher_are_read_by_a_fork_too():
    assert loaded().can_be(COMMAND, ENVIRONMENT)


@pytest.mark.parametrize(
    ("command", "changed"),
    [
        ([sys.executable, "-u", "train.py"], {}),
        (["/usr/bin/python3", *COMMAND[1:]], {}),
        ([*COMMAND, "--more"], {}),
        (COMMAND, {"OMP_NUM_THREADS": "2"}),
        (COMMAND, {"TORCH_LOGS": "dynamo"}),
        (COMMAND, {"PYTHONPATH": "/elsewhere"}),
        (COMMAND, {VARIABLE: json.dumps({"workload": {"workload": {"name": "script"}}})}),
    ],
)
def test_what_would_have_loaded_something_else_is_started(command, changed):
    assert not loaded().can_be(command, ENVIRONMENT | changed)


def test_no_fork_where_there_may_be_a_device(monkeypatch):
    monkeypatch.setattr("torch.version.cuda", "13.0")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert Loaded.of(["train"], []) is None


def test_no_fork_where_the_system_does_not_tell_its_pages(monkeypatch):
    monkeypatch.setattr("torch.version.cuda", None)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(forked_ranks.resident_pages, "resident", list)
    assert Loaded.of(["train"], []) is None


def test_waiting_for_one_has_an_end():
    reading, writing = os.pipe()
    rank = ForkedRank(["rank"], lambda: os.read(reading, 1))
    with pytest.raises(subprocess.TimeoutExpired):
        rank.wait(0.01)
    os.write(writing, b"\n")
    assert (rank.wait(LIMIT_S), rank.poll()) == (0, 0)
    assert os.getsid(0) != rank.pid


@pytest.mark.parametrize(
    ("workloads", "words"),
    [
        ([{"name": "train"}], ["train", "torch._dynamo"]),
        ([{"name": "infer"}], ["infer", ""]),
        ([{"name": "train"}, {"name": "infer"}, {"name": "train"}], ["train infer", ""]),
        ([{"name": "script", "command": "t.py"}, {"name": "train"}], ["train", "torch._dynamo"]),
        ([{"name": "script", "command": "t.py"}], ["", ""]),
    ],
)
def test_what_all_ranks_load_is_loaded_for_them(workloads, words, monkeypatch):
    monkeypatch.setenv(caller_environment.LOADED_LAUNCHER, "")
    started = []
    monkeypatch.setattr(job_server, "start", lambda *said: started.append(said) or "socket")
    loaded_launcher.serve({"launcher": SETTINGS, "workload": one} for one in workloads)
    assert started == [("profkit.capture.harness.launcher_server", "torch.distributed.run", *words)]
