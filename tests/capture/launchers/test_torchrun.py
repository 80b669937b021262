import sys

from profkit.capture.launchers.torchrun import Launcher

TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
PROGRAM = ("-m", "program")


def test_torchrun_starts_a_process_per_rank_on_a_port_of_its_own_choice():
    assert Launcher().check(4) == ""
    expected = [*TORCHRUN, "--standalone", "--nproc-per-node=4", "-m", "program"]
    assert Launcher().command(PROGRAM, 4) == expected


def test_the_meeting_point_and_further_flags_can_be_given():
    launcher = Launcher(rdzv_endpoint="localhost:29400", extra=("--max-restarts=0",))
    meet = ["--rdzv-backend=c10d", "--rdzv-endpoint=localhost:29400"]
    expected = [*TORCHRUN, *meet, "--nproc-per-node=2", "--max-restarts=0", "-m", "program"]
    assert launcher.command(PROGRAM, 2) == expected
