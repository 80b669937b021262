"""Captures on several hosts, played by launchers side by side on this one."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from profkit.capture.harness.hosts import host_reports, start_hosts
from profkit.capture.harness.spec import Spec
from profkit.capture.launchers.base import Node
from profkit.process import parent_watch
from tests.waiting import LIMIT_S

# Starts what follows it twice, as srun does on two hosts. The second has process numbers and a name
# of its own, before which it would come by the alphabet.
ACROSS = """
import os, subprocess, sys
second = ["unshare", "--uts", "--pid", "--fork", "--mount-proc"]
second += ["sh", "-c", 'hostname aaa-second; exec "$@"', "sh"]
hosts = [
    subprocess.Popen([*start, *sys.argv[1:]], env=os.environ | {"SLURM_NODEID": str(node)})
    for node, start in enumerate(([], second))
]
sys.exit(max(process.wait() for process in hosts))
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


def test_the_hosts_meet_where_the_first_one_says(tmp_path, monkeypatch):
    monkeypatch.setattr(host_reports.socket, "gethostname", lambda: "login-3")
    first = host_reports.this_node({}, 2)
    assert (first.rank, first.master_address) == (0, "login-3")
    assert first.master_port > 1
    second = host_reports.this_node({"SLURM_NODEID": "1"}, 2)
    assert host_reports.meeting_place(tmp_path, second, 0) is None
    assert host_reports.meeting_place(tmp_path, second, 1e6, lambda: True) is None
    with host_reports.announced_start(tmp_path, first):
        assert host_reports.meeting_place(tmp_path, second, 0) == replace(first, rank=1)


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
def passing(monkeypatch):
    """Return a function that lets a number of seconds pass."""
    now = [1000.0]
    monkeypatch.setattr(host_reports.time, "monotonic", lambda: now[0])

    def passed(seconds):
        now[0] += seconds

    return passed


def test_a_host_ends_when_the_first_one_has_ended_or_was_silent_for_long(tmp_path, passing):
    with host_reports.announced_start(tmp_path, Node()):
        hosts = {
            node: host_reports.OtherHosts(tmp_path, node=node, hosts=2, attempt=1)
            for node in range(2)
        }
        for _ in range(9):
            passing(60)
            os.utime(tmp_path / host_reports._BEGUN, (0, 0))  # of a host whose clock is slow
            assert hosts[0].reason_to_stop() == hosts[1].reason_to_stop() == ""
        passing(170)
        assert hosts[1].reason_to_stop() == ""
        passing(20)
        assert hosts[1].reason_to_stop() == "the first host has ended this capture"
    other = host_reports.OtherHosts(tmp_path, node=1, hosts=2, attempt=1)
    assert other.reason_to_stop() == "the first host has ended this capture"


def test_the_first_host_waits_no_longer_than_it_takes_for_one_that_has_failed(tmp_path, passing):
    first = host_reports.OtherHosts(tmp_path, node=0, hosts=3, attempt=2)
    for node, attempt, exit_code in ((1, 2, 0), (2, 1, 1)):
        about = {"node": node, "attempt": attempt, "hostname": f"host{node}"}
        host_reports.write_report(tmp_path, host_reports.Report(**about, exit_code=exit_code))
    assert first.reason_to_stop() == first.failure() == ""
    failed = host_reports.Report(
        node=2, attempt=2, hostname="host2", exit_code=127, reason="nsys is not installed"
    )
    host_reports.write_report(tmp_path, failed)
    assert first.failure() == "host 2 (host2): nsys is not installed"
    assert first.reason_to_stop() == ""
    passing(11)
    assert first.reason_to_stop() == first.failure()


def test_a_host_that_did_not_report_is_told_with_what_its_starter_said(tmp_path):
    (tmp_path / host_reports.STARTED_LOG).write_text("srun: starting\nssh: no route to host\n")
    (tmp_path / "capture.node1.log").touch()
    _, absent = host_reports.gather_reports(tmp_path, 2, 1, 0)
    assert absent == (
        "host 1 of 2 (counted from 0) did not report; nodes.log ends with: ssh: no route to host"
    )
    (tmp_path / host_reports.STARTED_LOG).unlink()
    assert "although it had begun" in host_reports.gather_reports(tmp_path, 2, 1, 0)[1]


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
        return [host.communicate(timeout=LIMIT_S)[1] for host in reversed(hosts)]

    return started


def record(out):
    return json.loads((out / "capture.json").read_text())


def test_two_hosts_make_one_capture(started_on_each, tmp_path):
    out = tmp_path / "results/runs/r/capture/baseline/rep0"
    launcher = {"name": "torchrun", "nnodes": 2}
    assert started_on_each(out, launcher=launcher, steps=3) == ["", ""]
    assert record(out)["status"] == "ok", record(out)
    assert record(out)["ranks"] == RANKS
    assert [(node["node"], node["exit_code"]) for node in record(out)["nodes"]] == [(1, 0)]
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


@pytest.fixture
def namespaces():
    """Skip where this user may make no namespaces."""
    command = ["unshare", "--uts", "--pid", "--fork", "--mount-proc", "true"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no second host can be played here: {done.stderr.strip()}")


@pytest.mark.usefixtures("namespaces")
def test_one_command_starts_the_capture_on_hosts_with_process_numbers_of_their_own(
    capture, programs, tmp_path, monkeypatch
):
    monkeypatch.setenv(parent_watch.VARIABLE, parent_watch.identity())
    script = tmp_path / "across.py"
    script.write_text(ACROSS)
    launcher = {
        "name": "torchrun",
        "python": "",
        "nnodes": 2,
        "across": [sys.executable, str(script)],
    }
    made = capture("baseline", tmp_path, {}, **programs("grouped"), launcher=launcher, steps=3)
    assert made.result.returncode == 0, made.result.stderr
    assert made.record["status"] == "ok", made.record
    assert made.record["ranks"] == RANKS
    places = [(place["label"], place["node"]) for place in made.record["places"]]
    assert places == [(RANKS[0], 0), (RANKS[1], 1)]
    assert made.record["places"][1]["hostname"] == "aaa-second"
    assert made.record["nodes"][0]["hostname"] == "aaa-second"


# Reaches a host with a name and process numbers of its own, unless nothing is there.
SSH = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do case $1 in -o) shift;; esac; shift; done
[ "$1" != nowhere ] || { echo "ssh: connect to host nowhere: No route to host" >&2; exit 255; }
exec env -i PATH="$PATH" unshare --uts --pid --fork --kill-child --mount-proc \\
    sh -c 'hostname "$1"; exec sh -c "$2"' sh "$@"
"""


@pytest.fixture
def ssh(tmp_path, monkeypatch):
    """Put an ``ssh`` on PATH that reaches hosts of this machine."""
    path = tmp_path / "bin" / "ssh"
    path.parent.mkdir()
    path.write_text(SSH)
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}:{os.environ['PATH']}")


@pytest.mark.usefixtures("namespaces", "ssh", "server")
def test_hosts_in_a_list_are_reached_by_ssh(capture, programs, tmp_path):
    launcher = {"name": "torchrun", "python": "", "hosts": ["localhost", "second"]}
    made = capture("baseline", tmp_path, {}, **programs("grouped"), launcher=launcher, steps=3)
    assert made.result.returncode == 0, made.told
    assert made.record["status"] == "ok", made.record
    places = [(place["node"], place["hostname"]) for place in made.record["places"]]
    assert places == [(0, "localhost"), (1, "second")]


@pytest.mark.usefixtures("namespaces", "ssh")
def test_a_host_that_ssh_does_not_reach_ends_the_capture_with_what_ssh_said(capture, tmp_path):
    launcher = {"name": "torchrun", "hosts": ["localhost", "nowhere"]}
    made = capture("baseline", tmp_path, {}, launcher=launcher, steps=3)
    assert made.result.returncode == 1
    assert "ssh: connect to host nowhere: No route to host" in made.result.stderr
    assert "ssh has not reached host nowhere" in made.result.stderr
    assert "Traceback" not in made.result.stderr


def test_srun_alone_gets_what_slurm_needs():
    launcher = {"name": "torchrun", "nnodes": 4, "across": ["srun"]}
    spec = Spec(token="", tool="baseline", out="out", workload={"launcher": launcher})
    words = start_hosts.starting_command(spec)
    assert words[:4] == ("srun", "--nodes=4", "--ntasks=4", "--ntasks-per-node=1")
    with_flags = Spec(
        token="",
        tool="baseline",
        out="out",
        workload={"launcher": launcher | {"across": ["srun", "-n4"]}},
    )
    assert start_hosts.starting_command(with_flags) == ("srun", "-n4")


def test_a_command_that_starts_nothing_is_named(capture, tmp_path):
    launcher = {"name": "torchrun", "nnodes": 2, "across": ["sh", "-c", "echo no such host", "sh"]}
    made = capture("baseline", tmp_path, {}, launcher=launcher, steps=3)
    assert made.result.returncode == 1
    assert "no host has left capture.json; sh said:\nno such host" in made.result.stderr
    assert "Traceback" not in made.result.stderr
