"""Captures over two hosts of a real Slurm: on two hosts, with a quoted override, and cancelled."""

import getpass
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.waiting import LIMIT_S, until

pytestmark = pytest.mark.slow

CLUSTER = Path(__file__).parent / "cluster"
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "unshare", "nsenter")
SMALL = ("tool=[]", "analysis=[steps]", "repeats=1", "world_size=2")
HOSTS = ("launcher.nnodes=2", "launcher.across=srun")
# The plugin looks seldom, for the sake of clusters with thousands of users.
LOOKS = (
    *("--", "--slurm-init-seconds-before-status-checks", "1"),
    *("--seconds-between-status-checks", "2"),
)
QUOTED = "+launcher.env.QUOTED='a \"b c\" d'"


class Cluster:
    """A Slurm of two hosts, n0 and n1, in namespaces of its own: it ends with this process."""

    def __init__(self, folder):
        apart = ("--mount", "--mount-proc", "--pid", "--fork", "--kill-child")
        self._process = subprocess.Popen(
            ["unshare", *apart, CLUSTER, folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout.readline() == "ready\n"
        [inside] = psutil.Process(self._process.pid).children()
        self._entering = ("nsenter", f"--target={inside.pid}", "--mount", "--pid")

    def ask(self, action):
        print(action, file=self._process.stdin, flush=True)
        assert self._process.stdout.readline() == "done\n"

    def profkit(self, folder, *words):
        """Start profkit in `folder` on n0, with what it prints in a file."""
        with (folder / "printed").open("w") as printed:
            return subprocess.Popen(
                [*self._entering, f"--wd={folder}", sys.executable, "-m", "profkit", *words],
                stdout=printed,
                stderr=subprocess.STDOUT,
            )

    def says(self, *command):
        """Return what `command` prints on n0."""
        entered = (*self._entering, *command)
        return subprocess.run(entered, capture_output=True, text=True, check=True).stdout

    def state(self):
        return self.says("squeue") + self.says("sinfo")

    def end(self):
        self._process.stdin.close()
        self._process.wait(LIMIT_S)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    reason = f"not on PATH: {', '.join(missing)}" if missing else ""
    if os.geteuid():
        reason = "needs root"
    if reason and os.environ.get("PROFKIT_REQUIRE_TOOLS"):
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)
    cluster = Cluster(tmp_path_factory.mktemp("slurm"))
    try:
        yield cluster
    finally:
        cluster.end()


SLOW_ON_N1 = """
import os, time
import torch
from torch import distributed, nn

distributed.init_process_group("gloo")
model = nn.parallel.DistributedDataParallel(nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(10):
    if os.uname().nodename == "n1":
        time.sleep(0.2)
    optimizer.zero_grad()
    model(torch.randn(8, 64)).sum().backward()
    optimizer.step()
distributed.destroy_process_group()
"""


@pytest.fixture(scope="module")
def captured(cluster, tmp_path_factory):
    """Return the folder in which a program that is slow on n1 was captured on both hosts."""
    folder = tmp_path_factory.mktemp("captured")
    (folder / "train.py").write_text(SLOW_ON_N1)
    # A variable of the job, not of the host where profkit was started.
    (folder / getpass.getuser()).mkdir()
    asked = ("workload=script", 'workload.command="train.py"', "tool=[marks]", QUOTED, *HOSTS)
    asked += (f"scratch={folder}/$SLURM_JOB_USER", "keep_raw=none", "analysis=[stragglers]")
    running = cluster.profkit(folder, "run", "--on", "slurm", *asked, *SMALL[2:], *LOOKS)
    assert running.wait(LIMIT_S) == 0, (folder / "printed").read_text()
    return folder


def test_ranks_run_on_both_hosts_with_a_scratch_and_overrides_keep_their_quotes(captured):
    [capture] = captured.glob("results/runs/*/capture/baseline/rep0/capture.json")
    record = json.loads(capture.read_text())
    assert record["status"] == "ok"
    assert [place["node"] for place in record["places"]] == [0, 1]
    assert [place["hostname"] for place in record["places"]] == [socket.gethostname(), "n1"]
    [capture] = captured.glob("results/runs/*/capture/marks/rep0/capture.json")
    raw = json.loads(capture.read_text())["raw"]
    assert [(host["host"], len(host["files"])) for host in raw][1] == ("n1", 1)
    assert len(raw) == 2
    assert [*(captured / getpass.getuser()).iterdir()] == []
    [converted] = captured.glob("results/runs/*/tables/marks/convert.json")
    assert json.loads(converted.read_text())["status"] == "ok"
    [manifest] = captured.glob("results/runs/*/manifest.json")
    behaviour = json.loads(manifest.read_text())["behaviour"]
    assert behaviour["launcher"]["env"] == {"QUOTED": 'a "b c" d'}
    assert (captured / "results/report.html").is_file()


def test_a_slow_host_is_named(captured):
    [path] = captured.glob("results/runs/*/analyze/stragglers.json")
    [finding] = json.loads(path.read_text())["result"]["findings"]
    assert finding["evidence"]["host"] == "n1"
    assert "waiting is for host n1: its only rank is late (rank 1)" in finding["message"]


def test_a_job_that_is_cancelled_leaves_no_process(cluster, tmp_path):
    running = cluster.profkit(
        tmp_path, "run", "--on", "slurm", *SMALL, *HOSTS, "steps=100000", *LOOKS
    )
    try:
        until(
            lambda: running.poll() is not None or len(ranks(tmp_path)) >= 2,
            lambda: (tmp_path / "printed").read_text() + cluster.state(),
        )
        assert running.poll() is None, (tmp_path / "printed").read_text()
        jobs = cluster.says("squeue", "--noheader", "--format=%A").split()
        cluster.says("scancel", *jobs)
        until(lambda: not ranks(tmp_path), lambda: ranks(tmp_path))
        assert running.wait(LIMIT_S) == 1
    finally:
        running.kill()
        running.wait()


def test_a_host_that_dies_leaves_no_process_and_the_next_run_makes_what_it_took_with_it(
    cluster, tmp_path
):
    asked_for = (*SMALL, *HOSTS, "steps=6", "warmup_steps=1")
    running = cluster.profkit(tmp_path, "run", "--on", "slurm", *asked_for, *LOOKS)
    try:
        until(
            lambda: running.poll() is not None or len(ranks(tmp_path)) >= 2,
            lambda: (tmp_path / "printed").read_text() + cluster.state(),
        )
        cluster.ask("lose")
        until(lambda: not ranks(tmp_path), lambda: ranks(tmp_path))
        cluster.ask("regain")
        assert running.wait(LIMIT_S) == 1
    finally:
        running.kill()
        running.wait()
    status = cluster.profkit(tmp_path, "run", "--on", "slurm", *asked_for, *LOOKS).wait(LIMIT_S)
    assert status == 0, (tmp_path / "printed").read_text()
    [record] = tmp_path.glob("results/runs/*/capture/baseline/rep0/capture.json")
    assert json.loads(record.read_text())["status"] == "ok"
    assert (tmp_path / "results/report.html").is_file()


def ranks(folder):
    """Return the processes in `folder` that a launcher has started."""
    found = psutil.process_iter(["cwd", "environ"])
    return [
        process
        for process in found
        if process.info["cwd"] == str(folder) and "LOCAL_RANK" in (process.info["environ"] or {})
    ]
