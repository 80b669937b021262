"""A selection that was worked off is known to be so until anything behind it changes."""

import json
import os
import shutil
from pathlib import Path

import pytest

from profkit.cli import run as command
from profkit.core import progress_events, resources
from profkit.core.checksums import sha256
from profkit.core.errors import ConfigError
from profkit.dag import completed
from profkit.dag import inputs as dags
from profkit.planning.imported_runs import add_run, find, import_kinds
from profkit.process import parent_watch

TOOL, KIND = import_kinds()["trace"]
TABLE = f"tables/{TOOL}/steps.parquet"


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """Return a folder with an imported run, its script, and a table and a report of it."""
    folder = tmp_path_factory.mktemp("completed")
    (folder / "trace.json").write_text('{"traceEvents": []}')
    (folder / "train.py").write_text("print()")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        name = add_run(find([folder / "trace.json"], KIND), TOOL, KIND, name="t", command="c")
        run = folder / "results/runs" / name
        record = run / f"capture/{TOOL}/rep0/capture.json"
        sources = [{"path": "train.py", "sha256": sha256(folder / "train.py")}]
        made = json.loads(record.read_bytes())
        # Without its checksum, as records of older versions are.
        del made["checksum"]
        record.write_text(json.dumps({**made, "sources": sources}))
        (run / "analyze").mkdir()
        (run / "analyze/steps.json").write_text('{"step_ms": 10}')
        for path in (run / TABLE, run / "logs/a.log", folder / "results/report.html"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("made by profkit")
        dags.load([f"imports=[{name}]"])
    return folder, name


@pytest.fixture
def dag(template, tmp_path, monkeypatch):
    """Return what was remembered, in a copy of the folder."""
    folder, name = template
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    dag = dags.load([f"imports=[{name}]"])
    completed.remember(dag)
    return dag


def run_of(dag):
    return dag.plan.runs[0].name


def test_it_is_unchanged_until_something_changes(dag, tmp_path):
    assert completed.is_unchanged(dag)
    (tmp_path / "results/runs" / run_of(dag) / "logs/a.log").write_text("longer than before")
    assert completed.is_unchanged(dag)


def flip(path):
    """Flip a bit of the last digit, and keep the time of change."""
    when = path.stat().st_mtime_ns
    path.write_bytes(path.read_bytes()[:-2] + b"1}")
    os.utime(path, ns=(when, when))


CHANGES = {
    "a bit of a record flips": lambda run: flip(next(run.glob("capture/*/rep0/capture.json"))),
    "a bit of a result flips": lambda run: flip(run / "analyze/steps.json"),
    "a table is edited": lambda run: (run / TABLE).write_text("other"),
    "a table is touched": lambda run: os.utime(run / TABLE, ns=(1, 1)),
    "a table is gone": lambda run: (run / TABLE).unlink(),
    "a table is added": lambda run: (run / TABLE).with_name("more.parquet").touch(),
    "the run is gone": shutil.rmtree,
    "the report is gone": lambda run: (run.parents[1] / "report.html").unlink(),
    "the script is edited": lambda run: (run.parents[2] / "train.py").write_text("print(1)"),
    "the script is gone": lambda run: (run.parents[2] / "train.py").unlink(),
    "the record is damaged": lambda run: (run.parents[1] / ".profkit/completed.cache").write_text(
        "x"
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_any_change_is_seen(dag, tmp_path, change):
    change(tmp_path / "results/runs" / run_of(dag))
    assert not completed.is_unchanged(dag)


def test_another_plan_is_another_selection(dag):
    assert not completed.is_unchanged(dags.load([*dag.plan.overrides, "report.title=Other"]))


def test_a_script_that_was_edited_during_the_run_is_not_taken_for_the_one_that_ran(dag, tmp_path):
    (tmp_path / "train.py").write_text("print('edited')")
    completed.remember(dag)
    assert not completed.is_unchanged(dag)


def test_where_nothing_has_changed_snakemake_is_not_asked(dag, monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(command, "_run_snakemake", lambda *a: asked.append(a) or 1)
    overrides = [*dag.plan.overrides]
    assert command.main(["--quiet", *overrides]) == 0
    assert capsys.readouterr().out == "results/report.html\n"
    assert asked == []
    command.main([*overrides, "--", "--forceall"])
    command.main(["--verbose", *overrides])
    assert len(asked) == 2
    with pytest.raises(ConfigError, match="imported runs are not recorded"):
        command.main(["--again", *overrides])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--cores 2", True),
        ("-c2 -n results/report.html --config overrides=batch=4", True),
        ("-j 4 -q all --workflow-profile PROFILE", True),
        ("all --cores all --directory . --snakefile Snakefile", True),
        ("-c2 results/runs/a/analyze/steps.json", False),
        ("-c2 results/report.html report", False),
        *((f"-c2 {option}", False) for option in ("--forceall", "-F", "-t", "--unlock", "--dag")),
        *((f"-c2 {option}", False) for option in ("-R report", "--summary", "--report", "--lint")),
        ("-c2 --rerun-triggers code", False),
        ("-c2 --until report", False),
        ("-c2 --executor slurm", False),
        ("-c2 --workflow-profile none", False),
    ],
)
def test_only_what_asks_for_the_report_alone_is_answered_at_once(words, expected, monkeypatch):
    monkeypatch.chdir(resources.PROFILES.parent)
    words = words.replace("PROFILE", str(resources.PROFILE)).split()
    assert completed.is_whole(["bin/snakemake", *words]) == expected
    assert completed.is_whole(["snakemake/__main__.py", *words]) == expected
    assert not completed.is_whole(["a_program_of_its_own.py", *words])
    monkeypatch.setenv(progress_events.VARIABLE, "events.jsonl")
    assert not completed.is_whole(["bin/snakemake", *words])


def test_a_tree_that_a_program_removed_is_worked_off_once_more(dag, monkeypatch):
    started = []

    def snakemake(*arguments):
        started.append(arguments[-1][parent_watch.INVOCATION])
        assert Path(dag.selection(write=False)).is_file()
        shutil.rmtree("results/.profkit")
        return 1

    monkeypatch.setattr(command, "_run_snakemake", snakemake)
    assert command.main(["--verbose", *dag.plan.overrides]) == 1
    first, second = started
    assert first == second
