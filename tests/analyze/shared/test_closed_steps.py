"""A long recording of a rank in parts of whole steps."""

import tracemalloc

import pyarrow.parquet as pq
import pytest

from profkit.analyze import analysis
from profkit.analyze.__main__ import result_of
from profkit.analyze.shared import closed_steps, large_table, read_tables
from profkit.tables import schema
from tests.analyze.test_operators import op

_STEP_NS = 1000
_NAMES = ("aten::mm", "aten::add", "aten::relu")


def operators(step, ops=3, **more):
    """Return the operators of one step: a range around, and `ops` in it, one of which is new."""
    first, start = step * (ops + 1), step * _STEP_NS
    yield op(
        first, f"ProfilerStep#{step}", (start, start + 900), 0, step=step, kind="annotation", **more
    )
    for at in range(1, ops + 1):
        name = "aten::first" if step == at == 1 else _NAMES[at % 3]
        begin = start + 800 * at // (ops + 1)
        when = (begin, begin + 1)
        yield op(first + at, name, when, 1, parent=first, step=step, input_shapes="[[2]]", **more)


def others(step, ops=3):
    """Return a call, a kernel that runs in the next step, and memory of one step."""
    first, start = step * (ops + 1), step * _STEP_NS
    where = {"rank": 0, "repeat": 0, "step": step, "op": first + 1}
    times = {"start_ns": start + 220, "end_ns": start + 230}
    yield "runtime_calls", where | times | {"tid": 1, "name": "cudaLaunchKernel"}
    late = {"start_ns": start + 1100, "end_ns": start + 1150 + step}
    yield "kernels", where | late | {"name": "gemm", "kind": "compute"}
    size = {"device": "cpu", "size_bytes": 8 + step}
    yield "memory_events", where | size | {"time_ns": start + 201}
    yield "memory_events", where | size | {"time_ns": start + 950, "op": -1}


def written(folder, rows, in_group):
    """Write tables of `rows`, so many in a group."""
    folder.mkdir()
    paths = []
    for name, own in rows.items():
        paths.append(folder / f"{name}.parquet")
        pq.write_table(schema.table(name, columns(name, own)), paths[-1], row_group_size=in_group)
    return paths


def columns(name, rows):
    known = {key for row in rows for key in row}
    empty = {"op": -1, "parent": -1, "step": -1}
    return {
        key: [row.get(key, empty.get(key, "")) for row in rows]
        for key in schema.TABLES[name].names
        if key in known
    }


@pytest.fixture
def recorded(tmp_path):
    """Return tables of so many steps, with other operators besides."""

    def make(steps, *more, ops=3):
        rows = {name: [] for name in analysis("operators").mapped_tables}
        rows["cpu_ops"] = [row for step in range(steps) for row in operators(step, ops)]
        for step in range(steps):
            for name, row in others(step, ops):
                rows[name].append(row)
        rows["cpu_ops"] += more
        return written(tmp_path / f"{steps}", rows, in_group=5 * ops)

    return make


@pytest.fixture
def short_parts(monkeypatch):
    """Let a part have as few as eight operators: two steps."""
    monkeypatch.setattr(closed_steps, "_LEAST_OPS", 8)
    monkeypatch.setattr(read_tables, "_SMALL_VALUES", 0)


def parts(paths):
    files = {path.stem: [path] for path in paths}
    return [rows for _, rows in read_tables.rank_batches(files)]


def operators_of(paths):
    operators = analysis("operators")
    return result_of(operators, operators.config(), {}, paths, [])


@pytest.mark.usefixtures("short_parts")
def test_a_part_has_whole_steps_and_what_they_launched(recorded):
    first, second, last = parts(recorded(6))
    assert second["cpu_ops"]["step"].unique().tolist() == [2, 3]
    assert second["kernels"]["step"].tolist() == [2, 3]
    assert second["kernels"]["start_ns"].tolist() == [3100, 4100]
    assert second["memory_events"]["time_ns"].tolist() == [2201, 2950, 3201, 3950]
    assert first["runtime_calls"].index.tolist() == last["runtime_calls"].index.tolist() == [0, 1]


@pytest.mark.parametrize(
    "across",
    [
        op(24, "aten::long", (5900, 6500), 0, step=5),
        op(24, "aten::late", (6100, 6200), 0, step=5, parent=3),
        op(24, "aten::early_step", (6100, 6200), 0, step=0),
    ],
    ids=["after the last step", "with a parent in the first", "of the first step"],
)
@pytest.mark.usefixtures("short_parts")
def test_no_cut_is_where_an_operator_belongs_to_both_sides(recorded, across):
    found = parts(recorded(6, across))
    steps = [set(part["cpu_ops"]["step"]) for part in found]
    assert sum(map(len, steps)) == len(set.union(*steps)) == 6
    for part in found:
        own = set(part["cpu_ops"]["op"])
        assert set(part["cpu_ops"]["parent"]) - {-1} <= own
    assert sum(len(part["cpu_ops"]) for part in found) == 25


def second_thread(*spans):
    """Return operators of another thread, which come after all of the first."""
    return [op(24 + at, "aten::bwd", (*when, ), 9, step=step, tid=2)
            for at, (step, *when) in enumerate(spans)]  # fmt: skip


@pytest.mark.usefixtures("short_parts")
def test_parts_have_what_other_threads_did_meanwhile(recorded):
    found = parts(recorded(6, *second_thread((0, 500, 600), (1, 1900, 2000), (3, 3100, 3101))))
    own = [part["cpu_ops"].loc[part["cpu_ops"]["name"] == "aten::bwd", "op"] for part in found]
    assert [numbers.tolist() for numbers in own] == [[24, 25], [26], []]
    assert [len(part["cpu_ops"]) for part in found] == [10, 9, 8]


@pytest.mark.parametrize(
    "across",
    [(1, 1900, 2001), (2, 1900, 1901), (1, 2100, 2101)],
    ids=["lasts beyond", "of the next step", "of the last step"],
)
@pytest.mark.usefixtures("short_parts")
def test_no_cut_is_where_another_thread_is_in_an_operator(recorded, across):
    found = parts(recorded(6, *second_thread(across)))
    assert [sorted(set(part["cpu_ops"]["step"])) for part in found] == [[0, 1, 2], [3, 4], [5]]


@pytest.mark.usefixtures("short_parts")
def test_what_is_outside_of_all_steps_is_cut_as_well(recorded):
    alone = [
        op(24 + at, "aten::mm", (6000 + 10 * at, 6009 + 10 * at), 9, step=-1) for at in range(20)
    ]
    found = parts(recorded(6, *alone))
    assert [len(part["cpu_ops"]) for part in found] == [8, 8, 8, 8, 8, 4]
    assert [set(part["cpu_ops"]["step"]) for part in found[-3:]] == [{-1}] * 3


@pytest.mark.usefixtures("short_parts")
def test_operators_in_parts_are_those_of_the_whole(recorded, monkeypatch):
    paths = recorded(9)
    in_parts = operators_of(paths)
    assert len(parts(paths)) == 5
    monkeypatch.setattr(closed_steps, "_LEAST_OPS", 1000)
    assert len(parts(paths)) == 1
    assert in_parts == operators_of(paths)


def test_a_long_recording_in_parts_takes_less_than_half_the_memory(recorded, monkeypatch):
    paths = recorded(200, ops=200)

    def peak(least_ops):
        monkeypatch.setattr(closed_steps, "_LEAST_OPS", least_ops)
        tracemalloc.start()
        operators_of(paths)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    at_once = peak(100_000)
    assert min(peak(2000) for _ in range(2)) < at_once / 2


def test_a_large_table_is_read_as_arrow_reads_it(recorded, monkeypatch):
    monkeypatch.setattr(large_table, "_ROWS_AT_ONCE", 15)
    monkeypatch.setattr(large_table, "_FEW_TEXTS", 5)
    for path in recorded(6):
        with pq.ParquetFile(path) as file:
            names = file.schema_arrow.names
            found = large_table.read(file, range(file.num_row_groups), names)
            expected = file.read().to_pandas()
        assert found.equals(expected)
        assert found.dtypes.astype(str).tolist() == expected.dtypes.astype(str).tolist()
    assert found["rank"].to_numpy().strides == (0,)
