"""Captures on several hosts, played by launchers side by side on this one."""

import json
import os
import subprocess
import sys

import pytest

from profkit.capture.harness.hosts import host_reports
from profkit.capture.launchers.base import Node

# Starts what follows it twice, as srun does on two hosts.
ACROSS = """
import os, subprocess, sys
each = [
    subprocess.Popen(sys.argv[1:], env=os.environ | {"SLURM_NODEID": str(node)})
    for node in range(2)
]
sys.exit(max(process.wait() for process in each))
"""
RANKS = ["rank0_dp0_tp0_pp0", "rank1_dp1_tp0_pp0"]


def test_alone_a_host_meets_itself_at_a_free_port_whatever_the_environment_says():
    node = host_reports.this_node({"MASTER_PORT": "1", "PROFKIT_NODE_RANK": "3"}, 1)
    assert (node.rank, node.master_address) == (0, "")
    assert node.master_port > 1


@pytest.mark.parametrize("name", ["PROFKIT_NODE_RANK", "SLURM_NODEID", "NODE_RANK"])
def test_the_environment_numbers_the_hosts_and_says_where_they_meet(name):
    environment = {name: "1", "MASTER_ADDR": "first", "MASTER_PORT": "29400"}
    assert host_reports.this_node(environment, 2) == Node(
        rank=1, master_address="first", master_port=29400
    )


def test_a_number_that_is_none_is_refused():
    with pytest.raises(
        host_reports.ConfigError, match="SLURM_NODEID is 'one', not a number below 2"
    ):
        host_reports.this_node({"SLURM_NODEID": "one"}, 2)
    with pytest.raises(host_reports.ConfigError, match="NODE_RANK is '2', not a number below 2"):
        host_reports.this_node({"NODE_RANK": "2"}, 2)


def test_reports_of_an_earlier_attempt_do_not_count(tmp_path):
    report = host_reports.Report(node=1, attempt=1, hostname="second", exit_code=0)
    host_reports.write_report(tmp_path, report)
    assert host_reports.gather_reports(tmp_path, 2, 1, 0) == ([report], "")
    come, absent = host_reports.gather_reports(tmp_path, 3, 2, 0)
    assert come == []
    assert absent.startswith("host 1, 2 of 3 (counted from 0) did not report")


@pytest.fixture
def started_on_each(arguments_of, programs):
    """Return a function that starts a capture on two hosts and returns how they ended."""

    def started(out, **behaviour):
        command = arguments_of("baseline", out, {}, **programs("grouped"), **behaviour)
        command += ["--run-settings", '{"timeout_s": 100}']
        port = str(host_reports.free_port())
        # The second first: it has to wait until the first one has tidied up.
        hosts = [
            subprocess.Popen(
                command,
                env=os.environ
                | {"PROFKIT_NODE_RANK": str(node), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port},
                stderr=subprocess.PIPE,
                text=True,
            )
            for node in (1, 0)
        ]
        return [host.communicate(timeout=120)[1] for host in reversed(hosts)]

    return started


def record(out):
    return json.loads((out / "capture.json").read_text())


@pytest.mark.parametrize("backend", ["c10d", "static"])
def test_two_hosts_make_one_capture(started_on_each, tmp_path, backend):
    out = tmp_path / "results/runs/r/capture/baseline/rep0"
    launcher = {"name": "torchrun", "nnodes": 2, "rdzv_backend": backend}
    assert started_on_each(out, launcher=launcher, steps=3) == ["", ""]
    assert record(out)["status"] == "ok", record(out)
    assert record(out)["ranks"] == RANKS
    assert [(each["node"], each["exit_code"]) for each in record(out)["nodes"]] == [(1, 0)]
    names = {path.name for path in out.iterdir()}
    assert names == {
        "capture.json",
        "capture.log",
        "capture.node1.json",
        "capture.node1.log",
        *(f"{label}.steps.json" for label in RANKS),
    }


def test_two_hosts_of_deepspeed_make_one_capture(started_on_each, tmp_path):
    hosts = tmp_path / "hosts"
    hosts.write_text("localhost slots=1\n127.0.0.1 slots=1\n")
    out = tmp_path / "results/runs/r/capture/baseline/rep0"
    launcher = {"name": "deepspeed", "nnodes": 2, "hostfile": str(hosts)}
    assert started_on_each(out, launcher=launcher, steps=3) == ["", ""]
    assert record(out)["status"] == "ok", record(out)
    assert record(out)["ranks"] == RANKS


def test_two_hosts_of_accelerate_make_one_capture(started_on_each, tmp_path):
    out = tmp_path / "results/runs/r/capture/baseline/rep0"
    launcher = {"name": "accelerate", "nnodes": 2, "cpu": True}
    assert started_on_each(out, launcher=launcher, steps=3) == ["", ""]
    assert record(out)["status"] == "ok", record(out)
    assert record(out)["ranks"] == RANKS


def test_one_command_starts_the_capture_on_all_hosts(capture, programs, tmp_path):
    script = tmp_path / "across.py"
    script.write_text(ACROSS)
    launcher = {"name": "torchrun", "nnodes": 2, "across": [sys.executable, str(script)]}
    made = capture("baseline", tmp_path, {}, **programs("grouped"), launcher=launcher, steps=3)
    assert made.result.returncode == 0, made.result.stderr
    assert made.record["status"] == "ok", made.record
    assert made.record["ranks"] == RANKS


def test_a_command_that_starts_nothing_is_named(capture, tmp_path):
    launcher = {"name": "torchrun", "nnodes": 2, "across": ["sh", "-c", "echo no such host", "sh"]}
    made = capture("baseline", tmp_path, {}, launcher=launcher, steps=3)
    assert made.result.returncode == 1
    assert "no host has left capture.json; sh said:\nno such host" in made.result.stderr
    assert "Traceback" not in made.result.stderr
