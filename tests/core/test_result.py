"""Results as files."""

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import pandas as pd
import pytest

from profkit.core import result
from profkit.core.errors import InputError
from profkit.core.result import Document, Finding, Metric, Provenance, Result, Severity, Table

SCHEMA = Path(__file__).parents[2] / "docs" / "result.schema.json"
DOCUMENT = Document(
    analysis="a",
    title="A",
    summary="S.",
    result=Result(
        findings=(
            Finding(
                severity=Severity.BAD,
                message="m",
                metric="a.b",
                value=1.5,
                unit="share",
                evidence={"kernel": "k", "calls": 2, "share": 0.5, "in_graph": True},
            ),
        )
    ),
    provenance=Provenance(settings={"x": [1]}, modules={}, packages={}, inputs={}),
)


def test_the_json_schema_in_docs_is_that_of_the_code():
    written = json.loads(SCHEMA.read_text())
    schema = json.loads(msgspec.json.encode(result.json_schema()))
    assert written == schema, "write result.json_schema() to docs/result.schema.json"


def test_a_document_comes_back_as_it_was(tmp_path):
    result.write(tmp_path / "a.json", DOCUMENT)
    assert result.read(tmp_path / "a.json") == DOCUMENT


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a result"),
        (b"[1]", "not a result"),
        (msgspec.json.encode(DOCUMENT).replace(b'"schema_version":1', b'"schema_version":9'), "9"),
    ],
    ids=["empty", "something else", "another version"],
)
def test_a_damaged_document_is_named(tmp_path, content, message):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        result.read(path)


def test_a_table_keeps_plain_values_and_says_what_was_cut():
    rows = pd.DataFrame({"name": ["x", "y"], "time_ns": [1, 2], "share": [0.5, float("nan")]})
    table = result.table(rows, title="t", note="Of all.")
    assert table.rows == (("x", 1, 0.5), ("y", 2, None))
    cut = result.table(rows, title="t", note="Of all.", limit=1, sums=("time_ns", "share", "z"))
    assert (cut.rows, cut.note) == ((("x", 1, 0.5),), "Of all. The first 1 of 2 rows.")
    assert (cut.sums, cut.left_out) == ({"time_ns": 3}, 1)


def test_tables_that_are_not_wanted_are_skipped_and_damage_is_still_seen(tmp_path):
    path = tmp_path / "x.json"
    tables = {name: Table(title=name, columns=("x",), rows=((1,),)) for name in ("a", "b")}
    metrics = {"m": Metric(value=1.5, unit="ms", title="M")}
    whole = replace(DOCUMENT, result=Result(tables=tables, metrics=metrics))
    result.write(path, whole)
    kept = Result(tables={"b": tables["b"]}, metrics=metrics)
    assert result.read(path, ("b", "absent")) == replace(whole, result=kept)
    assert result.read(path, ()).result == Result(metrics=metrics)
    assert result.read(path) == whole
    path.write_text(path.read_text().replace('"a"', '"c"', 1))
    with pytest.raises(InputError, match="is damaged"):
        result.read(path, ("b",))
