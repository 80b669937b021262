import sys

from profkit.capture.launchers.python import Launcher

PROGRAM = ("-m", "program")


def test_one_process_runs_the_program():
    assert Launcher().command(PROGRAM, 1) == [sys.executable, "-m", "program"]


def test_several_ranks_are_refused_with_what_to_do():
    assert Launcher().check(1) == ""
    expected = "launcher python starts one rank, not 2; set launcher=torchrun"
    assert Launcher().check(2) == expected
