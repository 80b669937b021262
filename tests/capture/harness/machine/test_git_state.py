"""The git state of what was profiled, on repositories made here."""

import subprocess

import pytest

from profkit.capture.harness.machine import git_state


def git(folder, *command):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    done = subprocess.run(
        ["git", "-C", str(folder), *identity, *command], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Return a repository with one committed script, the folder that profkit is run in."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text("one\ntwo\n")
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "first")
    monkeypatch.chdir(folder)
    return folder


def test_a_clean_work_tree_is_its_commit(project):
    git(project, "remote", "add", "origin", "https://example.org/project.git")
    assert git_state.git_state(project) == {
        "folder": str(project.resolve()),
        "remote": "https://example.org/project.git",
        "branch": "main",
        "commit": git(project, "rev-parse", "HEAD"),
        "dirty": False,
        "untracked": [],
    }


def test_the_project_is_what_ranks_start_in(project):
    git(project, "commit", "--quiet", "--allow-empty", "-m", "second")
    before = git(project, "rev-parse", "HEAD~1")
    git(project, "worktree", "add", "--quiet", "--detach", "../other", before)
    workload = {"workload": {"command": "python train.py"}, "launcher": {"cwd": "../other"}}
    assert git_state.described(workload)["git"]["project"]["commit"] == before
    alone = git_state.described({"workload": {"command": "python train.py"}})
    assert alone["git"]["project"]["commit"] == git(project, "rev-parse", "HEAD")
    named = git_state.described({**workload, "workload": {"command": "train.py"}})
    assert named["script"]["path"] == "../other/train.py"


def test_an_interpreter_in_a_repository_of_its_own_is_not_the_project(project, tmp_path):
    """As those of pyenv are: to go back to that commit would change them."""
    python = project / "bin/python3.11"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\n")
    here = tmp_path / "here"
    here.mkdir()
    (here / "train.py").touch()
    command = {"workload": {"command": f"{python} train.py"}, "launcher": {"cwd": str(here)}}
    about = git_state.described(command)
    assert "project" not in about["git"]
    assert about["script"]["path"] == str(here / "train.py")
    alone = command | {"workload": {"command": f"{python} -c pass"}}
    assert git_state.script(alone) is None


def test_changes_are_kept_as_a_diff_that_git_applies(project):
    (project / "train.py").write_text("one\nthree\n")
    (project / "untracked.py").write_text("")
    state = git_state.git_state(project)
    assert (state["dirty"], state["untracked"], state["diff_is_cut"]) == (
        True,
        ["untracked.py"],
        False,
    )
    (project.parent / "it.diff").write_text(state["diff"])
    git(project, "checkout", "train.py")
    git(project, "apply", "../it.diff")
    assert (project / "train.py").read_text() == "one\nthree\n"


def test_of_a_long_diff_the_beginning_is_kept_with_the_hash_of_all(project):
    (project / "train.py").write_text("".join(f"{index}\n" for index in range(30_000)))
    first = git_state.git_state(project)
    assert (len(first["diff"]), first["diff_is_cut"]) == (64 << 10, True)
    with (project / "train.py").open("a") as file:
        file.write("more\n")
    second = git_state.git_state(project)
    assert second["diff_sha256"] != first["diff_sha256"]


def test_results_are_no_change_of_the_project(project):
    (project / "results").mkdir()
    (project / "results/report.html").write_text("")
    assert git_state.git_state(project)["dirty"] is False


def test_there_is_no_state_without_a_repository_or_a_commit(tmp_path):
    assert git_state.git_state(tmp_path) == {}
    git(tmp_path, "init", "--quiet")
    assert git_state.git_state(tmp_path) == {}


def test_programs_that_a_repository_names_are_not_run(project):
    git(project, "config", "diff.external", "touch ran")
    git(project, "config", "core.fsmonitor", "touch ran")
    (project / "train.py").write_text("changed\n")
    assert "changed" in git_state.git_state(project)["diff"]
    assert not (project / "ran").exists()


def test_a_script_is_described_by_its_content_and_its_own_repository(project, monkeypatch):
    monkeypatch.chdir(project.parent)
    workload = {"workload": {"command": "train.py --lr 1"}, "launcher": {"cwd": "project"}}
    about = git_state.described(workload)
    assert about["cwd"] == str(project.parent)
    assert about["git"]["project"]["commit"] == git(project, "rev-parse", "HEAD")
    assert about["script"]["path"] == "project/train.py"
    assert len(about["script"]["sha256"]) == 64


@pytest.mark.parametrize(
    "settings", [{}, {"workload": {"name": "train"}}, {"workload": {"command": "-m package"}}]
)
def test_a_built_in_program_or_a_module_is_no_script(settings):
    assert git_state.script(settings) is None


def test_profkit_in_an_environment_is_not_of_the_project_around_it(project, monkeypatch):
    installed = project / ".venv/profkit/__init__.py"
    installed.parent.mkdir(parents=True)
    installed.write_text("")
    monkeypatch.setattr(git_state.profkit, "__file__", str(installed))
    assert set(git_state.described({})["git"]) == {"project"}
