import sys

from profkit.capture.launchers.base import Node
from profkit.capture.launchers.python import Launcher
from profkit.settings import checked

PROGRAM = ("-m", "program")


def test_one_process_runs_the_program():
    assert Launcher().command(PROGRAM, 1, Node()) == [sys.executable, "-m", "program"]


def test_another_python_and_its_flags_can_be_named():
    launcher = Launcher(python="/opt/venv/bin/python", extra=("-X", "dev"))
    expected = ["/opt/venv/bin/python", "-X", "dev", "-m", "program"]
    assert launcher.command(PROGRAM, 1, Node()) == expected


def test_several_ranks_are_refused_with_what_to_do():
    assert Launcher().check(1) == ""
    expected = "launcher python starts one rank, not 2; set launcher=torchrun"
    assert Launcher().check(2) == expected


def test_numbers_in_the_environment_become_text():
    launcher = checked("launcher", Launcher, {"env": {"OMP_NUM_THREADS": 4, "MODE": "fast"}})
    assert launcher.variables == {"OMP_NUM_THREADS": "4", "MODE": "fast"}


def test_a_variable_that_looks_like_a_secret_is_warned_of_by_name_alone():
    (warning,) = Launcher(env={"HF_TOKEN": "hf_canary", "NCCL_DEBUG": "INFO"}).warnings()
    assert warning.startswith("launcher.env.HF_TOKEN looks like a secret")
    assert "hf_canary" not in warning
