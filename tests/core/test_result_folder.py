"""Whose folder ``results`` is."""

import pytest

from profkit.core import result_folder
from profkit.core.errors import InputError


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "results"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("name", ["report.html", "report.md", "report.json"])
def test_files_of_somebody_else_are_not_replaced(results, name):
    (results / name).write_text("mine")
    with pytest.raises(InputError) as raised:
        result_folder.prepare()
    assert str(raised.value).startswith(f"results/{name}: not written by profkit")
    assert not (results / ".gitignore").exists()


def test_a_report_without_what_is_hidden_beside_it_is_profkits_own(results):
    (results / "report.md").write_text("Made by profkit 0.1.0")
    (results / "table.csv").write_text("mine")
    result_folder.prepare()
    assert (results / ".gitignore").exists()
    (results / ".profkit").mkdir()
    (results / "report.md").write_text("changed since")
    result_folder.prepare()
