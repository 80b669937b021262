"""Analyses that read some columns of a table, on real traces."""

from typing import Annotated

import pandas as pd
import pyarrow as pa
import pytest

from profkit.analyze import analyses
from profkit.analyze.__main__ import result_of
from profkit.analyze.base import (
    ByRun,
    ByTool,
    ByToolIfAny,
    ByToolOrOther,
    Columns,
    Mapped,
    ResultTables,
    analysis,
)
from profkit.analyze.shared.large_table import LargeTable
from profkit.convert.torch_profiler import trace
from profkit.core.errors import PluginError
from profkit.core.job_record import NOTHING
from profkit.core.result import Document, Result, Table
from profkit.core.result import write as write_result
from profkit.core.settings import Settings
from profkit.testing.analysis_contract import example, with_columns

MAPPED = [name for name, one in analyses().items() if one.map and not one.across]
CHOOSY = {name: analysis for name, analysis in analyses().items() if analysis.columns}
LARGE = {name: analysis for name, analysis in analyses().items() if analysis.large_tables}
TRACES = {
    "a language model on two ranks": "llama_2rank_rtx4090/rank?.json.gz",
    "a recommender": "dlrm_8rank_v100/worker?_*.json.gz",
    "stacks of Python": "tracelens/h100/Falconsai*.json.gz",
    "operators alone": "hta/distributed_info_unavailable/*.json.gz",
}


@pytest.fixture(scope="module", params=TRACES.values(), ids=TRACES)
def tables(real_data, request):
    """Return the tables of the ranks of one capture."""
    paths = sorted((real_data / "kineto").glob(request.param))
    read = [trace.read(path, rank=rank).tables for rank, path in enumerate(paths)]
    return {
        name: pa.concat_tables(tables[name] for tables in read).unify_dictionaries().to_pandas()
        for name in read[0]
    }


@pytest.mark.parametrize("name", CHOOSY)
def test_columns_that_it_does_not_ask_for_change_nothing(name, tables):
    analysis = CHOOSY[name]
    given = example(analysis)
    given |= {table: tables[table] for table in analysis.tables if table in tables}
    by_tool = [table for table in analysis.tables_by_tool if table in tables]
    given |= {table: {"torch_profiler": tables[table]} for table in by_tool}
    chosen = {
        table: with_columns(given[table], columns) for table, columns in analysis.columns.items()
    }
    config = analysis.config()
    assert analysis.run(**given | chosen, config=config) == analysis.run(**given, config=config)


@pytest.mark.parametrize("name", MAPPED)
def test_ranks_that_are_mapped_one_by_one_give_what_all_together_give(name, tables):
    analysis, config = analyses()[name], analyses()[name].config()
    whole = {table: tables[table] for table in analysis.mapped_tables}
    ranks = tables["cpu_ops"]["rank"].unique()
    of_rank = {
        str(rank): {
            table: rows[rows["rank"] == rank].reset_index(drop=True)
            for table, rows in whole.items()
        }
        for rank in ranks
    }
    mapped = {rank: analysis.map(**rows, config=config) for rank, rows in of_rank.items()}
    assert analysis.run(mapped=mapped, config=config) == analysis.run(**whole, config=config)


@pytest.mark.parametrize("name", LARGE)
def test_what_is_read_in_portions_gives_what_the_whole_table_gives(name, tables):
    analysis = LARGE[name]
    given = example(analysis)
    given |= {table: tables[table] for table in analysis.tables if table in tables}
    by_tool = [table for table in analysis.tables_by_tool if table in tables]
    given |= {table: {"torch_profiler": tables[table]} for table in by_tool}
    portions = {table: in_portions(given[table], 1000) for table in analysis.large_tables}
    config = analysis.config()
    assert analysis.run(**given | portions, config=config) == analysis.run(**given, config=config)


def in_portions(rows, size):
    """Return a table of so many rows at a time, whose texts have categories of their own.

    Or those of each tool.
    """
    if isinstance(rows, dict):
        return {tool: in_portions(of_tool, size) for tool, of_tool in rows.items()}
    parts = [rows[at : at + size].copy() for at in range(0, max(len(rows), 1), size)]
    for part in parts:
        for column in part.select_dtypes("category"):
            part[column] = part[column].cat.remove_unused_categories()
    return LargeTable(lambda: iter(parts))


def test_rows_are_chosen_from_portions_as_from_the_whole():
    names = pd.Categorical(["b", "a", None, "c", "a"])
    rows = pd.DataFrame({"name": names, "number": range(5)})
    found = in_portions(rows, 2).where(lambda part: part["number"].to_numpy() != 1)
    assert found["name"].tolist()[:1] + found["name"].tolist()[2:] == ["b", "c", "a"]
    assert found["name"].isna().tolist() == [False, True, False, False]
    assert found["number"].tolist() == [0, 2, 3, 4]
    whole = LargeTable.of(rows).where(lambda part: part["number"].to_numpy() > 2)
    assert whole["name"].tolist() == ["c", "a"]
    assert whole.index.tolist() == [0, 1]


def test_columns_of_the_tables_of_every_tool_leave_the_rest_of_the_annotation():
    columns = Columns("rank start_ns")

    def analyze(
        config: Settings,
        cpu_ops: Annotated[ByToolIfAny, columns] = None,
        kernels: Annotated[ByToolOrOther, columns] = None,
    ):
        del config, cpu_ops, kernels
        return Result()

    made = analysis(title="Some")(analyze)
    assert made.columns == {"cpu_ops": columns, "kernels": columns}
    assert made.tables_by_tool == made.optional == ("cpu_ops", "kernels")
    assert made.alternatives == ("kernels",)


def test_a_column_that_the_table_does_not_have_is_refused():
    def analyze(cpu_ops: Annotated[pd.DataFrame, Columns("rank length")], config: Settings):
        del cpu_ops, config
        return Result()

    with pytest.raises(PluginError, match="table 'cpu_ops' has no column length"):
        analysis(title="Wrong")(analyze)


def test_a_map_and_what_takes_its_results_belong_together():
    def of_ranks(kernels: pd.DataFrame, config: Settings) -> int:
        del config
        return len(kernels)

    def of_nothing(config: Settings) -> Result:
        del config
        return Result()

    def of_mapped(mapped: Mapped, config: Settings) -> Result:
        del config
        return Result.abstain(str(mapped), "it is a test")

    def of_tools(kernels: ByTool, config: Settings) -> int:
        del config
        return len(kernels)

    for function, given in ((of_nothing, {"mapped_by": of_ranks}), (of_mapped, {})):
        with pytest.raises(PluginError, match="needs both `mapped_by` and the parameter 'mapped'"):
            analysis(title="No analysis", **given)(function)
    with pytest.raises(PluginError, match=r"whose parameter 'kernels' is no pd\.DataFrame"):
        analysis(title="No analysis", mapped_by=of_tools)(of_mapped)
    made = analysis(title="Kernels", mapped_by=of_ranks)(of_mapped)
    assert (made.tables, made.mapped_tables) == (("kernels",), ("kernels",))
    result = made.run(kernels=pd.DataFrame({"rank": [0, 1]}), config=Settings())
    assert result.abstentions[0].what == "{'': 2}"


def test_of_other_results_only_the_tables_that_are_named_are_read(tmp_path):
    tables = {name: Table(title=name, columns=("x",), rows=((1,),)) for name in ("a", "b")}
    document = Document(
        analysis="steps",
        title="",
        summary="",
        result=Result(tables=tables),
        provenance=NOTHING,
    )
    paths = [tmp_path / f"{run}/analyze/steps.json" for run in ("one", "two")]
    for path in paths:
        path.parent.mkdir(parents=True)
        write_result(path, document)

    def named(results: dict[str, Result]) -> Result:
        names = {run: list(result.tables) for run, result in results.items()}
        return Result.abstain(str(names), "it is a test")

    @analysis(title="Part", across="runs")
    def part(steps: Annotated[ByRun, ResultTables("b")], config: Settings) -> Result:
        del config
        return named(steps)

    @analysis(title="If there", across="runs")
    def if_there(steps: Annotated[ByRun | None, ResultTables("")], config: Settings) -> Result:
        del config
        return named(steps or {})

    assert (part.results, if_there.results_if_there) == (("steps",), ("steps",))
    for made, expected in ((part, ["b"]), (if_there, [])):
        result = result_of(made, Settings(), {}, [], paths)
        assert result.abstentions[0].what == str(dict.fromkeys(("one", "two"), expected))
