"""Search of the commit that changed the step time: real repositories, simulated times."""

import subprocess
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from profkit.cli import bisect, main
from profkit.cli.captured_pairs import SideFailedError
from profkit.core.result import Metric

RUNS = ("train-a123456", "train-b123456")
COMMAND = ["--", "python", "train.py"]


def git(*words):
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def commits(tmp_path, monkeypatch):
    """Return the hashes of a repository with commits of which each says its number."""
    folder = tmp_path / "repository" / "work"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    git("init", "--quiet", "..")
    (folder.parent / ".gitignore").write_text("results/\n")
    hashes = []
    for number in range(9):
        (folder / "train.py").write_text(f"{number}\n")
        git("add", "--all", str(folder.parent))
        git("commit", "--quiet", "--message", f"Change {number}")
        hashes.append(git("rev-parse", "HEAD"))
    # What is not committed must not be measured.
    (folder / "train.py").write_text("uncommitted\n")
    return hashes


@pytest.fixture
def pairs(monkeypatch):
    """Return a function that lets commits from a number on be 3 % slower; it counts the pairs."""
    captured = []

    def simulate(changed, broken=()):
        random = np.random.default_rng(0)

        def captured_pairs(sides, most, args, *, least):
            del args, least
            folders = [Path(own[0].partition("=")[2]) for own in (sides.a, sides.b)]
            numbers = [int((folder / "train.py").read_text()) for folder in folders]
            for side, number in zip("ab", numbers, strict=True):
                if number in broken:
                    raise SideFailedError(side, f"{number} is broken")
            captured.append((*numbers, most))
            before, after = (measured(number, most) for number in numbers)
            yield SimpleNamespace(before=before, after=after)

        def measured(number, count):
            level = 103 if number >= changed else 100
            times = level * np.exp(random.normal(0, 0.002, count))
            by_repeat = dict(enumerate(times.tolist()))
            metric = Metric(value=1.0, unit="ns", title="", by_repeat=by_repeat)
            return SimpleNamespace(metrics={"step_time_ns": metric})

        monkeypatch.setattr(bisect, "captured_pairs", captured_pairs)

    runs = [SimpleNamespace(name=name) for name in RUNS]
    monkeypatch.setattr(bisect, "load", lambda _: SimpleNamespace(runs=runs))
    monkeypatch.setattr(bisect._Search, "_why", lambda *_: iter(("because",)))
    simulate.captured = captured
    return simulate


def test_the_commit_is_found_and_nothing_is_left_behind(commits, pairs, capsys):
    pairs(changed=6)
    assert main(["bisect", commits[0], "HEAD", *COMMAND]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == f"8 commits after {commits[0][:10]} (Change 0)"
    assert printed[1].startswith(f"comparison 1: {commits[0][:10]} -> {commits[8][:10]}, +")
    assert f"slower since {commits[6][:10]} (Change 6), with a probability of" in printed[-3]
    assert f"pairs against {commits[5][:10]} (Change 5)" in printed[-2]
    assert printed[-1] == "because"
    assert (5, 6) in {(before, after) for before, after, _ in pairs.captured}
    assert len(git("worktree", "list").splitlines()) == 1
    assert list(Path("results/.profkit/worktrees").iterdir()) == []
    assert git("status", "--short") == "M train.py"


def test_runs_of_a_search_are_listed_when_asked_for(commits, pairs, capsys):
    pairs(changed=6)
    for name in (*RUNS, "mine"):
        Path("results/runs", name).mkdir(parents=True)
    assert main(["bisect", commits[0], "HEAD", *COMMAND]) == 0
    capsys.readouterr()
    assert main(["ls"]) == 0
    _, mine, rest = capsys.readouterr().out.splitlines()
    assert mine.split()[0] == "mine"
    assert rest == "  and 2 runs of profkit bisect: --all"
    assert main(["ls", "--all", "--quiet"]) == 0
    assert {*capsys.readouterr().out.split()} == {*RUNS, "mine"}


def test_what_was_compared_is_kept_and_not_captured_again(commits, pairs, capsys, monkeypatch):
    pairs(changed=3)
    once = bisect.captured_pairs

    def interrupted(*args, **options):
        if len(pairs.captured) == 4:
            raise KeyboardInterrupt
        return once(*args, **options)

    monkeypatch.setattr(bisect, "captured_pairs", interrupted)
    assert main(["bisect", commits[0], commits[8], *COMMAND]) == 130
    before = capsys.readouterr().out.splitlines()
    monkeypatch.setattr(bisect, "captured_pairs", once)
    assert main(["bisect", commits[0], commits[8], *COMMAND]) == 0
    after = capsys.readouterr().out.splitlines()
    assert after[: len(before)] == before
    assert "slower since" in after[-3]
    compared = [one for one in after if one.startswith("comparison")]
    # Each comparison begins with a pair that shows whether the revisions can be run.
    assert len(pairs.captured) == 2 * len(compared)


def test_a_commit_that_cannot_be_run_is_skipped(commits, pairs, capsys):
    pairs(changed=4, broken={4})
    assert main(["bisect", commits[0], commits[8], *COMMAND]) == 0
    printed = capsys.readouterr().out
    assert f"skipped {commits[4][:10]} (Change 4): 4 is broken\n" in printed
    assert f"slower since {commits[5][:10]} (Change 5)" in printed
    assert f"or one of those before it that cannot be run: {commits[4][:10]}\n" in printed


def test_without_a_difference_it_is_not_known(commits, pairs, capsys):
    pairs(changed=99)
    assert main(["bisect", commits[0], commits[8], *COMMAND]) == 3
    assert "no difference is known between the two: " in capsys.readouterr().out


def test_an_end_that_cannot_be_run_is_an_error(commits, pairs, capsys):
    pairs(changed=4, broken={8})
    assert main(["bisect", commits[0], commits[8], *COMMAND]) == 1
    assert f"{commits[8][:10]} (Change 8) cannot be run: 8 is broken" in capsys.readouterr().err


def test_revisions_are_checked_before_anything_runs(commits, capsys):
    for good, bad, said in (
        ("nope", "HEAD", "nope: no such revision"),
        (commits[5], commits[2], "is no ancestor of"),
        ("HEAD", commits[8], "both revisions are the same commit"),
        (commits[0], "HEAD^{tree}", "no such revision"),
        (commits[0], "HEAD; touch x", "no such revision"),
    ):
        assert main(["bisect", good, bad, *COMMAND]) == 1
        assert said in capsys.readouterr().err
    assert main(["bisect", "v1", "v2"]) == 1
    assert "no command is given" in capsys.readouterr().err


def test_outside_of_a_repository_it_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["bisect", "a", "b", *COMMAND]) == 1
    assert "not a git repository" in capsys.readouterr().err
