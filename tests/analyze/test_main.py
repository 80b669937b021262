import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pandas as pd
import pytest

from profkit.analyze.__main__ import main, result_of
from profkit.analyze.base import Analysis, analysis
from profkit.analyze.shared.read_tables import frame_of_runs
from profkit.core import result
from profkit.core.errors import ConfigError, InputError, PluginError, ProfkitError
from profkit.core.hardware import Hardware
from profkit.core.job_record import NOTHING, JobRecord
from profkit.core.result import Result, table
from profkit.core.settings import Settings
from profkit.tables.loaded_run import LoadedRun
from profkit.testing import ResultTree


def write(run, tool, name, rows):
    return str(ResultTree(run.parents[2], run.name).table(tool, name, rows))


def step(index, duration, rank=0):
    when = {"start_ns": index * 1000, "end_ns": index * 1000 + duration}
    return {"rank": rank, "repeat": 0, "step": index, "samples": 2} | when


@pytest.fixture
def run(tmp_path):
    return tmp_path / "results" / "runs" / "demo"


def test_a_result_is_written_with_what_made_it(run):
    baseline = write(run, "baseline", "steps", [step(0, 50), step(1, 10)])
    tool = write(run, "py_spy", "steps", [step(0, 90), step(1, 20)])
    out = run / "analyze" / "observer_tax.json"
    settings = json.dumps({"skip_first": 1})
    main(["observer_tax", "--settings", settings, "--tables", baseline, tool, "--out", str(out)])
    document = result.read(out)
    assert document.analysis == "observer_tax"
    assert document.result.metrics["py_spy_slowdown_ratio"].value == 2.0
    assert document.provenance.settings == {
        "skip_first": 1,
        "confidence": 0.95,
    }
    assert set(document.provenance.inputs) == {baseline, tool}
    assert "profkit.analyze.observer_tax" in document.provenance.modules


def test_an_analysis_of_results_reads_those_that_are_there(run):
    """The notes of the conversion reach it as well."""
    op = {"rank": 0, "repeat": 0, "op": 0, "parent": -1, "kind": "operator", "tid": 1, "step": 0}
    where = [{**op, "name": "aten::mm", "start_ns": 0, "end_ns": 100}]
    empty = (
        *("kernels", "runtime_calls", "annotations", "python_calls", "collectives", "devices"),
        "hosts",
    )
    tables = [write(run, "torch_profiler", name, []) for name in empty]
    tables.append(write(run, "torch_profiler", "cpu_ops", where))
    tables.append(write(run, "torch_profiler", "steps", [step(0, 100), step(1, 0)]))
    record = JobRecord(provenance=NOTHING, notes=({"file": "x", "text": "3 events were lost."},))
    (Path(tables[0]).parent / "convert.json").write_bytes(msgspec.json.encode(record))
    outs = [str(run / "analyze" / f"{name}.json") for name in ("causes", "verdict")]
    main(["causes", "--settings", '{"skip_first": 0}', "--tables", *tables, "--out", outs[0]])
    main(["verdict", "--results", outs[0], "--out", outs[1]])
    found = result.read(Path(outs[1])).result.verdict
    assert "3 events were lost." in [check.message for check in found.trust if not check.passed]
    assert {cause.id: cause.share for cause in found.causes}["cpu_operators"] == 1.0
    main(["verdict", "--results", "--out", outs[1]])
    assert result.read(Path(outs[1])).result.abstentions


def test_the_first_tool_on_the_command_line_gives_the_table(run):
    kernel = {"rank": 0, "repeat": 0, "device": 0, "kind": "compute", "start_ns": 0}
    first = write(run, "nsys", "kernels", [kernel | {"name": "a", "end_ns": 5}])
    second = write(run, "torch_profiler", "kernels", [kernel | {"name": "b", "end_ns": 5}])
    out = run / "analyze" / "kernels.json"
    main(["kernels", "--tables", first, second, "--out", str(out)])
    assert result.read(out).result.tables["by_name"].rows[0][0] == "a"


@pytest.mark.parametrize(
    ("argv", "error", "message"),
    [
        (["stepz"], ConfigError, "no analysis named 'stepz'"),
        (["steps", "--settings", '{"skip": 1}'], ConfigError, "analyses.steps.skip: no such key"),
        (["steps", "--settings", "["], ConfigError, "--settings is not JSON"),
        (["steps", "--settings", "[]"], ConfigError, "--settings must be a JSON object"),
        (["steps"], InputError, "no file named 'steps' was given"),
        (["steps", "--tables", "x/steps.parquet"], InputError, "no such file"),
    ],
)
def test_mistakes_are_explained(run, argv, error, message):
    with pytest.raises(error, match=message.replace("[", r"\[")):
        main([*argv, "--out", str(run / "analyze" / "steps.json")])


def test_a_damaged_table_is_explained(run):
    path = run / "tables" / "baseline" / "steps.parquet"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"PAR1 not really")
    with pytest.raises(InputError, match="cannot be read"):
        main(["steps", "--tables", str(path), "--out", str(run / "analyze" / "steps.json")])


def leave(status):
    raise SystemExit(status)


@pytest.mark.parametrize(
    ("ending", "error", "message"),
    [
        (lambda: None, PluginError, "the analysis returned NoneType, and no Result"),
        (lambda: {"a": 1}, PluginError, "the analysis returned dict, and no Result"),
        (lambda: leave(0), ProfkitError, r"the job ended itself by sys\.exit\(0\)"),
        (lambda: leave(None), ProfkitError, r"the job ended itself by sys\.exit\(None\)"),
        (lambda: leave(3), SystemExit, "3"),
    ],
)
def test_an_analysis_that_gives_no_result_has_failed(run, monkeypatch, ending, error, message):
    monkeypatch.setattr(Analysis, "run", lambda *_, **__: ending())
    path = write(run, "baseline", "steps", [step(5, 10)])
    out = run / "analyze" / "steps.json"
    with pytest.raises(error, match=message):
        main(["steps", "--tables", path, "--out", str(out)])
    assert not out.exists()


def test_progress_is_reported(run, tmp_path, monkeypatch):
    log = tmp_path / "events"
    monkeypatch.setenv("PROFKIT_EVENTS", str(log))
    path = write(run, "baseline", "steps", [step(5, 10)])
    main(["steps", "--tables", path, "--out", str(run / "analyze" / "steps.json")])
    with pytest.raises(InputError):
        main(["kernels", "--out", str(run / "analyze" / "kernels.json")])
    events = [json.loads(line) for line in log.read_text().splitlines()]
    keys = ("event", "stage", "run", "name")
    assert [tuple(event[key] for key in keys) for event in events] == [
        ("started", "analyze", "demo", "steps"),
        ("finished", "analyze", "demo", "steps"),
        ("started", "analyze", "demo", "kernels"),
        ("failed", "analyze", "demo", "kernels"),
    ]


def test_a_job_imports_one_plugin_and_nothing_heavy(run):
    path = write(run, "baseline", "steps", [step(5, 10)])
    out = run / "analyze" / "steps.json"
    code = (
        "import sys; from profkit.analyze.__main__ import main; main(sys.argv[1:]);"
        "print(*sys.modules)"
    )
    argv = [sys.executable, "-c", code, "steps", "--tables", path, "--out", str(out)]
    done = subprocess.run(argv, check=True, capture_output=True, text=True, env=os.environ)
    loaded = set(done.stdout.split())
    assert not loaded & {"torch", "hydra", "omegaconf", "hta", "snakemake", "matplotlib", "scipy"}
    assert {name for name in loaded if name.startswith("profkit.analyze.")} == {
        "profkit.analyze.__main__",
        "profkit.analyze._steadiness",
        "profkit.analyze.shared.step_times",
        "profkit.analyze.base",
        "profkit.analyze.shared",
        "profkit.analyze.shared.calls_apart",
        "profkit.analyze.shared.mapped_frames",
        "profkit.analyze.shared.paired",
        "profkit.analyze.shared.closed_steps",
        "profkit.analyze.shared.large_table",
        "profkit.analyze.shared.read_tables",
        "profkit.analyze.shared.step_windows",
        "profkit.analyze.shared.uncertainty",
        "profkit.analyze.steps",
    }


def test_tables_of_several_runs_are_one_with_the_runs_in_their_order(tmp_path):
    runs = {name: tmp_path / "results" / "runs" / name for name in "ba"}
    paths = [
        Path(write(runs[name], tool, "kernels", rows))
        for name, tool, rows in (
            ("b", "nsys", []),
            ("a", "nsys", [{"rank": 1, "name": "gemm"}]),
            ("a", "torch_profiler", [{"rank": 0, "name": "copy"}]),
        )
    ]
    frame = frame_of_runs(paths)
    assert list(frame["run"].cat.categories) == ["b", "a"]
    assert frame[["run", "rank", "name"]].to_numpy().tolist() == [["a", 1, "gemm"]]


@analysis(title="Cards", across="runs")
def cards_of_runs(hardware: dict[str, Hardware], config: Settings) -> Result:
    del config
    rows = [{"run": run, "card": card.name} for run, card in hardware.items()]
    return Result(tables={"cards": table(pd.DataFrame(rows), title="Cards")})


def test_each_run_has_the_hardware_of_its_own_tables_which_are_looked_at_once(
    tmp_path, monkeypatch
):
    names = [f"run{number}" for number in range(40)]
    tables = [
        ResultTree(tmp_path, name).table("nsys", "devices", [{"name": "NVIDIA H100 80GB HBM3"}])
        if name == "run7"
        else ResultTree(tmp_path, name).table("nsys", "devices", [])
        for name in names
    ]
    asked, resolve = [], Path.resolve
    monkeypatch.setattr(Path, "resolve", lambda path: asked.append(path) or resolve(path))
    sections = {"hardware": {name: {"name": "auto"} for name in names}}
    found = result_of(cards_of_runs, cards_of_runs.config(), sections, tables, [])
    cards = {str(row["run"]): row["card"] for row in found.tables["cards"].records()}
    assert cards == {**dict.fromkeys(names, "unknown"), "run7": "NVIDIA H100 SXM5 80GB"}
    assert sorted(path for path in asked if path in tables) == sorted(tables)


def test_a_damaged_table_is_named_before_a_number_is_made_of_it(run):
    capture = {"rank0_dp0_tp0_pp0.steps.json": '{"rank": 0, "steps": [[10, 20, 4, 99]]}'}
    tree = ResultTree(run.parents[2])
    tree.capture("baseline", capture)
    tree.convert("baseline")
    table = run / "tables/baseline/steps.parquet"
    content = bytearray(table.read_bytes())
    content[100] ^= 4
    table.write_bytes(content)
    with pytest.raises(InputError, match=r"steps\.parquet: is damaged or was edited"):
        main(["steps", "--tables", str(table), "--out", str(run / "analyze/steps.json")])
    with pytest.raises(InputError, match=r"steps\.parquet: is damaged or was edited"):
        LoadedRun(run).table("steps")
    assert not (run / "analyze").exists()


def test_a_result_that_failed_is_not_read_as_one(run):
    failed = result.Document(
        analysis="steps", title="", summary="", result=result.Result(), provenance=NOTHING,
        status="failed", reason="KeyError: 'x'",
    )  # fmt: skip
    given = str(run / "analyze/steps.json")
    result.write(Path(given), failed)
    with pytest.raises(InputError, match="the analysis steps failed: KeyError: 'x'"):
        LoadedRun(run).result("steps")
