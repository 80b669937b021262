"""How profkit reaches the processes of a command, and what hides them from it."""

import shlex

import pytest

from profkit.capture.harness.followed import request

ONE = str(request._FOLDER)


@pytest.mark.parametrize(
    ("words", "reached"),
    [
        ("env PYTHONPATH=src python x.py", f"env PYTHONPATH={ONE}:src python x.py"),
        (
            "bash -c 'export PYTHONPATH=\"a b\"; run'",
            f"bash -c 'export PYTHONPATH={ONE}:\"a b\"; run'",
        ),
        ("srun --export=ALL,PYTHONPATH=/x run", f"srun --export=ALL,PYTHONPATH={ONE}:/x run"),
        ("mpirun -x PYTHONPATH run", "mpirun -x PYTHONPATH run"),
        ("env MY_PYTHONPATH=src python x.py", "env MY_PYTHONPATH=src python x.py"),
    ],
)
def test_a_path_that_the_words_set_keeps_profkits_folder(words, reached):
    assert request.reaching(shlex.split(words)) == shlex.split(reached)


@pytest.mark.parametrize(
    ("line", "is_found"),
    [
        ("export PYTHONPATH=src", True),
        ("PYTHONPATH=src python train.py", True),
        ('env["PYTHONPATH"] = "src"', True),
        ("export PYTHONPATH=src:$PYTHONPATH", False),
        ("export PYTHONPATH=src:${PYTHONPATH:-}", False),
        ("# PYTHONPATH=src", False),
        ("export MY_PYTHONPATH=src", False),
        ('if os.environ["PYTHONPATH"] == "src":', False),
    ],
)
def test_a_script_that_replaces_the_path_is_found(tmp_path, line, is_found):
    (tmp_path / "train.sh").write_text(f"set -e\n{line}\n")
    found = request.replacing_line(["bash", "train.sh", "--lr=1"], tmp_path)
    assert found == ("train.sh:2" if is_found else "")


def test_a_text_that_is_longer_than_a_name_may_be_is_no_script(tmp_path):
    assert request.replacing_line(["bash", "-c", "echo " * 100], tmp_path) == ""
