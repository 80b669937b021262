"""Files of Snakemake: they lie among the results, and nothing that was made is forgotten."""

import logging
import os
import subprocess
from base64 import urlsafe_b64encode
from pathlib import Path
from types import SimpleNamespace

import pytest

from profkit.core import result_folder
from profkit.dag.snakemake_files import FOLDER, bring_over, keep_in_results

OLD = Path(".snakemake")
OURS = ("results/runs/a/manifest.json", "results/report.html", "results/selection/analyze/x.json")
# Beyond 255 letters, a name is spread over folders.
LONG = "results/runs/" + "x" * 300


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()


def recorded(path):
    """Leave a record of `path` in the old folder; return its path below a folder."""
    name = urlsafe_b64encode(path.encode()).decode()
    parts = [name] if len(name) < 255 else ["@" + name[:254], name[254:]]
    record = Path("metadata", *parts)
    (OLD / record).parent.mkdir(parents=True, exist_ok=True)
    (OLD / record).write_text(path)
    return record


def test_records_of_an_earlier_version_are_brought_over_whole():
    records = [recorded(path) for path in (*OURS, LONG)]
    (OLD / "log").mkdir()
    (OLD / "log/earlier.log").touch()
    (OLD / "iocache").mkdir()
    bring_over()
    assert [(FOLDER / record).read_text() for record in records] == [*OURS, LONG]
    assert (FOLDER / "log/earlier.log").is_file()
    assert not OLD.exists()


def test_another_workflow_of_the_folder_keeps_its_own():
    others, ours = recorded("results/plots/a.svg"), recorded(OURS[0])
    (OLD / "log").mkdir()
    (OLD / "log/earlier.log").touch()
    bring_over()
    assert (OLD / others).is_file()
    assert (OLD / "log/earlier.log").is_file()
    assert (FOLDER / ours).is_file()
    assert not (FOLDER / others).exists()


def test_a_log_that_has_begun_is_moved_and_goes_on():
    (OLD / "log").mkdir(parents=True)
    path = (OLD / "log/now.log").absolute()
    handler = logging.FileHandler(path)
    logs = {handler: str(path)}
    keep_in_results(snakemake(), logs)
    handler.emit(logging.makeLogRecord({"msg": "said"}))
    handler.close()
    assert Path(logs[handler]).read_text() == "said\n"
    assert Path(logs[handler]).parent == FOLDER.absolute() / "log"
    assert not OLD.exists()


@pytest.mark.parametrize("meanwhile", [os.rmdir, lambda folder: Path(folder, "b.log").touch()])
def test_another_run_that_begins_at_the_same_instant_harms_none(monkeypatch, meanwhile):
    (OLD / "log").mkdir(parents=True)
    path = (OLD / "log/now.log").absolute()
    logs = {logging.FileHandler(path, delay=True): str(path)}
    path.touch()
    remove = os.rmdir

    def after_the_other(folder):
        meanwhile(folder)
        remove(folder)

    monkeypatch.setattr(os, "rmdir", after_the_other)
    keep_in_results(snakemake(), logs)
    assert (FOLDER / "log/now.log").is_file()
    assert (OLD / "log/b.log").exists() is (meanwhile is not remove)


def snakemake():
    """Return a module with what is replaced in Snakemake's, which takes a second to import."""
    opened = lambda path: path  # noqa: E731
    return SimpleNamespace(FilePersistence=opened, DbPersistence=opened)


def test_a_store_of_records_is_opened_where_they_are():
    workflow = snakemake()
    keep_in_results(workflow, {})
    assert workflow.FilePersistence() == workflow.DbPersistence() == FOLDER.absolute()
    recorded(OURS[0])
    assert workflow.FilePersistence() == OLD.absolute(), "a dry run moves nothing"
    (FOLDER / "metadata").mkdir(parents=True)
    assert workflow.FilePersistence() == FOLDER.absolute()
    elsewhere = Path("elsewhere").absolute()
    assert workflow.FilePersistence(path=elsewhere) == elsewhere


def test_git_passes_by_what_is_written_and_nothing_else():
    result_folder.prepare()
    ignored = Path("results/.gitignore").read_text()
    assert "\n*" not in ignored
    subprocess.run(["git", "init", "--quiet"], check=True)
    for written in ("runs/a", "comparisons/a.json", "bisect/a.json", "report.html", ".gitignore"):
        assert not subprocess.call(["git", "check-ignore", "-q", f"results/{written}"]), written
    for of_the_user in ("baselines/main.json", "mine.csv"):
        assert subprocess.call(["git", "check-ignore", "-q", f"results/{of_the_user}"])
    Path("results/.gitignore").write_text("mine")
    result_folder.prepare()
    assert Path("results/.gitignore").read_text() == "mine"
