import shlex

import pytest

from profkit.workloads.runtime import command_words
from profkit.workloads.script import Workload


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python train.py --lr 3e-4", "train"),
        ("python3.12 -u -m pkg.train --config other.py", "pkg.train"),
        ("X=1 Y=2 torchrun --nproc-per-node 2 code/train.py", "train"),
        ("accelerate launch --config_file=a.py fit.py", "fit"),
        ("mpirun -np 2 python -m pkg.train", "pkg.train"),
        ("bash run/train.sh fast.py", "train"),
        ("uv run train.py", "train"),
        ("conda run -n torch python train.py", "train"),
        ("./fit --data x.py", "fit"),
        ("train.py --x", "train"),
        ("-m package.train", "package.train"),
    ],
)
def test_a_run_is_called_after_what_the_command_runs(command, name):
    assert Workload(command=command).name_for_run("none") == name


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("", "command: it is empty"),
        ("X=1", "command: it has assignments and no program"),
        ("python 'open", "command: No closing quotation"),
        ("absent-program x", "command: no program named 'absent-program' on PATH"),
        ("./absent", "command: no such program: "),
        (f"./{'x' * 300}", "command: no such program: "),
        ("x" * 300, "command: no program named 'xxx"),
        (f"python {'x' * 300}.py", "command: no such script: "),
        (f"bash -c '{'echo ' * 100}'", ""),
        ("python absent.py --lr 3", "command: no such script: "),
        ("A=1 python3.11 absent.py", "command: no such script: "),
        ("python trian.py", "trian.py; is it train.py?"),
        ("python -u trian.py", "trian.py; is it train.py?"),
        ("python -m pkg.trian --lr 3", "pkg/trian.py; is it train.py?"),
        ("python -m pkg.train", ""),
        ("python -m pkg.of.trian", ""),
        ("python -m trian", ""),
        ("python -m", ""),
        ("python -W ignore trian.py", ""),
        ("train.py", "command: train.py is no program on PATH; write python train.py"),
        ("./train.py", "is not executable; write python train.py"),
        ("PATH=/nowhere bash x", "command: no program named 'bash' on PATH"),
    ],
)
def test_a_command_that_cannot_be_started_is_found_before_that(command, message, tmp_path):
    (tmp_path / "pkg/of").mkdir(parents=True)
    for name in ("train.py", "pkg/__init__.py", "pkg/train.py"):
        (tmp_path / name).touch()
    found = Workload(command=command).check_command(tmp_path)
    assert message in found if message else not found


def test_assignments_are_those_in_front():
    words = shlex.split("A=1 B='x y' python train.py C=3")
    assert command_words.split(words) == ({"A": "1", "B": "x y"}, ["python", "train.py", "C=3"])


@pytest.mark.parametrize(
    ("command", "is_read"),
    [
        ("python", True),
        ("X=1 python3.11 -u - --lr 1", True),
        ("uv run python -", True),
        ("bash -ex", True),
        ("bash -s", True),
        ("python -c 'import torch'", False),
        ("bash -lc 'python -'", False),
        ("python -m pkg.train", False),
        ("python -W ignore train.py", False),
        ("python train.py --shell bash", False),
        ("torchrun -m pkg.train --shell bash", False),
        ("./train --shell bash", False),
        ("torchrun train.py -", False),
        ("X=1", False),
    ],
)
def test_a_program_may_be_read_from_the_standard_input(command, is_read):
    assert command_words.reads_program(shlex.split(command)) == is_read
