"""What takes room in the results, and its removal."""

import fcntl
import json
import os

import pytest

from profkit.cli import main
from profkit.dag import snakemake_locks
from profkit.dag.overrides import save_selection
from tests.cli.test_run_folders import make_run


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Return a folder with two runs, of which one is in the last selection."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(snakemake_locks, "_locked_files", {})
    for name in ("mine", "other"):
        run = make_run(tmp_path, name, "2026-01-01T10:00:00+00:00", ["ok", "ok"])
        (run / "capture/baseline/rep0/rank0.pickle").write_bytes(b"x" * 3000)
        (run / "capture/baseline/rep0/rank0.steps.json").write_text("{}")
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
    lines = [line.split()[:3] for line in capsys.readouterr().out.splitlines()]
    # Each run has one raw recording that was converted, and a file that is no part of a record.
    assert lines[0] == ["raw", "5.86", "KiB"]
    assert lines[1][0] == "runs"
    assert lines[2] == ["caches", "2", "KiB"]
    assert main(["clean", "raw"]) == 0
    assert everything(folder) == before


@pytest.mark.parametrize(
    ("what", "gone"),
    [
        (["raw"], "rank0.pickle"),
        (["runs"], "results/runs/other/"),
        (["caches"], "p.cache"),
        (["mine"], "results/runs/mine/"),
        (["oth", "caches"], "results/runs/other/"),
    ],
)
def test_what_is_chosen_is_removed_and_nothing_else(folder, what, gone):
    before = everything(folder)
    assert main(["clean", *what, "--yes"]) == 0
    removed = set(before) - set(everything(folder))
    expected = {path for path in before if gone in path}
    expected |= {path for path in before if "caches" in what and "p.cache" in path}
    if what == ["raw"]:
        expected |= {path for path in before if "baseline" in path and "other.json" in path}
    assert removed == expected
    assert removed


def test_a_file_that_lies_elsewhere_as_well_takes_no_room(folder, capsys):
    for run in ("mine", "other"):
        raw = folder / f"results/runs/{run}/capture/baseline/rep0/rank0.pickle"
        os.link(raw, folder / f"{run}.pickle")
    main(["clean", "raw"])
    assert capsys.readouterr().out.split()[:3] == ["raw", "4", "B"]
    main(["clean", "raw", "--yes"])
    assert (folder / "mine.pickle").stat().st_size == 3000


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
