"""What is printed of jobs that fail, as where a cluster refuses to start one."""

import json
from types import SimpleNamespace

import pytest

from profkit.cli import run
from profkit.dag.inputs import Dag
from profkit.planning.cache import load

REFUSED = (
    "Error in rule convert_baseline:",
    "    message: SLURM sbatch failed. The error message was 'sbatch: error: invalid account'.",
    "    log: {log} (check log file(s) for error details)",
)


def printed(log, capsys, *, works_here=False):
    output = run.SnakemakeOutput()
    for line in REFUSED:
        output.read_line(line.format(log=log))
    run._print_outcome(1, output, [], works_here=works_here)
    return capsys.readouterr().err


def test_a_job_without_a_log_is_told_by_what_snakemake_says(tmp_path, capsys):
    assert "sbatch: error: invalid account" in printed(tmp_path / "never.log", capsys)


def test_a_log_is_enough(tmp_path, capsys):
    log = tmp_path / "job.log"
    log.write_text("disk full\n")
    said = printed(log, capsys)
    assert "disk full" in said
    assert "sbatch" not in said


@pytest.mark.parametrize(
    ("works_here", "words"), [(True, "killed before"), (False, "sbatch: error")]
)
def test_an_empty_log_is_that_of_a_process_that_was_killed_here(
    tmp_path, capsys, works_here, words
):
    log = tmp_path / "job.log"
    log.touch()
    said = printed(log, capsys, works_here=works_here)
    assert words in said
    assert ("sbatch" in said) != works_here


@pytest.mark.parametrize("said", ["[Errno 28] No space left on device", "nothing of that"])
def test_of_a_full_disk_the_cause_comes_first(capsys, said):
    output = run.SnakemakeOutput(last_lines=["a", f"WorkflowError: {said}"])
    run._print_outcome(1, output, ["capture failed: results/r: error"], works_here=True)
    lines = capsys.readouterr().err.splitlines()
    if said == "nothing of that":
        assert lines[:2] == ["  | a", "  | WorkflowError: nothing of that"]
    else:
        assert lines[0] == "profkit: no space is left on the disk"
        assert lines[1].startswith("  hint: make room on that disk")
    assert lines[2:] == ["capture failed: results/r: error"]


@pytest.mark.parametrize(
    ("about", "statuses", "is_told"),
    [
        ({}, ["error", "skipped"], True),
        ({"is_quiet": True}, ["error", "skipped"], False),
        ({"link": None}, ["error", "skipped"], False),
        ({}, ["ok", "error"], False),
    ],
)
def test_why_nothing_was_recorded_of_the_only_run_is_said_once(
    tmp_path, monkeypatch, about, statuses, is_told
):
    monkeypatch.chdir(tmp_path)
    dag = Dag(load(["tool=[nsys]", "repeats=1"]))
    for path, status in zip(dag.captures_of(dag.plan.runs[0]), statuses, strict=False):
        record = {"status": status, "reason": "why", "attempt": 1, "repeat": 0, "settings": {}}
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(record | {"tool": path.parts[-3], "workload": {}}))
    view = SimpleNamespace(**{"link": "of a person", "is_quiet": False} | about)
    assert bool(run._told_by_answer(dag, view)) == is_told
