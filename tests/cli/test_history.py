"""The history of a run over saved results, in the terminal and as a result of the report."""

import json

import pytest

from profkit.cli import main
from profkit.cli.measured_run import EXPLAINING, MeasuredRun, step_times_ns
from profkit.core import result
from profkit.core.result import Metric
from profkit.core.saved_results import COMPARED
from profkit.core.step_time import step_time_title
from tests.cli.measured_runs import MACHINE, STEADY, leave_run


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Return a folder in which the commands are typed."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def save(folder, name, level, day, **about):
    """Save a baseline of the run `train` on that day."""
    leave_run(folder, name, level * STEADY, day=day, **about)
    (folder / "results/runs/train").mkdir(parents=True, exist_ok=True)
    (folder / "results/runs" / name).rename(folder / "results/runs/train" / name)
    assert main(["baseline", "save", name, f"results/runs/train/{name}"]) == 0
    path = folder / f"results/baselines/{name}.json"
    path.write_text(path.read_text().replace(f'"name": "{name}"', '"name": "train"'))


def saved_series(folder):
    for day in range(1, 15):
        later = day > 9
        save(folder, f"v{day}", 105 if later else 100, day, script="b" if later else "a")


def test_a_change_is_shown_with_what_else_changed(folder, capsys):
    saved_series(folder)
    capsys.readouterr()
    assert main(["history", "train"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("train: 14 results\n")
    assert "  v10  2026-01-10 10:00  105 ms  +5.0%\n" in printed
    assert "step time +5.0% at v10, 100 ms -> 105 ms: sources.train.py aaa" in printed
    assert printed.count("%") == 2
    assert main(["history", "--json"]) == 0
    changes = json.loads(capsys.readouterr().out)["changes"]
    assert [row["result"] for row in changes] == ["v10"]


def test_results_of_other_machines_are_another_series(folder, capsys):
    for day in range(1, 4):
        save(folder, f"v{day}", 100, day)
        save(folder, f"w{day}", 200, day, second=9, machine=MACHINE | {"cpu": "two"})
    assert main(["history"]) == 0
    printed = capsys.readouterr().out
    assert "train, machine 1: 3 results\n" in printed
    assert "no change is known: it takes 6 results" in printed


def test_the_result_for_the_report_has_the_runs_asked_for(folder):
    saved_series(folder)
    leave_run(folder, "other", 100 * STEADY)
    leave_run(folder, "train", 110 * STEADY, day=20)
    runs = ["--made-of", "results/runs/train/analyze/steps.json"]
    assert main(["history", *runs, "--out", "results/selection/analyze/history.json"]) == 0
    document = result.read(folder / "results/selection/analyze/history.json")
    points = document.result.tables["points"].records()
    assert {row["series"] for row in points} == {"train"}
    assert points[-1]["result"] == "(now)"
    assert "results/runs/train/analyze/steps.json" in document.provenance.inputs
    changes = [one for one in document.result.findings if "began" in one.evidence]
    assert [one.evidence["began"][:10] for one in changes] == ["2026-01-10"]


def test_the_newest_result_says_why_it_differs_from_the_one_before(folder):
    save(folder, "before-train", 100, 1, causes={"python": 70 * STEADY, "data": 30 * STEADY})
    causes = {"python": 70 * STEADY, "data": 10 * STEADY}
    leave_run(folder, "train", 80 * STEADY, day=2, script="b", causes=causes)
    made_of = [f"results/runs/train/analyze/{name}.json" for name in ("steps", "causes")]
    assert main(["history", "--made-of", *made_of, "--out", "history.json"]) == 0
    document = result.read(folder / "history.json")
    assert [*document.provenance.inputs] == made_of
    found = document.result
    said = found.findings[0].message
    assert said.startswith("train, since before-train: step time 100 ms to 80 ms, faster, -20.0%")
    [row] = found.tables["newest"].records()
    assert (row["metric"], row["before"], row["now"]) == ("step time", "100 ms", "80 ms")
    bars = {row["id"]: row["difference_ms"] for row in found.tables["bars"].records()}
    assert bars["data"] == pytest.approx(-20, rel=0.01)
    ends = [(row["cause"], row["to_ms"]) for row in found.tables["steps"].records()]
    assert [name for name, _ in ends[:: len(ends) - 1]] == ["before-train", "now"]
    assert ends[-1][1] == pytest.approx(80, rel=0.01)
    assert [chart.kind for chart in found.charts] == ["waterfall", "line"]


def test_a_difference_that_traced_steps_do_not_have_is_not_explained(folder):
    save(folder, "before-train", 100, 1, causes={"python": 70 * STEADY})
    leave_run(folder, "train", 200 * STEADY, day=2, causes={"python": 60 * STEADY})
    made_of = ["results/runs/train/analyze/steps.json"]
    assert main(["history", "--made-of", *made_of, "--out", "history.json"]) == 0
    found = result.read(folder / "history.json").result
    assert [*found.tables] == ["newest", "points"]
    why = {one.what: one.reason for one in found.abstentions}
    assert "traced steps took 70 and 60 ms" in why["why train differs from before-train"]


def test_the_history_reads_every_result_that_a_comparison_does():
    assert {"steps", "energy", *EXPLAINING} == set(COMPARED)


def test_too_few_results_leave_no_empty_table_of_changes(folder, capsys):
    for day in range(1, 4):
        save(folder, f"v{day}", 100, day)
    leave_run(folder, "train", 100 * STEADY, day=20)
    runs = ["--made-of", "results/runs/train/analyze/steps.json"]
    assert main(["history", *runs, "--out", "results/selection/analyze/history.json"]) == 0
    made = result.read(folder / "results/selection/analyze/history.json").result
    assert [*made.tables] == ["newest", "points"]
    assert "it takes 6 results, not 4" in made.abstentions[0].reason
    capsys.readouterr()
    assert main(["history", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["changes"] == []


def test_without_a_saved_result_it_says_how_to_save_one(capsys):
    assert main(["history"]) == 1
    assert "profkit baseline save NAME" in capsys.readouterr().err


def test_a_run_without_step_times_leaves_the_others_their_history(folder):
    saved_series(folder)
    leave_run(folder, "train", [])
    leave_run(folder, "failed", [])
    results = [f"results/runs/{run}/analyze/steps.json" for run in ("train", "failed")]
    runs = ["--made-of", *results]
    assert main(["history", *runs, "--out", "history.json"]) == 0
    points = result.read(folder / "history.json").result.tables["points"].records()
    assert [row["result"] for row in points] == [f"v{day}" for day in range(1, 15)]


def test_of_runs_without_step_times_alone_the_report_says_so(folder):
    saved_series(folder)
    leave_run(folder, "failed", [])
    made_of = ["--made-of", "results/runs/failed/analyze/steps.json"]
    assert main(["history", *made_of, "--out", "history.json"]) == 0
    found = result.read(folder / "history.json").result
    assert (found.charts, found.tables) == ((), {})
    assert [one.reason for one in found.abstentions] == ["no run here has step times"]


@pytest.mark.parametrize(("is_uneven", "times"), [(True, [60.0, 400.0]), (False, [50.0, 60.0])])
def test_the_points_of_a_series_are_of_one_statistic(is_uneven, times):
    """A mean beside a median would look like a change."""

    def run(median, mean, *, uneven=False):
        title = step_time_title("baseline", is_mean=uneven)
        own = {"step_time_ns": mean if uneven else median, "step_time_mean_ns": mean}
        metrics = {name: Metric(value=value, unit="ns", title=title) for name, value in own.items()}
        return MeasuredRun(name="train", began={}, metrics=metrics, facts={})

    later = run(60.0, 400.0, uneven=True) if is_uneven else run(60.0, 62.0)
    assert step_times_ns([run(50.0, 60.0), later]) == times
