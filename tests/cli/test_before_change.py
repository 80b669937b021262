"""Numbers that are kept of a run whose program changes, and what is said of the change."""

import json
import shutil

import pytest

from profkit.cli.before_change import compared_with_before, keep_numbers
from profkit.cli.measured_run import read_baseline
from profkit.cli.profile import overrides
from profkit.cli.run_folders import RUNS, RunFolder
from profkit.dag.inputs import Dag
from profkit.dag.job_notes import notes_on_jobs
from profkit.planning.cache import load
from tests.cli.measured_runs import leave_run


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Return a run of a script that was captured before it became what it is now."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    folder = RunFolder(RUNS / planned().plan.runs[0].name)
    leave_run(tmp_path, folder.name, [100.0], peaks=[200])
    return folder


def planned(*given):
    words = ["python", "train.py"]
    return Dag(load(overrides(given, words, is_whole=False, is_thorough=False)))


def capture_again(run, times):
    shutil.rmtree(run.path)
    leave_run(run.path.parents[2], run.name, times, day=2, script="b")


def test_a_run_whose_program_changed_is_compared_with_what_it_was(run):
    assert not list(compared_with_before(run))
    keep_numbers(planned(), is_again=False)
    capture_again(run, [80.0])
    head, step_time = compared_with_before(run)
    assert (
        head == f"before the change, and now (why: profkit compare before-{run.name} {run.name}):"
    )
    assert step_time.startswith("  step time 100 ms -> 80 ms: -20.0%")


def test_numbers_outlast_a_change_after_which_the_program_failed(run):
    keep_numbers(planned(), is_again=False)
    capture_again(run, [])
    assert not list(compared_with_before(run))
    keep_numbers(planned(), is_again=False)
    assert read_baseline(f"before-{run.name}").metrics["step_time_ns"].value == 100e6


def test_captures_that_are_left_as_they_are_have_no_before(run):
    keep_numbers(planned("capture=keep"), is_again=False)
    assert not list(run.path.parents[1].glob("baselines/*"))


def test_captures_of_the_same_program_have_no_before(run):
    path = run.path / "capture/baseline/rep0/capture.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"sources": []}))
    keep_numbers(planned(), is_again=False)
    assert not list(compared_with_before(run))


def test_what_is_recorded_again_is_compared_with_the_time_before(run):
    keep_numbers(planned("capture=keep"), is_again=True)
    shutil.rmtree(run.path)
    leave_run(run.path.parents[2], run.name, [110.0], day=2)
    head, step_time = compared_with_before(run)
    assert head.startswith("the time before, and now (why:")
    assert step_time.startswith("  step time 100 ms -> 110 ms")


def test_what_stays_as_a_person_ended_the_program_is_compared_with_nothing(run):
    keep_numbers(planned("capture=keep"), is_again=True)
    assert not list(compared_with_before(run))


@pytest.mark.usefixtures("run")
def test_what_a_program_writes_again_is_said_where_it_runs_again():
    of_captures = "the script runs once for each of the 2 captures"
    dag = planned()
    assert [note for note in notes_on_jobs(dag) if note.startswith(of_captures)]
    baseline, profiled = dag.captures_of(dag.plan.runs[0])
    captured = json.loads(baseline.read_text()) | {"sources": []}
    for path in (baseline, profiled):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(captured))
    assert not list(notes_on_jobs(planned()))
    assert next(notes_on_jobs(planned(), is_again=True)).startswith(of_captures)
