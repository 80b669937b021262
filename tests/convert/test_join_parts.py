"""Joining: what several files became is one set of tables, in which no id means two rows."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from profkit.convert import _join_parts
from profkit.convert._join_parts import Part, join, with_unique_ids
from profkit.convert._part_tables import _SMALL, write_tables
from profkit.convert.base import Raw
from profkit.tables import schema

ALONE = "Import this file alone to keep its own."


@pytest.fixture(params=[False, True], ids=["of large files", "of small files"])
def part(request, tmp_path):
    """Return a function that makes the part of a file that was taken as `rank`."""

    def made(name, rank, repeat=0, **tables):
        raw = Raw(path=tmp_path / f"rep{repeat}/{name}", label="", rank=rank, repeat=repeat)
        folder = tmp_path / f"part-{name}-{repeat}"
        folder.mkdir()
        made_of = {}
        for table, of_table in tables.items():
            frame = schema.frame(table, [{"repeat": repeat, **row} for row in of_table])
            columns = {column: frame[column].to_numpy() for column in schema.TABLES[table].names}
            made_of[table] = schema.table(table, columns)
        rows, ranks = write_tables(folder, made_of, is_small=request.param)
        referenced = _join_parts.referenced_rows(rows)
        return Part(raw=raw, folder=folder, rows=referenced, found_ranks=ranks)

    return made


def rows(tmp_path, name, parts, *columns):
    join(tmp_path / "joined.parquet", name, with_unique_ids(parts))
    found = pq.read_table(tmp_path / "joined.parquet")
    assert found.schema.equals(schema.TABLES[name])
    return list(zip(*found.select(columns).to_pydict().values(), strict=True))


def ops(*ranks):
    return [{"rank": rank, "op": op, "parent": op - 1} for rank in ranks for op in (0, 1)]


def test_ranks_that_an_earlier_file_holds_too_become_the_next_free_ones(part, tmp_path):
    parts = [part("a", 0, cpu_ops=ops(0, 1)), part("b", 1, cpu_ops=ops(1, 2))]
    assert rows(tmp_path, "cpu_ops", parts, "rank", "op", "parent") == [
        (0, 0, -1), (0, 1, 0), (1, 0, -1), (1, 1, 0), (2, 0, -1), (2, 1, 0), (3, 0, -1), (3, 1, 0),
    ]  # fmt: skip
    moved = "Rank 1 is also in rep0/a: here 1, 2 became 2, 3."
    assert [part.notes for part in with_unique_ids(parts)] == [(), (f"{moved} {ALONE}",)]


def test_files_of_earlier_versions_are_joined_whose_columns_may_all_be_null(part, tmp_path):
    old, new = part("a", 0, cpu_ops=ops(0)), part("b", 1, cpu_ops=ops(1))
    written = schema.table("cpu_ops", {name: [0, 0] for name in ("rank", "repeat", "op")})
    any_null = pa.schema([column.with_nullable(True) for column in written.schema])
    pq.write_table(written.cast(any_null), old.folder / "cpu_ops.parquet")
    (old.folder / _SMALL).unlink(missing_ok=True)
    assert rows(tmp_path, "cpu_ops", [old, new], "rank", "op") == [(0, 0), (0, 0), (1, 0), (1, 1)]


def test_files_that_hold_no_rank_of_another_stay_as_they_are(part):
    one, two = part("a", 0, cpu_ops=ops(0, 1)), part("b", 1, cpu_ops=ops(2))
    again = part("c", 0, repeat=1, cpu_ops=ops(0, 1))
    lost = replace(one, raw=replace(one.raw, path=one.raw.path.with_name("lost")), folder=None)
    assert with_unique_ids([one, lost, two, again]) == [one, lost, two, again]


def test_files_of_one_rank_are_moved_alike_and_count_on(part, tmp_path):
    parts = [part(name, rank, cpu_ops=ops(0)) for name, rank in (("a", 0), ("b", 1), ("c", 1))]
    assert rows(tmp_path, "cpu_ops", parts, "rank", "op", "parent") == [
        (0, 0, -1), (0, 1, 0), (1, 0, -1), (1, 1, 0), (1, 2, -1), (1, 3, 2),
    ]  # fmt: skip
    moved = f"Rank 0 is also in rep0/a: here 0 became 1. {ALONE}"
    assert [part.notes for part in with_unique_ids(parts)] == [(), (moved,), (moved,)]


def test_launches_of_one_rank_in_two_files_are_told_apart(part, tmp_path):
    launches = [{"rank": 0, "correlation": correlation} for correlation in (0, 7, 9)]
    work = [{"rank": 0, "correlation": correlation} for correlation in (-1, 9)]
    waits = [
        {"rank": 0, "correlation": 8, "awaited_correlation": correlation} for correlation in (-1, 7)
    ]
    tables = {"runtime_calls": launches, "kernels": work, "synchronisations": waits}
    parts = [part("a", 0, **tables), part("b", 0, **tables)]
    found = {
        (name, column): [number for (number,) in rows(tmp_path, name, parts, column)]
        for name in tables
        for column in ("correlation", "awaited_correlation")
        if column in schema.TABLES[name].names
    }
    assert found == {
        ("runtime_calls", "correlation"): [0, 7, 9, 0, 10, 12],
        ("kernels", "correlation"): [-1, 9, -1, 12],
        ("synchronisations", "correlation"): [8, 8, 11, 11],
        ("synchronisations", "awaited_correlation"): [-1, 7, -1, 10],
    }


def test_ids_that_go_on_by_themselves_in_the_next_file_stay(part, tmp_path):
    def window(name, first):
        ids = (first, first + 1)
        return part(
            name,
            0,
            steps=[{"rank": 0, "step": step} for step in ids],
            kernels=[{"rank": 0, "step": step, "correlation": step} for step in ids],
        )

    parts = [window("a", 10), window("b", 3)]
    expected = [(10, 10), (11, 11), (3, 3), (4, 4)]
    assert rows(tmp_path, "kernels", parts, "step", "correlation") == expected
    assert [part.notes for part in with_unique_ids(parts)] == [(), ()]


def test_steps_whose_numbers_come_again_in_the_next_file_count_on_after_a_gap(part, tmp_path):
    tables = {
        "steps": [{"rank": 0, "step": step} for step in (2, 3)],
        "kernels": [{"rank": 0, "step": step} for step in (-1, 3)],
    }
    parts = [part("a", 0, **tables), part("b", 0, **tables)]
    assert rows(tmp_path, "steps", parts, "step") == [(2,), (3,), (5,), (6,)]
    assert rows(tmp_path, "kernels", parts, "step") == [(-1,), (3,), (-1,), (6,)]
    note = "Steps have numbers of an earlier file of this rank: they count on from there."
    assert [part.notes for part in with_unique_ids(parts)] == [(), (note,)]


def test_files_of_one_rank_each_are_told_apart_without_reading_rows(part, monkeypatch):
    parts = [part(name, rank, cpu_ops=ops(rank)) for rank, name in enumerate("ab")]
    monkeypatch.delattr(pq.ParquetFile, "read")
    assert with_unique_ids(parts) == parts


def test_later_files_of_a_rank_are_repeats_where_each_is_a_whole(part, tmp_path):
    blocks = [{"rank": 0, "size_bytes": 1}]
    parts = [
        part(name, 0, repeat, blocks=blocks) for name, repeat in (("a", 0), ("b", 0), ("a", 1))
    ]
    made = with_unique_ids(parts, whole=True)
    join(tmp_path / "blocks.parquet", "blocks", made)
    assert pq.read_table(tmp_path / "blocks.parquet")["repeat"].to_pylist() == [0, 2, 1]
    note = "rep0/a is of rank 0 too: this file counts as repeat 2."
    assert [part.notes for part in made] == [(), (note,), ()]


def test_small_ranks_share_a_group_of_rows_and_a_large_one_has_its_own(part, tmp_path, monkeypatch):
    monkeypatch.setattr(_join_parts, "_GROUP_ROWS", 4)
    names = [f"{name}{rank}" for rank in range(4) for name in "ab"]
    named = [{"name": name, **row} for name, row in zip(names, ops(0, 1, 2, 3), strict=True)]
    large = [{"name": "c", "rank": 4, "op": op} for op in range(5)]
    parts = [part(str(rank), rank, cpu_ops=named[2 * rank : 2 * rank + 2]) for rank in range(4)]
    found = rows(tmp_path, "cpu_ops", [*parts, part("4", 4, cpu_ops=large)], "rank", "name")
    assert found[:8] == [(rank, f"{name}{rank}") for rank in range(4) for name in "ab"]
    groups = pq.ParquetFile(tmp_path / "joined.parquet").metadata
    sizes = [groups.row_group(number).num_rows for number in range(groups.num_row_groups)]
    assert sizes == [4, 4, 5]
