"""What ``profkit reproduce`` prints, and a run that it really makes again."""

import copy
import json
import subprocess

import pytest

from profkit.cli import main
from profkit.cli.reproduce import commands, differences, overrides
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
    done = tree.run("profkit", "reproduce", folder.name, "--run")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "configuration, versions, machine and sources are as they were" in done.stdout
    made = list(tree.folder.glob(f"results/.profkit/reproduced/{folder.name}/*/results/runs/*"))
    assert [path.name for path in made] == [folder.name]
    assert {path: path.stat().st_mtime_ns for path in before} == before
