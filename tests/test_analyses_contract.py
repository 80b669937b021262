"""What every analysis keeps to, built in or installed by somebody else."""

import functools
import inspect
import re
from dataclasses import MISSING, fields

import msgspec
import pandas as pd
import pytest
import yaml
from pydantic import TypeAdapter

from profkit.analyze import analyses
from profkit.core import registry, resources
from profkit.core.hardware import Hardware
from profkit.core.result import Result
from profkit.tables import schema
from tests.described import described

FOUND = analyses()
PART = Hardware(
    name="x",
    memory_bytes=1,
    memory_bandwidth_bytes_per_s=1e9,
    peak_flops={"fp32": 1e9},
    link_bytes_per_s=1e9,
    processors=1,
)
MODULES = registry.module_names("profkit.analyze")
# Keys of conf/config.yaml that a setting may follow.
FOLLOWED = {"${warmup_steps}": 3}

BUILT_IN = [name for name, module in MODULES.items() if module.startswith("profkit.")]

every = pytest.mark.parametrize("name", FOUND)
built_in = pytest.mark.parametrize("name", BUILT_IN)


def conf(name):
    return (resources.CONF / "analysis" / f"{name}.yaml").read_text()


def inputs(name):
    analysis = FOUND[name]
    results = {other: of_runs(analysis, Result()) for other in read_results(analysis)}
    return given(analysis, schema.frame) | results


def given(analysis, make, runs=("one", "two")):
    """Return the tables that `analysis` reads, as `make` makes them; across runs, of all `runs`."""

    def table(name):
        rows = make(name)
        if not analysis.across:
            return rows
        parts = [rows.assign(run=pd.Categorical([run] * len(rows), runs)) for run in runs]
        return pd.concat(parts, ignore_index=True)

    by_tool = {
        name: dict.fromkeys(("baseline", "other"), table(name)) for name in analysis.tables_by_tool
    }
    known = of_the_run(analysis, runs)
    return {name: table(name) for name in analysis.tables} | by_tool | known


def of_the_run(analysis, runs):
    values = {"hardware": PART, "behaviour": {"batch": 2, "model": {"name": "x"}}}
    return {name: of_runs(analysis, values[name], runs) for name in analysis.of_the_run}


def of_runs(analysis, result, runs=("one", "two")):
    return dict.fromkeys(runs, result) if analysis.across else result


def one_row(table, end_ns=20):
    """Return a table of one row in which everything is known."""
    known = {"rank": 0, "repeat": 0, "start_ns": 10, "end_ns": end_ns, "step": 5, "name": "x"}
    kinds = {"kernels": "compute", "cpu_ops": "operator"}
    row = {key: value for key, value in known.items() if key in schema.TABLES[table].names}
    if "kind" in schema.TABLES[table].names:
        row["kind"] = kinds.get(table, "host")
    return schema.frame(table, [row])


@every
def test_it_is_documented(name):
    first = registry.first_line(MODULES[name])
    assert re.match(r"[A-Z].*: .*\.$", first), first
    summary = FOUND[name].summary
    assert summary.strip().endswith(".")
    assert summary.partition("\n")[0].endswith(".")
    assert FOUND[name].title[0].isupper()


@every
def test_every_setting_has_a_default_and_a_docstring(name):
    config = FOUND[name].config
    said = described(config).get("properties", {})
    for each in fields(config):
        assert each.default is not MISSING or each.default_factory is not MISSING, each.name
        assert said[each.name].get("description"), each.name
    assert config.__doc__


@built_in
def test_its_yaml_spells_out_every_default(name):
    values = {
        key: FOLLOWED[value] if isinstance(value, str) and value.startswith("${") else value
        for key, value in (yaml.safe_load(conf(name)) or {}).items()
    }
    config = FOUND[name].config
    assert list(values) == [each.name for each in fields(config)]
    assert TypeAdapter(config).validate_python(values) == config()


@built_in
def test_its_yaml_says_where_it_goes_and_what_it_tells(name):
    first, second = conf(name).splitlines()[:2]
    assert first == f"# @package analyses.{name}"
    assert re.fullmatch(r"# [A-Z].*\.", second)


@every
def test_it_works_on_empty_tables(name):
    result = FOUND[name].run(**inputs(name), config=FOUND[name].config())
    assert result.abstentions
    assert not result.findings


@pytest.mark.parametrize("name", [name for name, each in FOUND.items() if each.optional])
def test_it_works_without_what_it_can_do_without(name):
    for tables in (inputs(name), full(name)):
        without = tables | dict.fromkeys(FOUND[name].optional)
        result = FOUND[name].run(**without, config=FOUND[name].config())
        assert result.abstentions


@every
def test_columns_that_it_does_not_ask_for_change_nothing(name):
    analysis, tables = FOUND[name], full(name)
    config = analysis.config()
    whole = analysis.run(**tables, config=config)
    for table, chosen in analysis.columns.items():
        tables[table] = tables[table][list(chosen)]
    assert analysis.run(**tables, config=config) == whole


@every
def test_what_it_returns_survives_json(name):
    result = FOUND[name].run(**full(name), config=FOUND[name].config())
    assert msgspec.json.decode(msgspec.json.encode(result), type=Result) == result


@every
def test_what_takes_no_time_at_all_gives_numbers_that_are_some(name):
    tables = full(name, make=functools.partial(one_row, end_ns=10))
    result = FOUND[name].run(**tables, config=FOUND[name].config())
    assert msgspec.json.decode(msgspec.json.encode(result), type=Result) == result


@every
def test_its_tables_and_charts_fit_together(name):
    result = FOUND[name].run(**full(name), config=FOUND[name].config())
    for chart in result.charts:
        columns = set(result.tables[chart.table].columns)
        assert {chart.x, *chart.y} <= columns
        assert not chart.color or chart.color in columns
    for table in result.tables.values():
        assert all(len(row) == len(table.columns) for row in table.rows)
    for finding in result.findings:
        assert finding.message.endswith(".")
        assert finding.metric.partition(".")[0] in FOUND


@every
def test_it_leaves_its_input_as_it_was(name):
    given, before = full(name), full(name)
    FOUND[name].run(**given, config=FOUND[name].config())
    for key, value in given.items():
        frames = value if isinstance(value, dict) else {"": value}
        for tool, frame in frames.items():
            if isinstance(frame, pd.DataFrame):
                other = before[key] if tool == "" else before[key][tool]
                pd.testing.assert_frame_equal(frame, other)


def full(name, runs=("one", "two"), make=one_row):
    analysis = FOUND[name]
    results = {
        other: of_runs(
            analysis, FOUND[other].run(**full(other, make=make), config=FOUND[other].config()), runs
        )
        for other in read_results(analysis)
    }
    return given(analysis, make, runs) | results


def read_results(analysis):
    """Return the analyses whose results `analysis` reads, all of them being there."""
    return (*analysis.results, *analysis.results_if_there)


@pytest.mark.parametrize("name", [name for name, each in FOUND.items() if each.across])
def test_across_runs_it_abstains_if_there_is_one_of_one_rank(name):
    result = FOUND[name].run(**full(name, ["one"]), config=FOUND[name].config())
    assert result.abstentions
    assert not result.findings


def test_parameters_name_tables_or_analyses():
    for name, analysis in FOUND.items():
        assert set(read_results(analysis)) <= set(FOUND), name
        assert not any(FOUND[other].across for other in read_results(analysis)), name
        assert "config" in inspect.signature(analysis.run).parameters
