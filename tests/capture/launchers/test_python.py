import sys

from profkit.capture.launchers.base import Node
from profkit.capture.launchers.python import Launcher
from profkit.core.settings import checked

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
    assert launcher.environment_variables == {"OMP_NUM_THREADS": "4", "MODE": "fast"}


def test_a_folder_or_a_python_that_is_not_there_is_named(tmp_path):
    missing = str(tmp_path / "none")
    assert Launcher(cwd=missing).check(1) == f"cwd: no such folder: {missing}"
    assert Launcher(python=missing).check(1) == f"python: no such program: {missing}"


def test_ranks_start_in_their_folder_with_their_variables(capture, tmp_path):
    (tmp_path / "code").mkdir()
    program = "import os, profkit\nprofkit.step()\nprofkit.step()\n"
    program += "print('program:', os.getcwd(), os.environ['MODE'])\n"
    (tmp_path / "code/train.py").write_text(program)
    made = capture(
        "baseline",
        tmp_path,
        {},
        workload={"name": "script", "command": "train.py"},
        launcher={"name": "python", "cwd": str(tmp_path / "code"), "env": {"MODE": "fast"}},
        world_size=1,
    )
    assert made.record["status"] == "ok", made.record
    assert made.printed() == {f"{tmp_path / 'code'} fast"}
