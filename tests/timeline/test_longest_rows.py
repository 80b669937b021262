"""The longest rows of all tables, read in blocks: those that sorting all rows at once gives."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from profkit.tables import schema
from profkit.timeline import longest_rows
from profkit.timeline.longest_rows import PYTHON, RowsOfRun

COLUMNS = {
    "cpu_ops": ["rank", "op", "name"],
    "memory_events": ["rank"],
    "kernels": ["rank", "name"],
}
RANKS = 6


def rows_of(name, rank):
    """Return rows of one rank, of two repeats and three steps, many of them as long as others."""
    random, count = np.random.default_rng((rank, len(name))), 40
    start = random.integers(0, 1000, count)
    columns = {
        "rank": np.full(count, rank),
        "repeat": random.integers(0, 2, count),
        "step": random.integers(0, 3, count),
        "time_ns": start,
        "start_ns": start,
        "end_ns": start + random.integers(0, 8, count),
        "name": [f"{name} {number} of rank {rank}" for number in range(count)],
        "op": np.arange(count),
    }
    return schema.table(name, {key: columns[key] for key in columns if key in known(name)})


def known(name):
    return schema.TABLES[name].names


@pytest.fixture(params=[1, 100, 1 << 18], ids="blocks of {} rows".format)
def rows(request, tmp_path, monkeypatch):
    monkeypatch.setattr(longest_rows, "_ROWS_AT_ONCE", request.param)
    files = {name: tmp_path / f"{name}.parquet" for name in COLUMNS}
    for name, path in files.items():
        with pq.ParquetWriter(path, schema.TABLES[name]) as writer:
            for rank in range(RANKS):
                writer.write_table(rows_of(name, rank))
    return RowsOfRun(files=files, repeat=1, steps=(0, 2))


def sorted_at_once(count):
    """Return the longest rows of the same tables, by a stable sort of all."""
    every = []
    for name in COLUMNS:
        table = pa.concat_tables([rows_of(name, rank) for rank in range(RANKS)])
        own = table.unify_dictionaries().to_pandas()
        own = own[(own["repeat"] == 1) & own["step"].isin([0, 2])]
        length = own["end_ns"] - own["start_ns"] if "end_ns" in own else 0
        every.append(own.assign(table=name, length=length))
    joined = pd.concat(every, ignore_index=True)
    longest = joined.sort_values("length", ascending=False, kind="stable")[:count]
    return joined.loc[sorted(longest.index)], len(joined)


@pytest.mark.parametrize("count", [0, 1, 57, 200, 10_000])
def test_the_longest_are_those_that_a_stable_sort_has_first(rows, count):
    found, left_out = rows.longest(COLUMNS, count)
    expected, every = sorted_at_once(count)
    assert left_out == max(every - count, 0)
    for name, columns in COLUMNS.items():
        own = expected[expected["table"] == name]
        for column in columns:
            assert found[name][column].astype(own[column].dtype).tolist() == own[column].tolist()
        times = own["time_ns" if name == "memory_events" else "start_ns"]
        assert found[name]["start_ns"].tolist() == times.tolist()


def test_texts_of_all_blocks_are_one_categorical(rows):
    found, _ = rows.longest(COLUMNS, 57)
    assert isinstance(found["cpu_ops"]["name"].dtype, pd.CategoricalDtype)


def test_calls_of_python_are_cut_to_the_operators_of_their_rank_in_the_steps(tmp_path):
    ops = [
        {"rank": 0, "step": 1, "start_ns": 100, "end_ns": 150},
        {"rank": 0, "step": 1, "start_ns": 150, "end_ns": 200},
        {"rank": 0, "step": 2, "start_ns": 300, "end_ns": 400},
        {"rank": 1, "step": 2, "start_ns": 100, "end_ns": 200},
    ]
    calls = [
        {"rank": 0, "start_ns": 0, "end_ns": 1000, "name": "around"},
        {"rank": 0, "start_ns": 90, "end_ns": 110, "name": "before"},
        {"rank": 0, "start_ns": 120, "end_ns": 120, "name": "inside"},
        {"rank": 0, "start_ns": 200, "end_ns": 300, "name": "after"},
        {"rank": 1, "start_ns": 0, "end_ns": 1000, "name": "of a rank without such a step"},
    ]
    files = {}
    for name, rows in (("cpu_ops", ops), (PYTHON, calls)):
        files[name] = tmp_path / f"{name}.parquet"
        where = {"repeat": 0}
        schema.frame(name, [where | row for row in rows]).to_parquet(files[name])
    wanted = {"cpu_ops": ["rank"], PYTHON: ["rank", "name"]}
    found, _ = RowsOfRun(files=files, steps=(1,)).longest(wanted, 100)
    own = found[PYTHON]
    assert [*zip(own["name"], own["start_ns"], own["end_ns"], strict=True)] == [
        ("around", 100, 200),
        ("before", 100, 110),
        ("inside", 120, 120),
    ]
