"""What keeps jobs of Slurm from starting, by programs on PATH that say what Slurm's say."""

import pytest

from profkit.cli import cluster, main
from profkit.core.errors import ConfigError
from profkit.dag import slurm

NO_ACCOUNTING = "echo 'Slurm accounting storage is disabled' >&2; exit 1"
PROGRAMS = {"sbatch": "", "squeue": "", "scancel": "", "srun": "", "sacct": NO_ACCOUNTING}


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Return a function that puts programs on a PATH with nothing else."""
    monkeypatch.setenv("PATH", str(tmp_path))

    def put(**scripts):
        for name, script in scripts.items():
            (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
            (tmp_path / name).chmod(0o755)

    return put


def problems():
    return [(problem.what, problem.stops) for problem in slurm.problems()]


def test_a_machine_without_slurm_says_which_programs_it_lacks(programs):
    programs(sinfo="", srun="")
    assert problems() == [("not on PATH: sbatch, squeue, scancel", True)]
    with pytest.raises(ConfigError, match="--on slurm: not on PATH: sbatch"):
        cluster.options("slurm", 2)


def test_a_controller_that_does_not_answer_is_quoted(programs):
    said = "slurm_load_partitions: Unable to contact slurm controller (connect failure)"
    programs(**PROGRAMS, sinfo=f"echo '{said}' >&2; exit 1")
    assert problems() == [(f"sinfo says: {said}", True)]


def test_hosts_that_are_all_down_are_counted(programs):
    programs(**PROGRAMS, sinfo="echo '2 down*'", scontrol="")
    assert problems() == [("no node is up: 2 down*", True)]


def test_squeue_is_asked_where_accounting_is_off(programs):
    programs(**PROGRAMS, sinfo="echo '2 idle'", scontrol="echo 'MinJobAge               = 300 sec'")
    assert problems() == []
    assert cluster.options("slurm", 2)[-2:] == ["--slurm-status-command", "squeue"]
    programs(sacct="exit 0")
    assert cluster.options("slurm", 2)[-1] == "sacct"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        # What the shell starts holds its output.
        ("trap '' TERM; /bin/sleep 600 & /bin/sleep 600", "it does not end within 0.5 s"),
        ("exec /bin/cat /dev/zero", "it prints more than 1024 KiB"),
    ],
)
def test_programs_that_hang_or_print_garbage_are_ended_and_said(
    programs, monkeypatch, script, said
):
    monkeypatch.setattr(slurm, "_TIMEOUT_S", 0.5)
    programs(**PROGRAMS | {"sacct": script}, sinfo=script)
    assert slurm.status_command() == "squeue"
    assert problems() == [(f"sinfo says: {said}", True)]


def test_what_sinfo_says_of_no_node_is_no_traceback(programs):
    programs(**PROGRAMS, sinfo="echo idle; echo", scontrol="")
    assert problems() == [("no node is up: idle", True)]


def test_jobs_that_are_forgotten_too_soon_are_a_warning(programs):
    programs(**PROGRAMS, sinfo="echo '2 mix'", scontrol="echo 'MinJobAge = 5 sec'")
    [(what, stops)] = problems()
    assert "MinJobAge forgets jobs after 5 s" in what
    assert not stops


def test_a_profile_that_is_not_there_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["run", "--on", "slrm"]) != 0
    assert "no profile named 'slrm'" in capsys.readouterr().err


def test_a_profile_of_the_user_s_own_counts_and_needs_no_slurm(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "profiles/mine").mkdir(parents=True)
    (tmp_path / "profiles/mine/config.yaml").write_text("executor: lsf\n")
    found = cluster.options("mine", 3)
    assert found == ["--profile", str(tmp_path / "profiles/mine"), "--local-cores", "3"]
