"""What takes room in the results, and its removal."""

import fcntl
import json
import os
import shutil

import pytest

from profkit.cli import main
from profkit.dag import snakemake_locks
from profkit.dag.overrides import save_selection
from tests.cli.test_run_folders import make_run

RAW = ("capture.log", "other.json", "rank0.pickle", "rank0.steps.json")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Return a folder with two runs, of which one is in the last selection."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(snakemake_locks, "_locked_files", {})
    for name in ("mine", "other"):
        run = make_run(tmp_path, name, "2026-01-01T10:00:00+00:00", ["ok", "ok"])
        (run / "capture/baseline/rep0/rank0.pickle").write_bytes(b"x" * 3000)
        (run / "capture/baseline/rep0/rank0.steps.json").write_text("{}")
        path = run / "capture/baseline/rep0/capture.json"
        files = [{"path": name, "size_bytes": 3000} for name in RAW]
        path.write_text(json.dumps({**json.loads(path.read_text()), "files": files}))
        (run / "capture/nsys/rep0").mkdir(parents=True)
        (run / "capture/nsys/rep0/rank0.nsys-rep").write_bytes(b"x" * 500)
        (run / "tables/baseline").mkdir(parents=True)
        record = {"provenance": {"settings": {}, "modules": {}, "packages": {}, "inputs": {}}}
        (run / "tables/baseline/convert.json").write_text(json.dumps(record))
    (tmp_path / "results/.profkit/plans").mkdir(parents=True)
    (tmp_path / "results/.profkit/plans/p.cache").write_bytes(b"x" * 2048)
    save_selection((), ["mine"])
    return tmp_path


def everything(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_what_takes_room_is_listed_and_stays(folder, capsys):
    before = everything(folder)
    assert main(["clean"]) == 0
    lines = capsys.readouterr().out.splitlines()
    # Each run has one raw recording that was converted, of two files that are not kept.
    assert lines[0] == "raw        5.86 KiB  2 recordings that tables were made of, 4 files"
    rep = "capture/baseline/rep0"
    assert lines[1:3] == [f"  results/runs/{name}/{rep}" for name in ("mine", "other")]
    assert lines[3].split()[0] == "runs"
    assert lines[4] == "  results/runs/other"
    assert lines[5].split()[:3] == ["caches", "2", "KiB"]
    assert lines[-1] == "nothing is removed yet: add what to remove, and --yes"
    assert main(["clean", "raw"]) == 0
    assert capsys.readouterr().out.endswith("nothing is removed yet: add --yes\n")
    assert everything(folder) == before


def test_what_profkit_did_not_make_is_named_and_stays(folder, capsys):
    runs = folder / "results/runs"
    (runs / "notes").mkdir()
    (runs / "notes/thesis.txt").write_text("x")
    (runs / "notes/config.yaml").write_text("x")
    (runs / "other/NOTES.txt").write_text("x")
    (folder / "elsewhere/tables").mkdir(parents=True)
    (folder / "elsewhere/tables/a.csv").write_text("x")
    (runs / "link").symlink_to(folder / "elsewhere")
    rep = runs / "mine/capture/baseline/rep0"
    (rep / "NOTES.txt").write_text("x")
    (rep.parent / "rep9").symlink_to(rep)
    assert main(["clean", "runs", "raw", "--yes"]) == 0
    printed = capsys.readouterr().out
    for name in ("link", "notes", "other/NOTES.txt"):
        assert f"    results/runs/{name}\n" in printed
    assert (runs / "link").is_symlink()
    assert {str(path.relative_to(runs)) for path in runs.glob("*/*.*")} == {
        *("notes/thesis.txt", "notes/config.yaml", "other/NOTES.txt"),
    }
    assert (rep / "NOTES.txt").is_file()
    for stranger in ("elsewhere", "notes", "link"):
        assert main(["clean", stranger, "--yes"]) == 1
        assert "profkit did not make this folder" in capsys.readouterr().err
    assert (folder / "elsewhere/tables/a.csv").is_file()


def test_of_many_names_the_first_are_listed_and_the_others_counted(folder, capsys):
    for number in range(12):
        make_run(folder, f"run{number:02}", statuses=["ok"])
    assert main(["clean", "runs"]) == 0
    names = ["other", *(f"run{number:02}" for number in range(7))]
    listed = [f"  results/runs/{name}" for name in names]
    assert capsys.readouterr().out.splitlines()[1:10] == [*listed, "  and 5 more"]


@pytest.mark.parametrize(
    ("what", "gone"),
    [
        (["raw"], "rank0.pickle"),
        (["runs"], "results/runs/other/"),
        (["caches"], "p.cache"),
        (["mine"], "results/runs/mine/"),
        (["other", "caches"], "results/runs/other/"),
        (["results/runs/other"], "results/runs/other/"),
    ],
)
def test_what_is_chosen_is_removed_and_nothing_else(folder, what, gone):
    before = everything(folder)
    assert main(["clean", *what, "--yes"]) == 0
    removed = set(before) - set(everything(folder))
    expected = {path for path in before if gone in path}
    expected |= {path for path in before if "caches" in what and "p.cache" in path}
    if what == ["raw"]:
        expected |= {path for path in before if "baseline/rep0/other.json" in path}
    assert removed == expected
    assert removed


def test_a_file_that_lies_elsewhere_as_well_takes_no_room(folder, capsys):
    for run in ("mine", "other"):
        raw = folder / f"results/runs/{run}/capture/baseline/rep0/rank0.pickle"
        os.link(raw, folder / f"{run}.pickle")
    main(["clean", "raw"])
    assert capsys.readouterr().out.split()[:3] == ["raw", "2", "B"]
    main(["clean", "raw", "--yes"])
    assert (folder / "mine.pickle").stat().st_size == 3000


@pytest.mark.parametrize(("name", "said"), [("oth", "its whole name"), ("", "is empty")])
def test_a_run_is_removed_by_its_whole_name_alone(folder, capsys, name, said):
    """As `profkit clean "$RUN" --yes` would remove the only one where that variable is not set."""
    shutil.rmtree(folder / "results/runs/mine")
    before = everything(folder / "results/runs")
    assert main(["clean", name, "--yes"]) == 1
    assert said in capsys.readouterr().err
    assert everything(folder / "results/runs") == before


def test_nothing_is_removed_while_a_run_works_or_without_a_choice(folder, capsys):
    before = everything(folder / "results/runs")
    assert main(["clean", "--yes"]) == 1
    assert "say what to remove" in capsys.readouterr().err
    lock = folder / "results/.profkit/running.lock"
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert main(["clean", "runs", "--yes"]) == 1
    assert "another run works in this folder" in capsys.readouterr().err
    lock.unlink()
    assert everything(folder / "results/runs") == before


def test_where_the_selection_is_not_known_all_runs_are_in_use(folder, capsys):
    (folder / "results/.profkit/last_runs.json").unlink()
    assert main(["clean", "runs", "--yes"]) == 0
    assert "0 runs not in the last selection" in capsys.readouterr().out
    assert (folder / "results/runs/other").is_dir()
