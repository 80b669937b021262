import sys

import pytest

from profkit.capture.launchers.base import Node
from profkit.capture.launchers.deepspeed import Launcher

DEEPSPEED = [sys.executable, "-m", "deepspeed.launcher.runner"]
PROGRAM = ("-m", "program")
END = ["--module", "program"]


def test_ranks_are_started_on_the_first_devices_at_a_free_port():
    meet = ["--master_addr=127.0.0.1", "--master_port=5"]
    expected = [*DEEPSPEED, *meet, "--num_gpus=2", *END]
    assert Launcher().command(PROGRAM, 2, Node(master_port=5)) == expected


def test_devices_can_be_chosen():
    meet = ["--master_addr=127.0.0.1", "--master_port=5"]
    launcher = Launcher(include="localhost:1,3", extra=("--enable_each_rank_log=logs",))
    chosen = ["--include=localhost:1,3", "--enable_each_rank_log=logs"]
    assert launcher.command(PROGRAM, 2, Node(master_port=5)) == [*DEEPSPEED, *meet, *chosen, *END]


def test_each_of_several_hosts_starts_its_own_share():
    launcher = Launcher(nnodes=2, hostfile="hosts")
    expected = [
        *DEEPSPEED,
        "--master_addr=first",
        "--master_port=7",
        "--hostfile=hosts",
        "--no_ssh",
        "--node_rank=1",
        "--num_gpus=2",
        *END,
    ]
    assert (
        launcher.command(PROGRAM, 4, Node(rank=1, master_address="first", master_port=7))
        == expected
    )


@pytest.mark.parametrize(
    ("launcher", "expected"),
    [
        (Launcher(), ""),
        (
            Launcher(nnodes=2),
            "2 hosts need launcher.hostfile: a line 'host slots=N' for each",
        ),
    ],
)
def test_several_hosts_need_a_hostfile(launcher, expected):
    assert launcher.check(4) == expected


def test_a_rank_on_cpu_is_captured_without_the_argument_it_is_handed(capture, tmp_path):
    alone = {"launcher": {"name": "deepspeed"}, "world_size": 1}
    made = capture("baseline", tmp_path, {}, **alone, steps=4)
    assert made.record["status"] == "ok", made.record
    assert made.record["ranks"] == ["rank0_dp0_tp0_pp0"]
    assert len(made.steps()) == 4
