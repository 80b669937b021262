"""The command ``profkit profile``."""

import os
import shlex
import signal

import pytest

from profkit.cli import main, profile
from profkit.cli.profile import overrides
from profkit.core.errors import ConfigError
from profkit.planning.cache import load

COMMAND = ("python", "train.py", "--name=a b,c")


@pytest.fixture
def plan(tmp_path, monkeypatch):
    """Return a function that plans a profile of a command in a folder with nothing else."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()

    def planned(*given, words=COMMAND, is_whole=False, is_thorough=False):
        return load(overrides(given, words, is_whole=is_whole, is_thorough=is_thorough))

    return planned


def test_a_command_is_profiled_once_with_one_tool_and_ended_early(plan):
    made = plan()
    (run,) = made.runs
    assert list(run.tools) == ["baseline", "torch_profiler"]
    assert made.run_settings.repeats == 1
    assert run.behaviour["workload"]["command"] == "python train.py '--name=a b,c'"
    assert run.behaviour["workload"]["stop_after"] == 20
    assert run.behaviour["workload"]["stop_after_s"] == 2.0
    assert run.behaviour["world_size"] == 1
    assert run.name.startswith("train-")


def test_thorough_means_all_default_tools_and_repeats_of_the_same_run(plan):
    made = plan(is_thorough=True)
    assert made.runs[0].name == plan().runs[0].name
    assert set(made.runs[0].tools) > {"baseline", "torch_profiler", "memory_snapshot"}
    assert made.run_settings.repeats == 3


def test_what_is_given_goes_before_the_defaults(plan):
    made = plan("+tool=py_spy", "repeats=2", "workload.stop_after=9")
    assert list(made.runs[0].tools) == ["baseline", "torch_profiler", "py_spy"]
    assert made.run_settings.repeats == 2
    assert made.runs[0].behaviour["workload"]["stop_after"] == 9
    assert "stop_after_s" not in made.runs[0].behaviour["workload"]
    assert plan(is_whole=True).runs[0].behaviour["workload"]["stop_after"] is None


@pytest.mark.parametrize("swept", ["batch=2,4", "model=a,b", "+seed=range(0,3)"])
def test_a_sweep_of_what_the_command_does_not_read_is_refused(capsys, swept):
    assert main(["profile", swept, "--", "python", "x.py"]) == 1
    said = capsys.readouterr().err
    assert "all of these runs would be the same" in said
    assert "write '${" in said


def test_a_sweep_puts_its_values_into_the_command_and_into_the_names(plan):
    words = ("python", "-m", "torch.distributed.run", "--nproc-per-node=2", "x.py", "${batch}")
    made = plan("batch=2,4", words=words)
    commands = [run.behaviour["workload"]["command"] for run in made.runs]
    assert [shlex.split(command)[-1] for command in commands] == ["2", "4"]
    assert ["-b2-" in run.name for run in made.runs] == [True, False]
    assert {run.behaviour["world_size"] for run in made.runs} == {2}


@pytest.mark.parametrize(
    "given", ["workload=train", "workload.command=x.py", "imports=[x]", "launcher.nnodes=2"]
)
def test_another_workload_or_launcher_is_refused(given):
    with pytest.raises(ConfigError, match="the command behind --"):
        overrides([given], COMMAND, is_whole=False, is_thorough=False)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["batch=2", "--"], "batch=2 -- python train.py"),
        (["--all", "batch=2", "python", "x.py", "--lr=1"], "--all batch=2 -- python x.py --lr=1"),
    ],
)
def test_a_command_that_is_missing_or_not_behind_dashes_is_an_error(capsys, typed, meant):
    assert main(["profile", *typed]) == 1
    assert f"profkit profile {meant}\n" in capsys.readouterr().err


def test_what_was_recorded_is_recorded_again_where_a_user_wants_it(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    asked = []
    monkeypatch.setattr(profile.run, "_run_snakemake", lambda *asks: asked.append(asks[1]))
    monkeypatch.setattr(profile.run, "failures", lambda _: [])
    monkeypatch.setattr(profile.run, "_answer", lambda _: ["answer"])
    monkeypatch.setattr(profile.run.completed, "remember", lambda _: None)
    for option in ("--cores=1", "--again"):
        assert main(["profile", option, "--", "python", "train.py"]) == 0
    assert "--forcerun" not in asked[0]
    assert asked[1][-3:] == ["--forcerun", "capture_baseline_rep0", "capture_torch_profiler_rep0"]
    # No job was a capture.
    said = "note: all of this was recorded before; --again records it anew"
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("given", [b"", b"1\n2\n"])
def test_it_is_said_that_what_is_piped_in_is_not_passed_on(monkeypatch, capsys, given):
    reading, writing = os.pipe()
    os.write(writing, given)
    monkeypatch.setattr(profile, "_INPUT", reading)
    monkeypatch.setattr(profile.run, "produce", lambda *_: 0)
    assert main(["profile", "-q", "--", "python", "train.py"]) == 0
    note = "note: what stands in the standard input is not passed on to the program"
    assert capsys.readouterr().err.startswith(note) == bool(given)
    os.close(reading)
    os.close(writing)


def test_a_program_in_the_standard_input_is_refused(capsys):
    assert main(["profile", "--", "python", "-u", "-", "--lr", "1"]) == 1
    assert "write the program to a file" in capsys.readouterr().err


def test_who_interrupts_a_program_hears_how_it_is_ended_by_itself(monkeypatch, capsys):
    def produce(*given):
        given[-1].ended_by = signal.SIGINT
        return 130

    monkeypatch.setattr(profile.run, "produce", produce)
    assert profile.main(["--all", "--", "python", "serve.py"]) == 130
    assert "without --all a program is ended after 20 steps" in capsys.readouterr().err
    assert profile.main(["--", "python", "serve.py"]) == 130
    assert "without --all" not in capsys.readouterr().err
