"""Runs of many ranks are divided into jobs, and what those leave is made again when it must be."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from profkit.dag.inputs import Dag, load
from profkit.dag.staleness import Wildcards
from tests.conftest import ROOT, Tree, copy_project
from tests.convert.test_main import TRACE


@pytest.fixture
def dag(monkeypatch):
    """Return a function that gives the DAG of a run with so many ranks."""
    monkeypatch.chdir(ROOT)
    plan = load("tool=[torch_profiler]", is_working=False).plan

    def dag(ranks):
        run = replace(plan.runs[0], behaviour=plan.runs[0].behaviour | {"world_size": ranks})
        return Dag(replace(plan, runs=(run,)))

    return dag


def test_a_small_run_is_not_divided(dag):
    whole = dag(128)
    where = Wildcards(whole.plan.runs[0].name)
    assert whole.batches.parts("torch_profiler")(where) == []
    assert whole.batches.maps("operators")(where) == []


def test_a_thousand_ranks_are_a_few_jobs(dag):
    divided = dag(1000)
    run = divided.plan.runs[0]
    where = Wildcards(run.name)
    parts = divided.batches.parts("torch_profiler")(where)
    assert parts[0] == f"results/runs/{run.name}/parts/torch_profiler/0-127"
    assert len(parts) == len(divided.batches.maps("operators")(where)) == 8
    assert divided.batches.ranks(SimpleNamespace(run=run.name, batch="0-127")) == ":128"
    assert divided.batches.ranks(SimpleNamespace(run=run.name, batch="896-999")) == "896:"
    mapped = divided.batches.mapped_analyses()
    jobs = [*run.analyses, *run.comparisons, *parts, *(len(parts) * mapped)]
    assert len(jobs) + 5 <= 60, "with the conversion, manifest, timeline, report"


def test_what_the_harness_alone_records_is_not_divided(dag):
    divided = dag(1000)
    where = Wildcards(divided.plan.runs[0].name)
    assert divided.batches.parts("baseline")(where) == []
    assert divided.batches.maps("kernels")(where) == []
    assert divided.batches.maps("trace_diff")(Wildcards("")) == []


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """Return a project with a report on an imported run of five ranks, in batches of two."""
    folder = tmp_path_factory.mktemp("batches")
    copy_project(folder)
    (folder / "traces").mkdir()
    for rank in range(5):
        (folder / f"traces/rank{rank}.json").write_text(TRACE)
    tree = Tree(folder)
    analyses = "analysis=[operators,kernels]"
    tree.run("profkit", "import", "trace", "traces", "--name", "many", analyses, "ranks_per_job=2")
    (run,) = (folder / "results/runs").iterdir()
    tree.overrides = f"imports=[{run.name}] {analyses} ranks_per_job=2"
    return tree


def test_batches_leave_one_set_of_tables_and_sums_that_are_kept(tree):
    (run,) = (tree.folder / "results/runs").iterdir()
    assert sorted(path.name for path in run.glob("maps/operators/*")) == [
        *("0-1.json", "2-3.json", "4-4.json")
    ]
    assert not [*run.glob("parts/*/*")]
    record = json.loads((run / "analyze/operators.json").read_bytes())
    (note,) = {table["note"].partition(";")[0] for table in record["result"]["tables"].values()}
    assert note == "Sums over 5 ranks and 1 repeat"
    assert tree.jobs() == []


def test_an_edited_reduce_reruns_no_map_and_an_edited_map_both(tree):
    operators, sums = (f"profkit/analyze/{name}.py" for name in ("operators", "_operator_sums"))
    before = tree.edited(operators, "steps = int(", "steps = +int(")
    assert tree.jobs() == ["analyze_operators", "report"]
    why = tree.why("results/report.html")
    assert "operators.json: module profkit.analyze.operators" in why
    assert "maps" not in why
    (tree.folder / operators).write_text(before)
    before = tree.edited(sums, "[len(memory_events)]", "[+len(memory_events)]")
    assert tree.jobs() == ["analyze_operators", "map_operators", "report"]
    assert "maps/operators/4-4.json: module profkit.analyze._op" in tree.why("results/report.html")
    (tree.folder / sums).write_text(before)
    assert tree.jobs() == []


@pytest.mark.parametrize(
    ("setting", "maps"),
    [("max_rows=7", []), ("asynchronous=[x]", ["map_operators"])],
    ids=["reduce", "map"],
)
def test_a_setting_reruns_the_map_if_that_reads_it(tree, setting, maps):
    override = f"analyses.operators.{setting}"
    assert tree.jobs(override) == ["analyze_operators", *maps, "report"]
    assert "setting analyses.operators" in tree.why("results/report.html", override)


@pytest.mark.parametrize("each", [3, 100])
def test_other_batches_convert_again_and_the_reason_says_so(tree, each):
    jobs = tree.jobs(f"ranks_per_job={each}")
    assert "convert_torch_profiler" in jobs
    assert ("convert_torch_profiler_of_ranks" in jobs) == (each == 3)
    why = tree.why("results/report.html", f"ranks_per_job={each}")
    assert "parts/torch_profiler/0-1 was removed" in why


def test_a_map_that_is_damaged_is_made_again(tree):
    (path,) = tree.folder.glob("results/runs/*/maps/operators/2-3.json")
    content = path.read_bytes()
    path.write_bytes(content[:-5])
    try:
        assert tree.jobs() == ["analyze_operators", "map_operators", "report"]
        assert "2-3.json: unreadable: it is damaged" in tree.why("results/report.html")
    finally:
        path.write_bytes(content)
    assert tree.jobs() == []
