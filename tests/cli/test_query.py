"""SQL over the tables of all runs."""

import json
import os
from dataclasses import asdict

import pyarrow.parquet as pq
import pytest

from profkit.cli import main
from profkit.cli.query import answer
from profkit.core.checksums import checksum
from profkit.core.errors import InputError
from profkit.core.job_record import NOTHING
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


def test_a_damaged_table_is_named(runs):
    (path,) = runs.glob("two/tables/*/*.parquet")
    record = {"provenance": asdict(NOTHING), "tables": {"steps": asdict(checksum(path))}}
    path.with_name("convert.json").write_text(json.dumps(record))
    for made in (path, path.with_name("convert.json")):
        os.utime(made, (1e9, 1e9))  # what is written now is newer, however coarse the clock
    assert answer("select count(*) from steps", runs)[1] == [(3,)]
    content = bytearray(path.read_bytes())
    content[50] ^= 4
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"two/tables/baseline/steps\.parquet: is damaged"):
        answer("select count(*) from steps", runs)


@pytest.mark.parametrize(("columns", "lines"), [(None, 1), ("40", 5)])
def test_a_long_name_is_one_line_for_another_program(runs, monkeypatch, capsys, columns, lines):
    monkeypatch.chdir(runs.parent.parent)
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns:
        monkeypatch.setenv("COLUMNS", columns)
    assert main(["query", "select repeat('kernel;', 28) as name"]) == 0
    head, *names = capsys.readouterr().out.splitlines()
    assert (head.strip(), len(names)) == ("name", lines)


def test_mistakes_are_named(runs, tmp_path):
    with pytest.raises(InputError, match="tables: steps"):
        answer("select * from stepz", runs)
    with pytest.raises(InputError, match="holds no tables"):
        answer("select 1", tmp_path / "nothing")


@pytest.mark.parametrize(
    ("form", "expected"),
    [("csv", "n\n3\n"), ("json", '{"n": 3}\n'), ("table", "n\n3\n")],
)
def test_the_answer_is_printed(runs, monkeypatch, capsys, form, expected):
    monkeypatch.chdir(runs.parent.parent)
    assert main(["query", "select count(*) as n from steps", "--format", form]) == 0
    assert expected in capsys.readouterr().out


WRITING = "copy (select 1 as rank) to '{table}' (use_tmp_file false)"


@pytest.mark.parametrize(
    "sql",
    [
        "select * from read_text('{other}')",
        "select * from '{other}'",
        "select * from read_csv('https://example.org/x.csv')",
        "select * from glob('/*')",
        "copy steps to '{new}'",
        WRITING,
        f"explain analyze {WRITING}",
        f"select 1; {WRITING}",
        "export database '{new}'",
        "attach '{new}' as other",
        "create table steps_too as select 1",
        "drop view steps",
        "insert into steps values (1)",
        "install httpfs",
        "load httpfs",
        "set enable_external_access = true",
        "reset lock_configuration",
        "pragma enable_profiling",
        "create secret (type s3)",
        "prepare q as select 1",
        "  -- nothing",
        "select * from names",
    ],
)
def test_a_query_can_only_ask_and_the_tables_alone(runs, tmp_path, monkeypatch, sql):
    monkeypatch.chdir(tmp_path)
    table, other, new = next(runs.rglob("*.parquet")), tmp_path / "other.csv", tmp_path / "new"
    other.write_text("a\n1\n")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    quoted = str(table).replace("'", "''")
    with pytest.raises(InputError):
        answer(sql.format(table=quoted, other=other, new=new), runs)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert not new.exists()


@pytest.mark.parametrize(
    "sql",
    [
        "describe steps",
        "summarize steps",
        "show tables",
        "from steps limit 1",
        "with one as (select 1) from one",
        "pivot steps on rank using count(*)",
    ],
)
def test_every_kind_of_question_has_an_answer(runs, sql):
    assert answer(sql, runs)[1]


@pytest.mark.usefixtures("runs")
def test_a_query_that_is_trusted_can_write(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["query", "copy steps to 'steps.csv'"]) == 1
    assert "profkit query --unsafe" in capsys.readouterr().err
    assert main(["query", "copy steps to 'steps.csv'", "--unsafe"]) == 0
    assert (tmp_path / "steps.csv").is_file()


@pytest.mark.parametrize(
    "sql",
    [
        "select count(*) from steps, range(100000000) a, range(100000000) b where a.range % 7 = 8",
        "with recursive t(x) as (select 1 union all select x + 1 from t) select count(*) from t",
    ],
)
def test_a_query_without_an_end_is_ended(runs, sql):
    with pytest.raises(InputError, match=r"no answer after 0\.05 s\n.*--timeout"):
        answer(sql, runs, timeout_s=0.05)


def test_an_answer_of_any_size_is_bounded(runs, monkeypatch):
    monkeypatch.setattr("profkit.cli.query._MAX_ROWS", 100)
    assert len(answer("select * from range(100)", runs)[1]) == 100
    with pytest.raises(InputError, match="more than 100 rows"):
        answer("select * from range(10000000000)", runs)


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf"])
def test_a_timeout_that_is_none_is_refused(capsys, seconds):
    assert main(["query", "select 1", f"--timeout={seconds}"]) == 1
    assert "must be a number of seconds above 0" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["table", "csv", "json"])
def test_names_cannot_steer_the_terminal(runs, monkeypatch, capsys, form):
    monkeypatch.chdir(runs.parent.parent)
    sql = "select 'a' || chr(27) || '[31m' || chr(155) || 'b' as name"
    assert main(["query", "--format", form, sql]) == 0
    printed = capsys.readouterr().out
    assert ("[31m" in printed) == (form == "json"), "which writes it as \\u001b[31m"
    assert all(letter.isprintable() or letter == "\n" for letter in printed)
