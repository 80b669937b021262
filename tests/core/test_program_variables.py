"""Which environment variables a capture depends on, and which of them have changed since."""

import socket

import pytest

from profkit.core import program_variables

HERE = {"hostname": socket.gethostname()}


@pytest.fixture
def sources(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import os\n"
        "lr = float(os.environ.get('LR', 1))\n"
        "print(os.environ['DATA'], os.getenv(\"SEED\"))\n"
        "print(os.environ['API_KEY'], os.environ['RANK'])\n"
    )
    (tmp_path / "notes.txt").write_text("os.environ['OTHER']")
    return [{"path": str(path)} for path in (script, tmp_path / "notes.txt", tmp_path / "gone.py")]


def test_variables_of_libraries_and_those_that_the_program_reads_count(sources):
    given = {"LR": "5", "API_KEY": "x", "OMP_NUM_THREADS": "1", "NCCL_ALGO": "Ring", "TERM": "x"}
    given |= {"TORCH_HOME": "/x", "TORCHINDUCTOR_CACHE_DIR": "/x", "RANK": "0", "HOME": "/root"}
    found = program_variables.captured(given, ["NCCL_ALGO"], sources)
    assert [*found] == ["DATA", "LR", "OMP_NUM_THREADS", "SEED"]
    assert found["DATA"] == found["SEED"] == program_variables.UNSET
    assert "5" != found["LR"] != program_variables.captured({"LR": "6"}, [], sources)["LR"]


def test_what_a_shell_script_reads_counts_and_not_what_it_sets_itself(tmp_path):
    script = tmp_path / "train"
    script.write_text(
        "#!/usr/bin/env bash\n"
        "OUT=results; export NAME=b$WIDTH && BATCH=${BATCH:-4}\n"
        "for seed in 1 2; do read -r line\n"
        'python train.py $OUT "$NAME" ${LAYERS:-2} $BATCH $seed $line $HOME $1\n'
        "done\n"
    )
    found = program_variables.captured({}, [], [{"path": str(script)}])
    assert [*found] == ["BATCH", "LAYERS", "WIDTH"]
    renamed = script.rename(tmp_path / "train.sh")
    assert program_variables.captured({}, [], [{"path": str(renamed)}]) == found


@pytest.mark.parametrize(
    ("environment", "changed"),
    [
        ({"LR": "5", "OMP_NUM_THREADS": "1"}, []),
        ({"LR": "5", "OMP_NUM_THREADS": "1", "UNRELATED": "1"}, []),
        ({"LR": "6", "OMP_NUM_THREADS": "1"}, ["LR"]),
        ({"LR": "5"}, ["OMP_NUM_THREADS"]),
        ({"LR": "5", "OMP_NUM_THREADS": "2", "GLOO_X": "1"}, ["GLOO_X", "OMP_NUM_THREADS"]),
        ({"LR": "5", "OMP_NUM_THREADS": "1", "DATA": "x", "SEED": ""}, ["DATA", "SEED"]),
        ({"LR": "5", "OMP_NUM_THREADS": "1", "NCCL_ALGO": "Ring"}, []),
    ],
)
def test_what_has_changed_is_named(environment, changed, sources, monkeypatch):
    then = {"LR": "5", "OMP_NUM_THREADS": "1", "NCCL_ALGO": "Tree"}
    added = ["NCCL_ALGO"]
    record = {
        "machine": HERE,
        "environment_added": added,
        "variables": program_variables.captured(then, added, sources),
    }
    for name in program_variables.of_libraries():
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    now = program_variables.of_libraries()
    said = [f"the variable {name} has changed since it was captured" for name in changed]
    assert [*program_variables.changes(record, now)] == said
    elsewhere = record | {"machine": {"hostname": "another"}}
    assert [*program_variables.changes(elsewhere, now)] == []
    assert [*program_variables.changes({"machine": HERE}, now)] == []


def test_of_the_environment_only_what_is_allowed_is_told():
    environment = {
        "NCCL_DEBUG": "INFO",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "HOME": "/root",
        "HF_TOKEN": "hf_x",
        "NCCL_API_KEY": "x",
        "MY_NCCL_DEBUG": "x",
    }
    assert program_variables.recorded(environment) == {
        "CUDA_VISIBLE_DEVICES": "0,1",
        "NCCL_DEBUG": "INFO",
    }
