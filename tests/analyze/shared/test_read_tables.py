"""Tables a part at a time: whole ranks in batches, and one run after another."""

import pyarrow.parquet as pq
import pytest

from profkit.analyze.base import Columns
from profkit.analyze.shared import large_table, read_tables
from profkit.core.errors import InputError
from profkit.core.rank_spans import RankSpan
from profkit.tables import schema

COLUMNS = {"cpu_ops": Columns("rank name"), "kernels": Columns("rank name")}


def written(folder, name, *groups):
    """Write a table with a group of rows for each list of ranks."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.parquet"
    with pq.ParquetWriter(path, schema.TABLES[name]) as writer:
        for number, ranks in enumerate(groups):
            names = [f"{name}{number}"] * len(ranks)
            writer.write_table(schema.table(name, {"rank": ranks, "name": names}))
    return [path]


def batches(**files):
    return [
        {name: table.to_numpy().tolist() for name, table in rows.items()}
        for _, rows in read_tables.rank_batches(files, COLUMNS)
    ]


@pytest.fixture
def few_rows(monkeypatch):
    """Let a batch end after three rows."""
    monkeypatch.setattr(large_table, "_ROWS_OF_BATCH", 3)


@pytest.mark.usefixtures("few_rows")
def test_batches_hold_whole_ranks_of_all_tables(tmp_path):
    ops = written(tmp_path, "cpu_ops", [0, 0], [0], [], [1], [2])
    kernels = written(tmp_path, "kernels", [2], [7])
    assert batches(cpu_ops=ops, kernels=kernels) == [
        {"cpu_ops": [[0, "cpu_ops0"], [0, "cpu_ops0"], [0, "cpu_ops1"]], "kernels": []},
        {"cpu_ops": [[1, "cpu_ops3"], [2, "cpu_ops4"]], "kernels": [[2, "kernels0"]]},
        {"cpu_ops": [], "kernels": [[7, "kernels1"]]},
    ]


@pytest.mark.usefixtures("few_rows")
def test_ranks_that_share_a_group_of_rows_are_taken_apart(tmp_path):
    ops = written(tmp_path, "cpu_ops", [0, 1], [0, 0], [3])
    first, second = batches(cpu_ops=ops, kernels=written(tmp_path, "kernels", [4]))
    assert [rank for rank, _ in first["cpu_ops"]] == [0, 0, 0]
    assert first["kernels"] == []
    assert [rank for rank, _ in second["cpu_ops"]] == [1, 3]
    assert second["kernels"] == [[4, "kernels0"]]


def test_a_span_has_its_ranks_of_a_shared_group(tmp_path):
    ops = {"cpu_ops": written(tmp_path, "cpu_ops", [0, 1, 2])}
    ranks = [
        rows["cpu_ops"]["rank"].tolist()
        for span in (RankSpan(None, 1), RankSpan(1, None))
        for _, rows in read_tables.rank_batches(ops, COLUMNS, span)
    ]
    assert ranks == [[0], [1, 2]]


def test_empty_tables_are_one_batch_without_rows(tmp_path):
    ops, kernels = written(tmp_path, "cpu_ops"), written(tmp_path, "kernels", [])
    assert batches(cpu_ops=ops, kernels=kernels) == [{"cpu_ops": [], "kernels": []}]


@pytest.mark.parametrize("groups", [(), ([0, 0], [1])])
def test_ranks_without_rows_have_a_table_with_all_columns(tmp_path, groups):
    table = read_tables.large(written(tmp_path, "cpu_ops", *groups)).only([7])
    rows = table.where(lambda rows: (rows["rank"] == 7).to_numpy())
    assert list(rows) == list(table.whole()) == schema.TABLES["cpu_ops"].names
    assert len(rows) == 0


def test_a_damaged_table_is_named(tmp_path):
    ops = written(tmp_path, "cpu_ops", [0] * 1000)
    content = bytearray(ops[0].read_bytes())
    content[40:60] = bytes(20)
    ops[0].write_bytes(content)
    with pytest.raises(InputError, match=r"cpu_ops\.parquet: cannot be read"):
        batches(cpu_ops=ops)


def test_a_run_without_a_table_has_an_empty_one(tmp_path):
    folders = {run: tmp_path / "results/runs" / run / "tables/nsys" for run in "ba"}
    ops = [*written(folders["b"], "cpu_ops", [0]), *written(folders["a"], "cpu_ops", [1])]
    kernels = written(folders["a"], "kernels", [1])
    found = dict(read_tables.run_by_run({"cpu_ops": ops, "kernels": kernels}, COLUMNS))
    assert [*found] == ["b", "a"]
    assert found["b"]["kernels"].empty
    assert found["b"]["kernels"].columns.tolist() == schema.TABLES["kernels"].names
    assert found["a"]["kernels"].to_numpy().tolist() == [[1, "kernels0"]]
