"""Tables are built as pyarrow would, but without pandas, which takes longer than a conversion."""

import math
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from profkit.tables import schema

STEPS = {
    "rank": [0, 0],
    "repeat": (0, 0),
    "step": range(2),
    "start_ns": [2**62, -1],
    "end_ns": np.array([2**62 + 1, -1]),
    "samples": [1, 2],
    "peak_memory_bytes": [3, 4],
}


def test_numbers_and_texts_are_those_that_pyarrow_makes():
    table = schema.table("steps", STEPS)
    assert table == pa.table(
        {name: list(values) for name, values in STEPS.items()}, schema=schema.TABLES["steps"]
    )
    names = ["b", "a", "b", "", "Ü"]
    columns = {name: [1] * len(names) for name in schema.TABLES["sampled_stacks"].names}
    stacks = schema.table("sampled_stacks", columns | {"thread": names, "stack": names})
    assert stacks["stack"].combine_chunks() == pa.array(names).dictionary_encode()


@pytest.mark.parametrize("name", schema.TABLES)
def test_a_table_without_rows_has_all_columns(name):
    assert schema.empty(name) == schema.TABLES[name].empty_table()


@pytest.mark.parametrize("name", schema.TABLES)
def test_numbers_and_texts_are_declared_as_never_null_except_floats(name):
    columns = schema.TABLES[name]
    floats = [column.name for column in columns if pa.types.is_floating(column.type)]
    assert [column.name for column in columns if column.nullable] == floats


def test_a_null_where_none_is_declared_is_refused():
    rows = pa.table({**schema.table("steps", STEPS).to_pydict(), "step": [1, None]})
    with pytest.raises(ValueError, match="step"):
        schema.declared("steps", rows)


@pytest.mark.parametrize(
    ("column", "value"),
    [("rank", "zero"), ("rank", 2**40), ("start_ns", 2**70), ("start_ns", [])],
    ids=["text", "too large for its type", "too large for any", "a list"],
)
def test_what_does_not_fit_is_refused_and_not_bent(column, value):
    with pytest.raises((ValueError, TypeError, OverflowError)):
        schema.table("steps", STEPS | {column: [value, 0]})


def test_columns_that_are_left_out_are_unknown():
    known = {"rank": [0, 0], "repeat": [0, 0], "metric": ["a", "b"]}
    columns = schema.table("samples", known).to_pydict()
    assert columns.pop("value") == [pytest.approx(math.nan, nan_ok=True)] * 2
    assert columns == known | {
        "time_ns": [-1, -1],
        "device": ["", ""],
        "kind": ["", ""],
        "unit": ["", ""],
        "step": [-1, -1],
    }


def test_a_column_that_the_table_has_not_is_an_error():
    with pytest.raises(KeyError, match=r"'steps' has no column \['flavour'\]"):
        schema.table("steps", STEPS | {"flavour": [1, 1]})


def test_tables_are_made_without_pandas():
    code = (
        "import sys; from profkit.tables import schema;"
        "[schema.empty(name) for name in schema.TABLES];"
        f"schema.table('steps', {dict(STEPS, end_ns=[1, 2])!r});"
        "schema.strings(['a']); print('pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
