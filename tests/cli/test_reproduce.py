"""What ``profkit reproduce`` prints, and a run that it really makes again."""

import copy
import io
import json
import os
import shlex
import subprocess

import pytest

from profkit.cli import main, reproduce
from profkit.cli.reproduce import commands, differences
from profkit.cli.untrusted_manifest import overrides
from profkit.core import secret_store
from tests.conftest import SMALL

DIRTY = {
    "folder": "/home/me/my project",
    "commit": "4f2a9c1d",
    "dirty": True,
    "untracked": ["notes.txt"],
    "diff": "-one\n+two\n",
    "diff_is_cut": False,
    "diff_sha256": "ab",
}
MANIFEST = {
    "run": "r",
    "command": "profkit run batch=4",
    "overrides": ["batch=4", "model=glob(*)"],
    "behaviour": {"batch": 4, "model": {"name": "gpt_tiny"}},
    "tools": {"baseline": {}},
    "hardware": {"name": "auto"},
    "started": "2026-11-21T10:00:00+00:00",
    "cwd": "/home/me/my project",
    "machine": {"hostname": "one", "cpu": "c", "gpus": [{"name": "H100", "uuid": "GPU-1"}]},
    "versions": {"profkit": "0.1.0", "torch": "2.13.0"},
    "packages": {"torch": "2.13.0"},
    "environment": {"NCCL_DEBUG": "INFO", "OMP_NUM_THREADS": ["2", "4"]},
    "script": {},
    "git": {"project": DIRTY},
    "captures": [{"tool": "baseline", "repeat": repeat} for repeat in range(3)],
}


def changed(path, value):
    """Return the manifest with one value replaced."""
    manifest = copy.deepcopy(MANIFEST)
    *parents, last = path.split(".")
    inner = manifest
    for key in parents:
        inner = inner[int(key) if isinstance(inner, list) else key]
    inner[last] = value
    return manifest


def test_a_run_of_a_bisection_has_no_manifest_and_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results/runs/train-1/tables").mkdir(parents=True)
    assert main(["reproduce", "train-1"]) == 1
    said = capsys.readouterr().err
    assert "train-1: the run has no manifest\n  hint: `profkit run` leaves one" in said


def test_a_run_is_found_by_how_its_name_begins(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("train-1", "train-2"):
        path = tmp_path / "results/runs" / name / "manifest.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(MANIFEST | {"run": name}))
    main(["reproduce", "train-2"])
    assert capsys.readouterr().out.count("train-2, captured")
    assert main(["reproduce", "train"]) == 1
    assert "2 runs have names that begin with 'train'" in capsys.readouterr().err
    (tmp_path / "results/runs/train-1/manifest.json").unlink()
    (tmp_path / "results/runs/train-1").rmdir()
    assert main(["reproduce", "tra"]) == 0
    assert "train-2, captured" in capsys.readouterr().out


def test_the_commands_are_a_script_that_makes_the_run_again():
    assert list(commands("r", MANIFEST)) == [
        "# r, captured 2026-11-21T10:00:00 on one",
        "# with profkit 0.1.0, torch 2.13.0",
        "git -C '/home/me/my project' checkout 4f2a9c1d",
        "profkit reproduce r --diff project | git -C '/home/me/my project' apply",
        "# not in the repository: notes.txt",
        "cd '/home/me/my project'",
        "export NCCL_DEBUG=INFO",
        "profkit run batch=4 'model=glob(*)' repeats=3",
    ]


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (
            DIRTY | {"diff_is_cut": True},
            "# project had changes that were not committed; their diff",
        ),
        (DIRTY | {"diff": "+key = '[masked]'"}, "their diff held a secret"),
        ([DIRTY, DIRTY | {"commit": "77ab01fe"}], "at several states: 4f2a9c1d, 77ab01fe"),
    ],
)
def test_a_state_that_cannot_be_made_again_is_said(state, said):
    lines = list(commands("r", changed("git.project", state)))
    assert any(said in line for line in lines)
    assert not any("apply" in line for line in lines)


def test_a_name_with_a_line_break_stays_in_its_comment():
    hostile = changed("machine.hostname", "one\nrm -rf /")
    lines = list(commands("r", hostile))
    assert lines[0] == "# r, captured 2026-11-21T10:00:00 on one rm -rf /"


def test_as_many_repeats_are_asked_for_as_there_were():
    assert overrides(MANIFEST) == ["batch=4", "model=glob(*)", "repeats=3"]


@pytest.mark.parametrize(
    ("word", "selected"),
    [
        ("tool=[memory_layers]", "tool=[baseline,memory_layers]"),
        ("tool=[baseline,memory_layers]", "tool=[baseline,memory_layers]"),
        ("+tool=ncu", "+tool=ncu"),
    ],
)
def test_a_baseline_that_an_analysis_had_asked_for_is_selected_again(word, selected):
    assert overrides(changed("overrides", [word]))[0] == selected


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("behaviour.batch", 8, ("configuration", "behaviour.batch", "4", "8")),
        ("versions.torch", "2.12.0", ("versions", "torch", "2.13.0", "2.12.0")),
        ("packages.new", "1", ("packages", "new", "", "1")),
        ("machine.gpus.0.name", "A100", ("machine", "gpus.0.name", "H100", "A100")),
        ("environment.NCCL_DEBUG", "WARN", ("environment", "NCCL_DEBUG", "INFO", "WARN")),
        ("git.project.commit", "77", ("sources", "project.commit", "4f2a9c1d", "77")),
        ("git.project.diff_sha256", "cd", ("sources", "project.diff_sha256", "ab", "cd")),
        ("script.sha256", "ef", ("sources", "script", "None", "ef")),
    ],
)
def test_what_differs_is_named_with_what_it_was_and_is(path, value, expected):
    assert list(differences(MANIFEST, changed(path, value))) == [expected]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("machine.hostname", "two"),
        ("machine.gpus.0.uuid", "GPU-2"),
        ("started", "now"),
        ("git.project.untracked", []),
        ("captures", []),
    ],
)
def test_what_differs_between_equal_machines_does_not_count(path, value):
    assert list(differences(MANIFEST, changed(path, value))) == []


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        ('{"run": "r', "is damaged"),
        ('{"tools": ' + "[" * 100_000, "is damaged: maximum recursion depth"),
        (json.dumps({"behaviour": {}}), "does not say run, started"),
        (
            json.dumps({"behaviour": {"imported": "trace"}, "command": "profkit import"}),
            "was imported, not captured",
        ),
    ],
)
def test_a_manifest_that_says_too_little_is_a_readable_error(
    manifest, message, tmp_path, monkeypatch, capsys
):
    folder = tmp_path / "results/runs/r"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(manifest)
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "r"]) == 1
    assert message in capsys.readouterr().err


@pytest.fixture
def run_again(tmp_path, monkeypatch, capsys):
    """Return a function that would run a manifest again; it returns what was said and started.

    Somebody is there to be asked only if there is an answer.
    """
    started = []

    def run(command, *, env, **_):
        started.append((command, env))
        return subprocess.CompletedProcess(command, 1)

    def again(manifest, *flags, answer=None):
        (tmp_path / "manifest.json").write_text(json.dumps(manifest))
        terminal = io.StringIO(answer or "")
        terminal.isatty = lambda: answer is not None
        monkeypatch.setattr("sys.stdin", terminal)
        assert main(["reproduce", ".", "--run", *flags]) == 1
        return capsys.readouterr(), started

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reproduce.subprocess, "run", run)
    return again


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("run", "../../elsewhere", "cannot name a folder"),
        ("run", "-rf", "cannot name a folder"),
        ("run", ["r"], "Expected `str`"),
        ("run", "r" * 256, "cannot name a folder"),
        ("environment", {"NCCL_A=B": "1"}, "'NCCL_A=B' cannot name a variable"),
        ("environment", {"NCCL_A\0": "1"}, "cannot name a variable"),
        ("environment", {"NCCL_\x1b[2J": "1"}, "cannot name a variable"),
        ("git", {"\x1b[2J": DIRTY}, "cannot name a repository"),
        ("cwd", "/home/\ud800", "is damaged"),
        ("overrides", ["batch=4", "--"], "'--' is an option"),
        ("overrides", ["--", "--snakefile=evil.smk"], "'--snakefile=evil.smk' is an option"),
        ("overrides", ["-F"], "'-F' is an option"),
        ("overrides", ["batch=4\x1b[2K"], "cannot be shown"),
        ("overrides", ["batch=4", 5], "Expected `str`"),
        ("overrides", "batch=4", "Expected `array`"),
        ("captures", [], "there are none"),
        ("captures", [{"repeat": "9"}], "Expected `int`"),
        ("git.project.commit", "--upload-pack=evil", "is no commit"),
        ("git", {"project": {}}, "required field `folder`"),
        ("git", {"project": [1]}, "Expected `object | null`"),
        ("environment", ["A=1"], "Expected `object`"),
    ],
)
def test_a_manifest_that_profkit_did_not_write_runs_nothing(path, value, said, run_again, tmp_path):
    told, started = run_again(changed(path, value), "--yes")
    assert said in told.err
    assert started == []
    assert [path.name for path in tmp_path.iterdir()] == ["manifest.json"]


def test_only_plain_variables_of_the_allow_list_are_set(run_again):
    plain = {"NCCL_DEBUG": "INFO", "OMP_PLACES": "{0:4}", "NCCL_SOCKET_IFNAME": "^lo"}
    others = {
        **dict.fromkeys(("LD_PRELOAD", "NCCL_NET_PLUGIN", "PYTORCH_NVCC"), "evil"),
        **dict.fromkeys(("CUDA_INJECTION64_PATH", "PYTHONPATH", "PATH", "HF_TOKEN"), "evil"),
        **dict.fromkeys(("TORCH_LOGS_OUT", "TRITON_X"), "/etc/x; curl evil | sh"),
    }
    told, ((_, environment),) = run_again(changed("environment", plain | others), "--yes")
    assert plain.items() <= environment.items()
    assert {name: environment.get(name) for name in others} == {
        name: os.environ.get(name) for name in others
    }
    assert f"not set, as they name code or files: {', '.join(sorted(others))}" in told.out


@pytest.mark.parametrize(
    ("answer", "count", "said"),
    [
        (None, 0, "there is no terminal to ask on"),
        ("\n", 0, "nothing was run"),
        ("no\n", 0, "nothing was run"),
        ("y\n", 1, "the run failed"),
    ],
)
def test_what_is_run_is_shown_and_confirmed(answer, count, said, run_again):
    told, started = run_again(MANIFEST, answer=answer)
    assert "profkit run batch=4 'model=glob(*)' repeats=3" in told.out
    assert said in told.err
    assert len(started) == count


def test_a_secret_is_a_reference_here_and_a_placeholder_elsewhere():
    here, elsewhere = secret_store.reference("hunter2"), "profkit-secret-0123456789abcdef"
    words = [f"workload.command='t.py --api-key {here} --password {elsewhere}'"]
    *_, known, unknown, command = commands("r", changed("overrides", words))
    assert known == f"# {here} stands for a secret, which is known on this machine"
    assert unknown == f"# {elsewhere} stands for a secret, which is to be put in again"
    assert shlex.split(command) == ["profkit", "run", *words, "repeats=3"]


def test_a_manifest_with_a_masked_secret_is_not_run(run_again):
    told, started = run_again(changed("overrides", ["launcher.env.X_TOKEN=[masked]"]), "--yes")
    assert "a secret was masked" in told.err
    assert started == []


def test_a_run_that_is_not_there_names_the_nearest(tmp_path, monkeypatch, capsys):
    (tmp_path / "results/runs/gpt_tiny").mkdir(parents=True)
    (tmp_path / "results/runs/gpt_tiny/manifest.json").write_text(json.dumps(MANIFEST))
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "gpt_tini"]) == 1
    assert "did you mean 'gpt_tiny'" in capsys.readouterr().err


def test_the_diff_of_a_repository_is_printed_alone(tmp_path, monkeypatch, capsys):
    (tmp_path / "manifest.json").write_text(json.dumps(MANIFEST))
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", ".", "--diff", "project"]) == 0
    assert capsys.readouterr().out == DIRTY["diff"]
    assert main(["reproduce", ".", "--diff", "other"]) == 1


def test_a_run_is_made_again_beside_the_first_and_is_the_same(default_tree, tmp_path):
    # Analyses are no part of a run: all that its tools feed are made of the second.
    alone = SMALL.replace("tools.torch_profiler.schedule=early", "tools.memory_layers.steps=[2]")
    chosen = f"{alone} tool=[memory_layers] analysis=[steps]"
    tree = default_tree.copied(tmp_path, chosen)
    tree.snakemake("")
    (folder,) = (tree.folder / "results/runs").glob("*-b2-*")
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    printed = tree.run("profkit", "reproduce", folder.name).stdout
    assert printed.splitlines()[-1].startswith("profkit run world_size=1 launcher=python")
    shell = subprocess.run(["sh", "-n"], input=printed, text=True, check=False)
    assert shell.returncode == 0
    done = tree.run("profkit", "reproduce", folder.name, "--run", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "configuration, versions, machine and sources are as they were" in done.stdout
    made = list(tree.folder.glob(f"results/.profkit/reproduced/{folder.name}/*/results/runs/*"))
    assert [path.name for path in made] == [folder.name]
    assert {path: path.stat().st_mtime_ns for path in before} == before
