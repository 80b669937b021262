"""The workflow's questions, answered without running Snakemake."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from profkit.core.errors import ConfigError
from profkit.core.run_settings import RunSettings
from profkit.dag import inputs as dags
from profkit.dag.inputs import Dag
from profkit.dag.overrides import check_config
from profkit.dag.selected import command
from profkit.dag.staleness import Staleness
from profkit.planning.model import AnalysisPlan, Pairing, Plan, Run, ToolPlan


def run(name="r", tools=("baseline", "torch_profiler"), comparisons=None):
    return Run(
        name=name,
        behaviour={"batch": 2, "model": {"name": "gpt_tiny"}},
        hardware={},
        tools={tool: {"rate": 1} for tool in tools},
        analyses={"breakdown": {"top": 3}, "steps": {}},
        overrides=("batch=2",),
        comparisons=comparisons or {},
    )


@pytest.fixture
def dag():
    return dag_of(run())


def dag_of(*runs):
    plan = Plan(
        overrides=("batch=2", "repeats=2"),
        runs=runs,
        run_settings=RunSettings(repeats=2, timeout_s=9),
        tools={
            "baseline": ToolPlan(tables=("steps",), code="a", repeats=2),
            "torch_profiler": ToolPlan(tables=("steps", "cpu_ops", "devices"), code="b", repeats=2),
        },
        analyses={
            "breakdown": AnalysisPlan(
                tables=("steps", "cpu_ops"), tables_by_tool=(), results=("steps",), code="c"
            ),
            "peaks": AnalysisPlan(
                tables=("steps", "cpu_ops"),
                tables_by_tool=(),
                results=(),
                code="f",
                run_parameters=("hardware", "behaviour"),
            ),
            "steps": AnalysisPlan(tables=(), tables_by_tool=("steps",), results=(), code="d"),
            "trend": AnalysisPlan(
                tables=("cpu_ops",), tables_by_tool=(), results=("steps",), code="f"
            ),
        },
        report={"title": "t"},
        report_code="e",
        hardware_hash="9f",
    )
    return Dag(plan)


@pytest.fixture
def wildcards():
    return SimpleNamespace(run="r")


def test_an_analysis_reads_all_its_tables_from_one_tool(dag, wildcards):
    assert dag.tables("breakdown")(wildcards) == [
        "results/runs/r/tables/torch_profiler/steps.parquet",
        "results/runs/r/tables/torch_profiler/cpu_ops.parquet",
    ]


def test_a_table_by_tool_comes_from_every_tool(dag, wildcards):
    assert dag.tables("steps")(wildcards) == [
        "results/runs/r/tables/baseline/steps.parquet",
        "results/runs/r/tables/torch_profiler/steps.parquet",
    ]


def test_a_table_of_one_tool_is_an_input_where_that_tool_is_enabled(dag, wildcards):
    rates = AnalysisPlan(
        tables=("steps", "cpu_ops"),
        tables_by_tool=(),
        tables_of_tools=(("baseline", "steps"),),
        results=(),
        code="g",
    )
    traced = dag.tables("breakdown")(wildcards)
    for tools, expected in (
        (("baseline", "torch_profiler"), ["results/runs/r/tables/baseline/steps.parquet"]),
        (("torch_profiler",), []),
    ):
        plan = replace(dag.plan, runs=(run(tools=tools),), analyses={"rates": rates})
        assert Dag(plan).tables("rates")(wildcards) == [*traced, *expected]


def test_results_of_other_analyses_are_inputs(dag, wildcards):
    assert dag.results("breakdown")(wildcards) == ["results/runs/r/analyze/steps.json"]


def test_an_analysis_gets_the_values_of_the_run_that_it_names(dag, wildcards):
    behaviour = '{"batch": 2, "model": {"name": "gpt_tiny"}}'
    flags = ["--hardware", '{"name": "T4"}', "--behaviour", behaviour]
    assert with_hardware(dag, "T4").run_flags("peaks")(wildcards) == flags
    assert dag.run_flags("breakdown")(wildcards) == []


def test_only_hardware_left_to_the_traces_needs_their_devices_and_the_files(dag, wildcards):
    by_name, by_trace = with_hardware(dag, "T4"), with_hardware(dag, "auto")
    folder = "results/runs/r/tables/torch_profiler"
    assert by_trace.tables("peaks")(wildcards) == [
        *by_name.tables("peaks")(wildcards),
        f"{folder}/devices.parquet",
    ]
    assert f"{folder}/devices.parquet" not in by_name.tables("peaks")(wildcards)
    assert by_trace.run_flags("peaks")(wildcards)[1] == '{"name": "auto", "parts": "9f"}'


def with_hardware(dag, name):
    runs = tuple(replace(run, hardware={"name": name}) for run in dag.plan.runs)
    return Dag(replace(dag.plan, runs=runs))


def test_each_repeat_has_a_capture(dag):
    assert dag.captures("baseline") == [
        "results/runs/{run}/capture/baseline/rep0/capture.json",
        "results/runs/{run}/capture/baseline/rep1/capture.json",
    ]


def test_a_capture_has_all_cores_unless_configured_otherwise(dag):
    assert dag.capture_threads("baseline", 4) == 4
    assert dag.capture_threads("baseline", None) == 1


def test_beside_a_capture_that_holds_the_counters_of_gpus_nothing_runs(dag):
    kinds = {
        name: replace(tool, is_alone=name == "baseline") for name, tool in dag.plan.tools.items()
    }
    shared = Dag(replace(dag.plan, run_settings=RunSettings(exclusive=False), tools=kinds))
    assert [shared.capture_threads(name, 4) for name in ("baseline", "torch_profiler")] == [4, 1]


def test_settings_are_the_same_text_for_the_same_content(dag, wildcards):
    assert dag.tool_settings("baseline")(wildcards) == '{"rate": 1}'
    assert dags.as_json({"b": 1, "a": 2}) == dags.as_json({"a": 2, "b": 1})


@pytest.mark.parametrize("text", ['report.title="a b', {"report.title=My": "report"}, [1]])
def test_overrides_that_are_no_words_are_a_mistake(text):
    with pytest.raises(ConfigError, match="overrides: "):
        dags.load(text)


def test_an_unknown_key_of_snakemakes_config_is_a_mistake():
    with pytest.raises(ConfigError, match="did you mean 'overrides'"):
        check_config({"overides": "batch=3"})


def test_the_command_can_be_pasted_into_a_shell():
    assert command(("batch=1,2", "model=glob(*)")) == "profkit run batch=1,2 'model=glob(*)'"


def test_the_selection_is_written_under_the_name_of_its_content(dag, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = dag.selection()
    assert dag.selection() == path
    written = json.loads((tmp_path / path).read_text())
    assert written["runs"][0]["folder"] == "results/runs/r"
    assert written["command"] == "profkit run batch=2 repeats=2"
    assert written["runs"][0]["command"] == "profkit run batch=2 repeats=2"


def test_an_analysis_across_runs_is_one_job_that_reads_those_that_have_what_it_needs(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    compared = {"trend": {"top": 1}}
    first, second = (run(name, ("torch_profiler",), compared) for name in "ab")
    dag = dag_of(first, second, run("c", ("baseline",)))
    nowhere = SimpleNamespace()
    assert dag.folder("trend") == "results/selection"
    assert dag.folder("steps") == "results/runs/{run}"
    assert dag.tables("trend")(nowhere) == [
        "results/runs/a/tables/torch_profiler/cpu_ops.parquet",
        "results/runs/b/tables/torch_profiler/cpu_ops.parquet",
    ]
    assert dag.results("trend")(nowhere) == [
        "results/runs/a/analyze/steps.json",
        "results/runs/b/analyze/steps.json",
    ]
    assert dag.analysis_settings("trend")(nowhere) == '{"top": 1}'
    assert dag.report_inputs()[-1] == "results/selection/analyze/trend.json"
    assert json.loads((tmp_path / dag.selection()).read_text())["across"] == {
        "run": "all runs",
        "folder": "results/selection",
        "analyses": ["trend"],
    }


def test_a_capture_waits_for_the_results_that_its_tool_chooses_by(dag, wildcards):
    choosing = replace(run(), reads={"torch_profiler": ("steps",)})
    waits = dag_of(choosing).reads("torch_profiler")(wildcards)
    assert waits == ["results/runs/r/analyze/steps.json"]
    assert dag.reads("torch_profiler")(wildcards) == []
    given = SimpleNamespace(reads=waits)
    assert dags.read_flags(wildcards, given) == ["--reads", *waits]
    assert dags.read_flags(wildcards, SimpleNamespace(reads=[])) == []


def test_an_analysis_that_others_wait_for_comes_before_those():
    plan = dag_of(run()).plan
    chain = {"last": ("middle", "aside"), "middle": ("first",), "aside": (), "first": ()}
    one = plan.analyses["steps"]
    analyses = {name: replace(one, results=results) for name, results in chain.items()}
    waiting = replace(plan, analyses=analyses)
    assert {name: waiting.waiting_for(name) for name in chain} == {
        "first": 2,
        "middle": 1,
        "aside": 1,
        "last": 0,
    }


def captured_in_order(dag):
    """Return tool, repeat and runs of each rule of captures, in the order of the captures."""
    rules = sorted(dag.capture_rules, key=lambda rule: -rule.priority)
    return [(rule.tool, rule.repeat, rule.runs) for rule in rules]


def test_the_first_baseline_comes_before_the_tools_and_first_repeats_before_second_ones(dag):
    tools = [(tool, repeat) for tool, repeat, _ in captured_in_order(dag)]
    assert tools[0] == ("baseline", 0)
    assert [repeat for _, repeat in tools] == [0, 0, 1, 1]


def test_pairs_are_captured_one_after_the_other_in_the_order_of_the_coin():
    plan = dag_of(run("x"), run("y")).plan
    pairing = Pairing(a="x", b="y", coin=1)
    paired = Dag(replace(plan, pairing=pairing, run_settings=RunSettings(exclusive=False)))
    assert captured_in_order(paired) == [
        (tool, repeat, name)
        for repeat in range(2)
        for tool in ("baseline", "torch_profiler")
        for name in pairing.order(repeat)
    ]
    assert paired.capture_threads("baseline", 4) == 4
    assert len({rule.name for rule in paired.capture_rules}) == 8


def test_a_capture_is_made_again_with_the_other_of_its_pair(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    dag = dag_of(run("x"), run("y"))
    paired = Dag(replace(dag.plan, pairing=Pairing(a="x", b="y", coin=1)))
    for name in ("x", "y"):
        path = dag.capture(name, "baseline", 0)
        path.parent.mkdir(parents=True)
        record = {"tool": "baseline", "attempt": 3, "status": "ok", "reason": ""}
        path.write_text(json.dumps({**record, "settings": {"rate": 1}, "workload": {}}))
    mine = SimpleNamespace(run="x")
    assert paired.attempt("baseline", 0)(mine) == 3
    dag.capture("y", "baseline", 0).unlink()
    assert paired.attempt("baseline", 0)(mine) == 4
    assert dag.attempt("baseline", 0)(mine) == 3
    reasons = Staleness(paired).capture(paired.plan.run("x"), "baseline", 0)
    assert any("is captured together with results/runs/y" in reason for reason in reasons)


def test_saved_results_make_a_history(dag, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert dag.history_inputs() == []
    (tmp_path / "results/baselines").mkdir(parents=True)
    (tmp_path / "results/baselines/main.json").touch()
    steps = "results/runs/r/analyze/steps.json"
    assert dag.history_inputs() == [steps, "results/baselines/main.json"]
    assert "results/selection/analyze/history.json" in dag.report_inputs()
