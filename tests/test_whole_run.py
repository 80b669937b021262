"""The real default, with all its tools and analyses, from the captures to the report."""

import json

import pytest

from profkit.core import result
from profkit.planning import cache as plans
from tests.canary import CANARIES, inside
from tests.conftest import ROOT, SMALL
from tests.page_text import page_text
from tests.quantities import said_of


@pytest.fixture(scope="module")
def tree(default_tree, tmp_path_factory):
    """Return a copy of the project in which all that is on by default was run."""
    return default_tree.copied(tmp_path_factory.mktemp("tree"), SMALL)


def test_all_that_is_on_by_default_is_captured_analysed_and_shown(tree, monkeypatch):
    monkeypatch.chdir(ROOT)
    (run,) = plans.load(tree.overrides.split()).runs
    assert {"baseline", "torch_profiler", "memory_snapshot", "memory_layers"} <= set(run.tools)
    folder = tree.folder / "results/runs" / run.name
    captures = folder.glob("capture/*/rep0/capture.json")
    status = {path.parts[-3]: json.loads(path.read_text())["status"] for path in captures}
    assert status == dict.fromkeys(run.tools, "ok")
    results = {path.stem: path for path in folder.glob("analyze/*.json")}
    assert set(results) == set(run.analyses)
    across = {path.stem: path for path in tree.folder.glob("results/selection/analyze/*.json")}
    assert set(across) == set(run.comparisons)
    page = page_text(tree.folder / "results/report.html")
    for path in (*results.values(), *across.values()):
        assert result.read(path).title in page, path


def test_one_quantity_is_one_number_wherever_it_is_said(tree, monkeypatch):
    monkeypatch.chdir(ROOT)
    (run,) = plans.load(tree.overrides.split()).runs
    said = said_of(tree.folder, run.name)
    wanted = {"step time", "traced step", "profiler overhead", "peak of the allocated memory"}
    assert wanted <= set(said)
    for quantity in wanted:
        assert len(said[quantity]) > 1, quantity
    for quantity, places in said.items():
        assert len(set(places.values())) == 1, (quantity, places)


def test_a_second_run_of_the_default_has_nothing_to_do(tree):
    assert tree.jobs() == []


def test_the_canaries_of_a_whole_run_are_in_no_file_of_its_results(tree):
    files = [path for path in (tree.folder / "results").rglob("*") if path.is_file()]
    names = {path.name for path in files}
    assert {"manifest.json", "config.yaml", "capture.json", "capture.log", "report.html"} <= names
    found = [
        (str(path.relative_to(tree.folder)), name)
        for path in files
        for name, value in CANARIES.items()
        if value.encode() in inside(path)
    ]
    assert found == []
