"""Real traces, whole and damaged, from import through every analysis to the report."""

import functools
import json
import random
import warnings
from pathlib import Path

import pytest
import yaml

from profkit.core import fingerprint
from profkit.core.formatting import milliseconds
from profkit.planning.imported_runs import add_run, find, import_kinds
from profkit.report.shown_verdict import shown
from profkit.report.verdict_text import MOST_LINES, lines, step_parts
from tests.convert.torch_profiler import damage
from tests.quantities import read_verdicts, said_of
from tests.stages import report_of

TOOL, KIND = import_kinds()["trace"]
MOST_WORDS, SHOWN = 15, 0.02
EXPERT = Path(__file__).parent / "expected" / "verdicts.md"
LIMITERS = {
    block["file"]: block["limiter"]
    for text in EXPERT.read_text().split("```yaml")[1:]
    for block in [yaml.safe_load(text.partition("```")[0])]
}
"""What limits each real recording, in the words of an expert who looked at the raw data."""

# One of each vintage and each kind of device, all of them small.
SMALL_BYTES = 60_000
HARMED = (
    "hta/amd_trace/mi250_minitoy_train_ROCm6_2_kineto.json.gz",
    "dlrm_8rank_v100/worker3_step_12.1694128201557.pt.trace.json.gz",
)


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """Return an empty result tree; what makes numbers suspect is an error in it."""
    monkeypatch.chdir(tmp_path)
    # What a job hashes once, a process of many jobs would hash as often.
    monkeypatch.setattr(fingerprint, "closure", functools.cache(fingerprint.closure))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        yield tmp_path


def imported(path, name):
    """Return the run that the file at `path`, or all files in it, become."""
    return add_run(find([path], KIND), TOOL, KIND, name=name, command="profkit import")


def notes(tree, run):
    record = json.loads((tree / f"results/runs/{run}/tables/{TOOL}/convert.json").read_bytes())
    return [note["text"] for note in record["notes"]]


def test_traces_of_every_vintage_go_through_all_analyses_to_the_report(real_data, tree):
    small = [
        path
        for path in sorted((real_data / "kineto").rglob("*.json*"))
        if path.stat().st_size <= SMALL_BYTES
    ]
    # One of each folder; benchmarks/every_trace.py takes all of them, which takes minutes.
    paths = list({path.parent: path for path in small}.values())
    runs = [imported(path, f"{number}-{path.stem}") for number, path in enumerate(paths)]
    runs.append(imported(real_data / "kineto/dlrm_8rank_v100", "eight-ranks"))
    page = report_of(f"imports=[{','.join(runs)}]")
    assert all(run in page for run in runs)
    results = [*(tree / "results/runs").glob("*/analyze/*.json")]
    assert {"hta", "critical_path"} <= {path.stem for path in results}
    assert len(results) % len(runs) == 0
    # An analysis that finds nothing says so.
    said = ("findings", "metrics", "abstentions", "verdict", "drawings")
    for path in results:
        found = json.loads(path.read_bytes())["result"]
        assert any(found[key] for key in said), path
    names = [*(str(path.relative_to(real_data)) for path in paths), "kineto/dlrm_8rank_v100"]
    verdicts = read_verdicts(tree / "results/report.json")
    for name, run in zip(names, runs, strict=True):
        check_verdict(verdicts[run], name, page)
        check_causes_of_every_step(tree, run)
        for quantity, places in said_of(tree, run).items():
            assert len(set(places.values())) == 1, (name, quantity, places)


def check_verdict(verdict, name, page):
    """Check that the causes sum to the step, that numbers agree, and what an expert says."""
    tops = [cause for cause in verdict.causes if "." not in cause.id]
    assert sum(cause.ms_per_step for cause in tops) == pytest.approx(verdict.traced_ms, rel=1e-9)
    assert min(cause.ms_per_step for cause in verdict.causes) >= 0
    assert len(lines(verdict)) <= MOST_LINES
    assert "..." not in "".join(lines(verdict)).replace("(...", "").replace("..., ", "")
    assert verdict.limiter == LIMITERS.get(name, verdict.limiter), name
    for part in step_parts(verdict.causes):
        if part.share > SHOWN:
            said = milliseconds(part.ms_per_step)
            assert f"{part.title}\n{part.id}\n{said}" in page
    for text in (shown(verdict).headline, *(action.advice for action in verdict.actions)):
        assert text in page
    assert len(verdict.headline.split()) <= MOST_WORDS


def check_causes_of_every_step(tree, run):
    table = json.loads((tree / f"results/runs/{run}/analyze/causes.json").read_bytes())
    table = table["result"]["tables"].get("by_step", {"columns": (), "rows": ()})
    parts = [
        position
        for position, name in enumerate(table["columns"])
        if name.endswith("_ns") and name != "step_time_ns"
    ]
    for row in table["rows"]:
        times = [row[position] for position in parts]
        assert sum(times) == row[table["columns"].index("step_time_ns")]
        assert min(times) >= 0


def test_damaged_traces_go_through_too_and_are_marked_in_the_report(real_data, tree):
    runs = []
    for name in HARMED:
        text = damage.unpacked((real_data / "kineto" / name).read_bytes())
        for number, way in enumerate(damage.WAYS.values()):
            path = tree / f"{len(runs)}.json"
            path.write_bytes(way(text, random.Random(number)))  # noqa: S311
            runs.append(imported(path, f"damaged-{len(runs)}"))
    page = report_of(f"imports=[{','.join(runs)}]")
    notes_by_run = {run: notes(tree, run) for run in runs}
    # A byte may be of no account.
    assert sum(map(bool, notes_by_run.values())) >= len(runs) - len(HARMED)
    assert all(note in page for run_notes in notes_by_run.values() for note in run_notes)
