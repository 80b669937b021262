"""The runs of a result tree: how they are named, listed and described."""

import json
import time

import pytest

from profkit.cli import main
from profkit.cli.run_folders import RUNS, RunFolder, all_runs, last_selected, run_named
from profkit.core.errors import InputError
from profkit.dag.overrides import save_selection


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Return an empty folder, in which the commands are typed."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make_run(folder, name, ended="", statuses=(), step_ns=None, **also):
    """Leave the files of a run that its description is read from."""
    run = folder / "results/runs" / name
    run.mkdir(parents=True)
    for repeat, status in enumerate(statuses):
        record = {"attempt": 1, "status": status, "reason": "", "settings": {}, "workload": {}}
        path = run / f"capture/baseline/rep{repeat}/capture.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({**record, "tool": "baseline", "ended": ended, **also}))
        path.with_name("other.json").write_text("[")
    if step_ns:
        path = run / "analyze/steps.json"
        path.parent.mkdir()
        metric = {"value": step_ns, "unit": "ns", "title": ""}
        path.write_text(json.dumps({"result": {"metrics": {"step_time_ns": metric}}}))
    return run


def test_runs_are_listed_with_what_there_is_of_each(folder, capsys):
    make_run(folder, "old", "2026-01-01T10:00:00+00:00", ["ok"], step_ns=12_500_000)
    make_run(folder, "new", "2026-01-02T10:00:00+00:00", ["ok", "oom", "oom"])
    make_run(folder, "begun")
    make_run(folder, "a-crash", statuses=["ok"], exit_code=1)
    make_run(folder, "a-cut", statuses=["ok"], exit_code=1, interrupted=True)
    make_run(folder, "a-start", statuses=["ok"])
    save_selection(("batch=2",), ["old"])
    assert main(["ls"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["run", "ended", "status", "step", "size"]
    assert lines[1][:-2] == ["new", "2026-01-02", "10:00", "2", "of", "3", "captures:", "oom"]
    assert lines[2][:-2] == ["*", "old", "2026-01-01", "10:00", "ok", "12.5", "ms"]
    assert lines[3][:6] == ["a-crash", "ok,", "but", "exit", "status", "1"]
    assert lines[4][:2] == ["a-cut", "interrupted"]
    assert lines[5][:5] == ["a-start", "ok,", "no", "results", "yet"]
    assert lines[6][:3] == ["begun", "not", "captured"]
    assert main(["ls", "--json"]) == 0
    new, old, *_ = json.loads(capsys.readouterr().out)
    assert (new["run"], new["status"], new["step_time_ns"]) == ("new", "2 of 3 captures: oom", None)
    size_bytes = sum(file.stat().st_size for file in RunFolder(RUNS / "old").files())
    assert old == {
        "run": "old",
        "selected": True,
        "ended": "2026-01-01T10:00:00+00:00",
        "status": "ok",
        "step_time_ns": 12_500_000,
        "size_bytes": size_bytes,
    }
    assert main(["ls", "--quiet"]) == 0
    assert capsys.readouterr().out == "new\nold\na-crash\na-cut\na-start\nbegun\n"


def test_a_folder_without_runs_says_how_to_make_one(capsys):
    assert main(["ls"]) == 0
    assert "profkit profile" in capsys.readouterr().out
    with pytest.raises(InputError, match="no results here"):
        last_selected()


def test_a_run_is_named_in_full_by_a_prefix_or_by_its_folder(folder):
    for name in ("gpt-b2-1f", "gpt-b4-2e", "gpt"):
        make_run(folder, name, statuses=["ok"])
    assert run_named("gpt").name == "gpt"
    assert run_named("gpt-b4").name == "gpt-b4-2e"
    assert run_named("results/runs/gpt-b2-1f/").name == "gpt-b2-1f"
    with pytest.raises(InputError, match=r"2 runs .* begin with 'gpt-'\n.*gpt-b2-1f, gpt-b4-2e"):
        run_named("gpt-")
    with pytest.raises(InputError, match=r"'gpt-b2-2f'\n.*did you mean 'gpt-b2-1f'"):
        run_named("gpt-b2-2f")


def test_the_last_selection_is_its_runs_in_its_order(folder):
    for day, name in enumerate(("a", "b", "c"), start=1):
        make_run(folder, name, f"2026-01-0{day}T10:00:00+00:00", ["ok"])
    assert [run.name for run in last_selected()] == ["c", "b", "a"] == [r.name for r in all_runs()]
    save_selection((), ["a", "gone", "b"])
    assert [run.name for run in last_selected()] == ["a", "b"]
    (folder / "results/.profkit/last_runs.json").write_text("damaged")
    assert len(last_selected()) == 3


def test_the_log_of_a_capture_that_started_nothing_is_that_of_its_job(tmp_path):
    run, record = RunFolder(tmp_path), {"tool": "baseline", "repeat": 1}
    printed = tmp_path / "capture/baseline/rep1/capture.log"
    assert run.log(record) == printed
    job = tmp_path / "logs/capture/baseline.rep1.log"
    job.parent.mkdir(parents=True)
    job.touch()
    assert run.log(record) == job
    printed.parent.mkdir(parents=True)
    printed.touch()
    assert run.log(record) == printed


def test_times_are_those_of_the_clock_on_the_wall(folder, capsys, monkeypatch):
    make_run(folder, "one", "2026-01-01T18:30:59.5+00:00", ["ok"])
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        for command in ("ls", "show"):
            main([command])
            assert "  2026-01-02 03:30" in capsys.readouterr().out
    finally:
        monkeypatch.undo()
        time.tzset()
