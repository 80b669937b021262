import sys

import pytest

from profkit.capture.launchers.base import Node
from profkit.capture.launchers.torchrun import Launcher
from profkit.core.settings import adapter, checked

TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
PROGRAM = ("-m", "program")
SECOND = Node(rank=1, master_address="first", master_port=29400)


def test_torchrun_starts_a_process_per_rank_on_a_port_of_its_own_choice():
    assert Launcher().check(4) == ""
    expected = [*TORCHRUN, "--standalone", "--nproc-per-node=4", "-m", "program"]
    assert Launcher().command(PROGRAM, 4, Node(master_port=5)) == expected


def test_the_meeting_point_and_further_flags_can_be_given():
    launcher = Launcher(rdzv_endpoint="localhost:29400", extra=("--max-restarts=0",))
    expected = [
        *TORCHRUN,
        "--nnodes=1",
        "--node-rank=0",
        "--rdzv-backend=c10d",
        "--rdzv-endpoint=localhost:29400",
        "--rdzv-id=profkit",
        "--rdzv-conf=join_timeout=300",
        "--nproc-per-node=2",
        "--max-restarts=0",
        "-m",
        "program",
    ]
    assert launcher.command(PROGRAM, 2, Node()) == expected


@pytest.mark.parametrize("backend", ["c10d", "static"])
def test_each_of_several_hosts_starts_its_share_and_keeps_its_number(backend):
    launcher = Launcher(nnodes=2, rdzv_backend=backend, join_timeout_s=60)
    expected = [
        *TORCHRUN,
        "--nnodes=2",
        "--node-rank=1",
        "--rdzv-backend=static",
        "--master-addr=first",
        "--master-port=29400",
        "--rdzv-conf=timeout=60",
        "--nproc-per-node=4",
        "-m",
        "program",
    ]
    assert launcher.command(PROGRAM, 8, SECOND) == expected


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"nnodes": 2}, "3 ranks cannot be spread evenly over 2 hosts"),
        ({"hosts": ["a", "b", "c"]}, ""),
        ({"hosts": ["a", "b"]}, "3 ranks cannot be spread evenly over 2 hosts"),
        ({"hosts": ["a", "b"], "nnodes": 3}, "nnodes=3, but hosts names 2: leave out nnodes"),
        ({"hosts": ["a"], "across": "srun"}, "hosts and across are two ways to reach the hosts: "),
        ({"hosts": ["a", "-oProxyCommand=x", "c"]}, "hosts: not the name of a host: '-oProxyComm"),
    ],
)
def test_hosts_that_do_not_fit_the_ranks_are_refused(settings, expected):
    reason = checked("launcher", Launcher, settings).check(3)
    assert reason.startswith(expected)
    assert bool(reason) == bool(expected)


def test_a_run_without_a_list_of_hosts_is_the_run_that_it_was_before_there_was_one():
    assert "hosts" not in adapter(Launcher).dump_python(Launcher(), mode="json")
    assert adapter(Launcher).dump_python(Launcher(hosts=("a",)), mode="json")["hosts"] == ["a"]


@pytest.mark.parametrize("backend", ["etcd", "etcd-v2"])
def test_a_rendezvous_that_numbers_several_hosts_anew_is_refused(backend):
    launcher = Launcher(nnodes=2, rdzv_backend=backend)
    assert launcher.check(4).startswith(f"rdzv_backend={backend} numbers the ranks in the order")
    assert Launcher(rdzv_backend=backend).check(4) == ""
