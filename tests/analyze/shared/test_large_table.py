"""Large tables as frames: what each column takes, and rows chosen of portions."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from profkit.analyze.shared import large_table
from profkit.analyze.shared.large_table import Gathered, LargeTable

BIG = 1 << 31
TABLE = {
    "op": [0, 1, 2, 3],
    "parent": [-1, 0, 1, BIG],
    "start_ns": [5, 6, 7, 8],
    "tid": [7, 7, 7, 7],
}


@pytest.fixture
def file(tmp_path):
    pq.write_table(pa.table(TABLE), tmp_path / "table.parquet", row_group_size=3)
    with pq.ParquetFile(tmp_path / "table.parquet") as opened:
        yield opened


def test_narrow_columns_have_half_of_the_memory_unless_a_number_is_too_large(file):
    rows = large_table.read(file, range(2), [*TABLE], narrow={"op", "parent", "tid"})
    assert rows.to_dict("list") == TABLE
    assert {name: str(kind) for name, kind in rows.dtypes.items()} == {
        "op": "int32",
        "parent": "int64",
        "start_ns": "int64",
        "tid": "int32",
    }


def test_rows_that_are_chosen_of_portions_are_those_chosen_of_the_whole():
    texts = [["a", "b"], ["c", "b", "a"], ["d"]]
    parts = [
        pd.DataFrame({"text": pd.Categorical(names), "at": np.arange(len(names)), "rank": 0})
        for names in texts
    ]
    rows = LargeTable(lambda: iter(parts)).where(lambda part: (part["text"] != "b").to_numpy())
    assert rows.astype({"text": object}).to_dict("list") == {
        "text": ["a", "c", "a", "d"],
        "at": [0, 0, 2, 0],
        "rank": [0, 0, 0, 0],
    }
    assert rows["rank"].to_numpy().strides == (0,)


def test_a_column_may_be_replaced_as_it_is_kept():
    found = Gathered()
    found.add(pd.DataFrame({"call": [4, 5], "caller": [1, 4]}), slice(1, None), caller=[7, 8])
    assert found.whole().to_dict("list") == {"call": [5], "caller": [8]}
