"""SQL over the tables of all runs."""

import pyarrow.parquet as pq
import pytest

from profkit.cli import main
from profkit.cli.query import answer
from profkit.core.errors import InputError
from profkit.tables import schema


@pytest.fixture
def runs(tmp_path):
    """Two runs with two steps and one step."""
    for run, count in (("it's one", 2), ("two", 1)):
        path = tmp_path / "results/runs" / run / "tables/baseline/steps.parquet"
        path.parent.mkdir(parents=True)
        rows = [{"rank": 0, "step": step, "start_ns": 0, "end_ns": 5} for step in range(count)]
        columns = schema.frame("steps", rows).to_dict("list")
        pq.write_table(schema.table("steps", columns), path)
    return tmp_path / "results/runs"


def test_runs_and_tools_are_columns(runs):
    sql = (
        "select run, tool, count(*) as n, sum(end_ns - start_ns) from steps group by all order by n"
    )
    names, rows = answer(sql, runs)
    assert names[:3] == ["run", "tool", "n"]
    assert rows == [("two", "baseline", 1, 5), ("it's one", "baseline", 2, 10)]


def test_mistakes_are_named(runs, tmp_path):
    with pytest.raises(InputError, match="tables: steps"):
        answer("select * from stepz", runs)
    with pytest.raises(InputError, match="holds no tables"):
        answer("select 1", tmp_path / "nothing")


@pytest.mark.parametrize(
    ("form", "expected"),
    [("csv", "n\r\n3\r\n"), ("json", '{"n": 3}\n'), ("table", "n\n3\n")],
)
def test_the_answer_is_printed(runs, monkeypatch, capsys, form, expected):
    monkeypatch.chdir(runs.parent.parent)
    assert main(["query", "select count(*) as n from steps", "--format", form]) == 0
    assert expected in capsys.readouterr().out
