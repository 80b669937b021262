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
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "unshare")
SMALL = ("tool=[]", "analysis=[steps]", "repeats=1", "world_size=2")
HOSTS = ("launcher.nnodes=2", "launcher.across=srun")
# The plugin looks seldom, for the sake of clusters with thousands of users.
LOOKS = (
    *("--", "--slurm-init-seconds-before-status-checks", "1"),
    *("--seconds-between-status-checks", "2"),
)
QUOTED = "+launcher.env.QUOTED='a \"b c\" d'"


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    """Start a Slurm of two hosts, n0 and n1; return a function that does more with it."""
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    reason = f"not on PATH: {', '.join(missing)}" if missing else ""
    if Path("/etc/slurm/slurm.conf").exists() or os.geteuid():
        reason = "needs root, and no Slurm that is configured already"
    if reason and os.environ.get("PROFKIT_REQUIRE_TOOLS"):
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("slurm")

    def ask(action):
        subprocess.run([CLUSTER, action, folder], check=True, timeout=LIMIT_S)

    try:
        ask("start")
        yield ask
    finally:
        ask("stop")


def profkit(folder, *words):
    """Start profkit in `folder`, with what it prints in a file."""
    with (folder / "printed").open("w") as printed:
        return subprocess.Popen(
            [sys.executable, "-m", "profkit", *words],
            cwd=folder,
            stdout=printed,
            stderr=subprocess.STDOUT,
        )


@pytest.mark.usefixtures("hosts")
def test_ranks_run_on_both_hosts_with_a_scratch_and_overrides_keep_their_quotes(tmp_path):
    # A variable of the job, not of the host where profkit was started.
    local = tmp_path / getpass.getuser()
    local.mkdir()
    scratch = (f"scratch={tmp_path}/$SLURM_JOB_USER", "keep_raw=none")
    asked = ("tool=[marks]", *SMALL[1:], *HOSTS, QUOTED, "steps=4", "warmup_steps=1")
    asked += (*scratch, *LOOKS)
    status = profkit(tmp_path, "run", "--on", "slurm", *asked).wait(LIMIT_S)
    assert status == 0, (tmp_path / "printed").read_text()
    [capture] = tmp_path.glob("results/runs/*/capture/baseline/rep0/capture.json")
    record = json.loads(capture.read_text())
    assert record["status"] == "ok"
    assert [place["node"] for place in record["places"]] == [0, 1]
    assert [place["hostname"] for place in record["places"]] == [socket.gethostname(), "n1"]
    [capture] = tmp_path.glob("results/runs/*/capture/marks/rep0/capture.json")
    raw = json.loads(capture.read_text())["raw"]
    assert [(host["host"], len(host["files"])) for host in raw][1] == ("n1", 1)
    assert len(raw) == 2
    assert [*local.iterdir()] == []
    [converted] = tmp_path.glob("results/runs/*/tables/marks/convert.json")
    assert json.loads(converted.read_text())["status"] == "ok"
    [manifest] = tmp_path.glob("results/runs/*/manifest.json")
    behaviour = json.loads(manifest.read_text())["behaviour"]
    assert behaviour["launcher"]["env"] == {"QUOTED": 'a "b c" d'}
    assert (tmp_path / "results/report.html").is_file()


@pytest.mark.usefixtures("hosts")
def test_a_job_that_is_cancelled_leaves_no_process(tmp_path):
    running = profkit(tmp_path, "run", "--on", "slurm", *SMALL, *HOSTS, "steps=100000", *LOOKS)
    try:
        until(
            lambda: running.poll() is not None or len(ranks(tmp_path)) >= 2,
            lambda: (tmp_path / "printed").read_text() + asked("squeue") + asked("sinfo"),
        )
        assert running.poll() is None, (tmp_path / "printed").read_text()
        jobs = asked("squeue", "--noheader", "--format=%A").split()
        subprocess.run(["scancel", *jobs], check=True)
        until(lambda: not ranks(tmp_path), lambda: ranks(tmp_path))
        assert running.wait(LIMIT_S) == 1
    finally:
        running.kill()
        running.wait()


def test_a_host_that_dies_leaves_no_process_and_the_next_run_makes_what_it_took_with_it(
    hosts, tmp_path
):
    asked_for = ("zero=none,zero2", *SMALL, *HOSTS, "steps=6", "warmup_steps=1")
    running = profkit(tmp_path, "run", "--on", "slurm", *asked_for, *LOOKS)
    try:
        until(
            lambda: running.poll() is not None or len(ranks(tmp_path)) >= 2,
            lambda: (tmp_path / "printed").read_text() + asked("squeue") + asked("sinfo"),
        )
        hosts("lose")
        until(lambda: not ranks(tmp_path), lambda: ranks(tmp_path))
        hosts("regain")
        assert running.wait(LIMIT_S) == 1
    finally:
        running.kill()
        running.wait()
    status = profkit(tmp_path, "run", "--on", "slurm", *asked_for, *LOOKS).wait(LIMIT_S)
    assert status == 0, (tmp_path / "printed").read_text()
    records = [*tmp_path.glob("results/runs/*/capture/baseline/rep0/capture.json")]
    assert [json.loads(record.read_text())["status"] for record in records] == ["ok", "ok"]
    assert (tmp_path / "results/report.html").is_file()


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


@pytest.mark.usefixtures("hosts")
def test_a_slow_host_is_named(tmp_path):
    (tmp_path / "train.py").write_text(SLOW_ON_N1)
    program = ("workload=script", 'workload.command="train.py"', "tool=[torch_profiler]")
    asked_for = (*program, "analysis=[stragglers]", *SMALL[2:], *HOSTS, *LOOKS)
    status = profkit(tmp_path, "run", "--on", "slurm", *asked_for).wait(LIMIT_S)
    assert status == 0, (tmp_path / "printed").read_text()
    [path] = tmp_path.glob("results/runs/*/analyze/stragglers.json")
    [finding] = json.loads(path.read_text())["result"]["findings"]
    assert finding["evidence"]["host"] == "n1"
    assert "waiting is for host n1: its only rank is late (rank 1)" in finding["message"]


def asked(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def ranks(folder):
    """Return the processes in `folder` that a launcher has started."""
    found = psutil.process_iter(["cwd", "environ"])
    return [
        process
        for process in found
        if process.info["cwd"] == str(folder) and "LOCAL_RANK" in (process.info["environ"] or {})
    ]
