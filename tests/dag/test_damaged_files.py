"""Whatever is damaged below results/, a plan is made, and says what has to be made again."""

import contextlib
import itertools
import json
import re
import shutil
from pathlib import Path

import pytest

from profkit.core.errors import ProfkitError
from profkit.dag import inputs as dags
from profkit.dag.failures import damages, failures
from profkit.dag.overrides import last_overrides
from profkit.dag.staleness import Staleness, Wildcards
from tests.core.test_job_record import DAMAGES, flipped

FILES = {
    "last": "results/.profkit/last.json",
    "plan": "results/.profkit/plans/*.cache",
    "selection": "results/.profkit/selections/*.json",
    "report": "results/report.json",
    "comparison": "results/selection/analyze/comparison.json",
    "manifest": "results/runs/*/manifest.json",
    "capture": "results/runs/*/capture/torch_profiler/rep0/capture.json",
    "conversion": "results/runs/*/tables/torch_profiler/convert.json",
    "table": "results/runs/*/tables/torch_profiler/cpu_ops.parquet",
    "analysis": "results/runs/*/analyze/steps.json",
    "timeline": "results/runs/*/timeline/torch_profiler.json",
    "trace": "results/runs/*/timeline/torch_profiler.trace.json.gz",
}
REBUILT = ("last", "plan", "selection")
"""What planning itself makes again; the other files are stale."""


@pytest.fixture(scope="module")
def folder(default_tree, tmp_path_factory):
    """Return a copy of the results of the default tree."""
    folder = tmp_path_factory.mktemp("tree")
    shutil.copytree(default_tree.folder / "results", folder / "results")
    shutil.rmtree(folder / "results/.profkit/plans")  # of the code at another place
    return folder


@pytest.fixture(scope="module")
def words(default_tree):
    """Return the overrides that the tree was made of."""
    return default_tree.overrides.split()


@pytest.fixture(scope="module")
def before(folder, words):
    """Return the attempt of each job of the whole tree."""
    with contextlib.chdir(folder):
        return numbers(dags.load(words))


@pytest.fixture
def damaged(folder, monkeypatch):
    """Return a function that changes the only file of a pattern; it is whole again afterwards."""
    monkeypatch.chdir(folder)
    kept = {}

    def damage(pattern, change):
        (path,) = folder.glob(pattern)
        kept[path] = path.read_bytes()
        path.write_bytes(change(kept[path]))
        return path

    yield damage
    for path, content in kept.items():
        path.write_bytes(content)


def numbers(dag):
    """Return the attempt of each job, as the rules ask for it."""
    (run,) = dag.plan.runs
    of_run = Wildcards(run.name)
    return {
        "capture": [dag.attempt(tool, 0)(of_run) for tool in run.tools],
        "conversion": [dag.conversion_attempt(tool)(of_run) for tool in run.tools],
        "timeline": dag.timeline_attempt("torch_profiler")(of_run),
        "analysis": [dag.analysis_attempt(name)(of_run) for name in run.analyses],
        "comparison": [dag.analysis_attempt(name)(Wildcards("")) for name in run.comparisons],
        "manifest": dag.manifest_attempt(of_run),
        "report": dag.report_attempt(),
    }


@pytest.mark.parametrize(("what", "how"), [*zip(FILES, itertools.cycle(DAMAGES), strict=False)])
def test_a_damaged_file_is_known_to_all_who_ask(damaged, before, words, what, how):
    path = damaged(FILES[what], DAMAGES[how])
    if what == "last":
        with pytest.raises(ProfkitError, match="is damaged"):
            last_overrides()
    dag = dags.load(words)
    assert dag.plan.runs[0].tools
    assert Path(dag.selection()).read_bytes().startswith(b"{")
    reasons = Staleness(dag).report()
    assert bool(reasons) == (what not in REBUILT), reasons
    changed = [kind for kind, found in numbers(dag).items() if found != before[kind]]
    assert changed == {"table": ["conversion"], "trace": ["timeline"]}.get(
        what, [] if what in REBUILT else [what]
    )
    assert bool([*failures(dag), *damages(dag)]) == (
        what in ("capture", "conversion", "table", "analysis", "comparison", "timeline", "trace")
    )
    assert last_overrides() == tuple(words)
    assert path.is_file()


RECORDS = [
    *("report", "comparison", "manifest", "capture", "conversion", "analysis", "timeline"),
]


@pytest.mark.parametrize("what", RECORDS)
def test_a_flipped_bit_that_leaves_valid_json_is_known(damaged, before, words, what):
    def digit_flipped(content):
        (*_, at) = (match.start() for match in re.finditer(rb"\d", content))
        return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]

    path = damaged(FILES[what], digit_flipped)
    json.loads(path.read_bytes())
    dag = dags.load(words)
    assert [kind for kind, found in numbers(dag).items() if found != before[kind]] == [what]
    assert Staleness(dag).report()


def test_a_flipped_bit_in_the_cache_of_plans_changes_no_plan(damaged, words):
    plan = dags.load(words).plan
    damaged(FILES["plan"], flipped)
    assert dags.load(words).plan == plan
