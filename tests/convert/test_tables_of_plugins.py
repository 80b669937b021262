"""A table that a converter of another package declares: converted, analysed and queried."""

import json
import os
import subprocess
import sys
import textwrap

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from profkit.convert.base import converter
from profkit.core.errors import PluginError
from profkit.tables.columns import INT, TEXT, WHERE, table
from profkit.tables.schema import TABLES

CONVERTER = '''
    """tickets: how many tickets each line sold."""

    from profkit.convert.base import Converted, converter
    from profkit.tables import schema
    from profkit.tables.columns import FLOAT, INT, TEXT, WHERE, table

    TICKETS = table(
        "Tickets that were sold.",
        *WHERE,
        ("line", TEXT, "Line."),
        ("sold", INT, "How many."),
        ("price", FLOAT, "Price of one."),
    )


    @converter(pattern="rank*.tickets", tables={"tickets": TICKETS})
    def convert(raw, out):
        """Read one file."""
        sold = [len(line) for line in raw.path.read_text().split()]
        columns = {"rank": [raw.rank] * len(sold), "repeat": [raw.repeat] * len(sold), "sold": sold}
        return Converted(tables={"tickets": schema.table("tickets", columns)})
'''

ANALYSIS = '''
    """Sold tickets: how many were sold."""

    from dataclasses import dataclass
    from typing import Annotated

    import pandas as pd

    from profkit.analyze.base import Columns, analysis
    from profkit.core.result import Metric, Result
    from profkit.core.settings import Settings


    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(Settings):
        """Settings."""


    @analysis(title="Sold tickets")
    def analyze(tickets: Annotated[pd.DataFrame, Columns("sold")], config: Config) -> Result:
        """How many tickets were sold."""
        sold = int(tickets["sold"].sum())
        return Result(metrics={"sold": Metric(value=sold, unit="count", title="Sold")})
'''

CAPTURE = {"status": "ok", "repeat": 0, "ranks": ["rank0_dp0_tp0_pp0"]}


def convert(raw, out):
    """Stand where a converter is needed that is never called."""
    raise NotImplementedError(raw, out)


@pytest.fixture
def profkit(tmp_path):
    """Return a function that runs profkit where a package with both plugins is installed."""
    for name, content in (("__init__", ""), ("office", CONVERTER), ("sales", ANALYSIS)):
        path = tmp_path / "thirdparty" / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(content))
    installed = tmp_path / "thirdparty-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: thirdparty\nVersion: 1.0\n")
    points = "[profkit.convert]\noffice = thirdparty.office\n"
    points += "[profkit.analyze]\nsales = thirdparty.sales\n"
    (installed / "entry_points.txt").write_text(points)

    def run(*arguments):
        done = subprocess.run(
            [sys.executable, "-m", "profkit", *map(str, arguments)],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_a_table_of_another_package_is_converted_analysed_and_queried(profkit, tmp_path):
    run = tmp_path / "results/runs/demo"
    capture = run / "capture/office/rep0"
    capture.mkdir(parents=True)
    (capture / "capture.json").write_text(json.dumps(CAPTURE))
    (capture / "rank0_dp0_tp0_pp0.tickets").write_text("aaa a aa")
    tables = run / "tables/office"
    where = ("--captures", capture, "--tables", tables, "--files", run / "convert/office")
    profkit("convert", "office", *where)
    found = pq.read_table(tables / "tickets.parquet")
    assert found["sold"].to_pylist() == [3, 1, 2]
    assert found["line"].to_pylist() == ["", "", ""]

    result = run / "analyze/sales.json"
    files = ("--tables", tables / "tickets.parquet", "--out", result, "--settings", "{}")
    profkit("analyze", "sales", *files)
    assert json.loads(result.read_text())["result"]["metrics"]["sold"]["value"] == 6

    sql = "select sum(sold) as sold, any_value(tool) as tool from tickets"
    assert profkit("query", sql, "--format", "csv").split() == ["sold,tool", "6,office"]


def test_a_table_is_found_only_where_its_package_is_installed():
    assert "tickets" not in TABLES
    with pytest.raises(PluginError, match=r"unknown tables \['tickets'\]"):
        converter("steps", "tickets", pattern="*")(convert)


@pytest.mark.parametrize(
    ("name", "columns", "message"),
    [
        ("steps", table("Other steps.", *WHERE), "'steps' is already taken"),
        ("sold", table("Of no rank.", ("sold", INT, "How many.")), "begin with the columns rank"),
        ("sold", table("Swapped.", *WHERE[::-1], ("line", TEXT, "Line.")), "begin with"),
        ("sold", table("Odd.", *WHERE, ("open", pa.bool_(), "Whether.")), "of known types"),
    ],
)
def test_a_table_that_cannot_be_one_is_an_error_when_it_is_declared(name, columns, message):
    with pytest.raises(PluginError, match=message):
        converter(pattern="*", tables={name: columns})(convert)
