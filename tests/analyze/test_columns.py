"""Analyses that read some columns of a table, on real traces."""

from typing import Annotated

import pandas as pd
import pyarrow as pa
import pytest

from profkit.analyze import analyses
from profkit.analyze.base import ByToolIfAny, ByToolOrOther, Columns, analysis
from profkit.convert.torch_profiler import trace
from profkit.core.errors import PluginError
from profkit.core.result import Result
from profkit.core.settings import Settings
from profkit.testing.analysis_contract import example, with_columns

CHOOSY = {name: analysis for name, analysis in analyses().items() if analysis.columns}
TRACES = {
    "a language model on two ranks": "llama_2rank_rtx4090/rank?.json.gz",
    "a recommender": "dlrm_8rank_v100/worker[01]_*.json.gz",
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
