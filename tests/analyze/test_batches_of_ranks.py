"""What is read a few ranks at a time becomes the result that all ranks at once make."""

import math
from functools import partial

import msgspec
import numpy as np
import pytest

from profkit.analyze import analyses, step_timeline
from profkit.analyze.division import kept_ops, pattern_matches
from profkit.analyze.shared import closed_steps, large_table
from profkit.analyze.shared.large_table import LargeTable
from profkit.analyze.tracks.room import Room
from profkit.core.hardware import Hardware
from profkit.core.result import Result
from profkit.testing import ORIGIN_NS, frame, run, span
from tests.analyze.test_causes import GPU, US

RANKS = range(6)
LARGE = sorted(name for name, one in analyses().items() if one.large_tables and not one.across)
INPUTS = {"input_shapes": "[[8, 8], [8, 8]]", "input_types": '["float", "float"]'}
HARDWARE = Hardware(name="GPU", peak_flops={"fp32": 1e13}, memory_bandwidth_bytes_per_s=1e12)


@pytest.fixture(scope="module")
def tables():
    """Return two steps of each of six ranks; four of these lack a table each."""
    lacking = {1: "steps", 2: "cpu_ops", 3: "kernels", 4: "runtime_calls"}
    made = {
        name: [
            _moved(row, rank, number)
            for rank in (4, 0, 1, 2, 3, 5)
            if lacking.get(rank) != name
            for number in (5, 6)
            for row in rows
        ]
        for name, rows in GPU.items()
    }
    made["collectives"] = [
        span(start, start + 250_000, rank=rank, repeat=0, step=number, collective=number,
             sequence=number, group="world", group_size=6, operation="all_reduce", kind="device",
             call_ns=ORIGIN_NS + start - 90_000 * rank)
        for rank in RANKS
        for number in (5, 6)
        for start in [(number - 5) * 2_000_000 + 650_000 + (20_000 * rank if rank < 5 else 240_000)]
    ]  # fmt: skip
    return {name: frame(name, rows) for name, rows in made.items()}


def _moved(row, rank, number):
    """Return a row of a rank and step; the work of each rank takes another time."""
    moved = row | {"rank": rank, "repeat": 0, "step": number}
    later = (number - 5) * 2000 * US
    moved["start_ns"] += later
    moved["end_ns"] += later + (rank * US if "correlation" in row else 0)
    for name in ("correlation", "op"):
        if moved.get(name, -1) >= 0:
            moved[name] += 10 * (number - 5)
    return moved | (INPUTS if row.get("kind") == "operator" else {})


@pytest.mark.parametrize("name", LARGE)
def test_the_result_is_the_same_for_each_rank_alone(name, tables, monkeypatch):
    analysis = analyses()[name]
    named = (*analysis.tables, *analysis.tables_by_tool)
    given = {table: tables[table] for table in named if table in tables}
    whole = _result(analysis, given)
    monkeypatch.setattr(large_table, "_ROWS_OF_BATCH", 1)
    assert _plain(_result(analysis, given)) == _plain(whole)
    assert whole.tables or whole.drawings or whole.abstentions


@pytest.mark.parametrize("name", LARGE)
def test_the_result_is_the_same_for_rows_in_portions(name, tables):
    analysis = analyses()[name]
    named = (*analysis.tables, *analysis.tables_by_tool)
    given = {table: tables[table] for table in named if table in tables}
    in_portions = {
        table: LargeTable(partial(_portions, given[table]))
        for table in analysis.large_tables
        if table in given
    }
    assert _plain(_result(analysis, given | in_portions)) == _plain(_result(analysis, given))


@pytest.fixture(scope="module")
def on_cpu():
    """Return eight steps of a rank without a GPU, and work after the last one."""
    marks = [span(number * 1000, number * 1000 + 950, step=number) for number in range(8)]
    ops = [op for number in range(8) for op in _operators(9 * number, marks[number])]
    later = {"step": -1, "start_ns": ORIGIN_NS + 8100, "end_ns": ORIGIN_NS + 8200}
    ops.append(ops[1] | later | {"op": len(ops), "parent": -1})
    module = {"caller": -1, "tid": 1, "name": "nn.Module: Net_0", "kind": "module", "module": "Net"}
    calls = [mark | module | {"call": number} for number, mark in enumerate(marks)]
    made = {"steps": marks, "cpu_ops": ops, "python_calls": calls}
    return {name: frame(name, rows) for name, rows in made.items()}


def _operators(first, mark):
    """Yield a step's range, a forward and a backward operator of three modules, and Adam's."""
    start, number = mark["start_ns"], mark["step"]
    name, more = f"ProfilerStep#{number}", {"kind": "annotation"}
    yield mark | more | {"op": first, "name": name, "tid": 1}
    for at in range(8):
        begin = start + 50 + 100 * (at // 2) + 20 * (at % 2)
        own = {"op": first + 1 + at, "parent": first if at % 2 == 0 else first + at, "tid": 1}
        own |= {"kind": "operator", "name": ("aten::mm", "aten::add")[at % 2], "phase": "forward"}
        if at in {4, 5}:
            own |= {"tid": 2, "parent": -1 if at == 4 else first + at, "phase": "backward"}
            own |= {"forward": first + 1, "forward_tid": 1}
        if at == 6:
            own |= {"module": f"Net;Linear_{number % 3}"}
        yield (
            mark | INPUTS | own | {"start_ns": begin, "end_ns": begin + 60 - 30 * (at % 2) + number}
        )


IN_PARTS = ["causes", "flame_graph", "flops", "modules", "step_timeline"]


@pytest.mark.parametrize("name", IN_PARTS)
def test_the_result_is_the_same_for_parts_of_a_long_recording(name, on_cpu, monkeypatch):
    analysis = analyses()[name]
    given = {table: rows for table, rows in on_cpu.items() if table in analysis.tables}
    whole = _result(analysis, given)
    monkeypatch.setattr(closed_steps, "_LEAST_OPS", 9)
    table = LargeTable(partial(_portions, on_cpu["cpu_ops"]))
    assert len(large_table.spans_of({"cpu_ops": table}, {0})) == 9
    assert _plain(_result(analysis, given | {"cpu_ops": table})) == _plain(whole)
    assert whole.tables or whole.drawings


RESNET = "tensorboard/resnet50_num_workers_0/worker0.1623143089861.pt.trace.json.gz"


@pytest.fixture
def real_cpu(real_data, converted):
    """Return six real steps on two threads, as if of a CPU alone."""
    tables = converted(real_data / "kineto" / RESNET)
    recorded = {name: tables[name] for name in ("steps", "cpu_ops", "python_calls")}
    return {name: frame(name, []) for name in tables} | recorded


def _without_steps(tables):
    """Return the same without marks of steps, of the thread alone that would have made them."""
    ops = tables["cpu_ops"]
    ops = ops[(ops["tid"] == ops["tid"].mode()[0]).to_numpy()]
    marks = ops["name"].astype(str).str.startswith("ProfilerStep")
    parents = ops["parent"].mask(ops["parent"].isin(ops["op"][marks]), -1)
    ops = ops.assign(parent=parents, step=-1)[~marks]
    return tables | {"steps": tables["steps"].iloc[:0], "cpu_ops": ops.reset_index(drop=True)}


@pytest.mark.parametrize("has_steps", [True, False], ids=["steps", "no steps"])
@pytest.mark.parametrize("name", IN_PARTS)
def test_a_real_recording_is_the_same_in_parts(name, has_steps, real_cpu, monkeypatch):
    tables = real_cpu if has_steps else _without_steps(real_cpu)
    analysis = analyses()[name]
    given = {table: tables[table] for table in analysis.tables if table in tables}
    settings = {"max_slices": 500} if name == "step_timeline" else {}
    monkeypatch.setattr(step_timeline, "room_for", lambda *_: Room())
    whole = _result(analysis, given, **settings)
    monkeypatch.undo()
    monkeypatch.setattr(closed_steps, "_LEAST_OPS", 1000)
    monkeypatch.setattr(pattern_matches, "_PARTS_AT_ONCE", 2)
    table = LargeTable(partial(_portions, tables["cpu_ops"], 400))
    assert len(large_table.spans_of({"cpu_ops": table}, {0})) > 2
    assert _plain(_result(analysis, given | {"cpu_ops": table}, **settings)) == _plain(whole)


def test_a_timeline_needs_no_operator_inside_of_another_one(on_cpu, monkeypatch):
    analysis = analyses()["step_timeline"]
    monkeypatch.setattr(closed_steps, "_LEAST_OPS", 9)
    left_out = ~kept_ops.divides(on_cpu["cpu_ops"])
    few = _plain(_result(analysis, on_cpu))
    monkeypatch.setattr(kept_ops, "divides", lambda ops: np.ones(len(ops), dtype=np.bool_))
    assert few == _plain(_result(analysis, on_cpu))
    assert set(on_cpu["cpu_ops"]["name"][left_out]) == {"aten::add"}
    assert left_out.sum() == 8 * 4


def _portions(rows, size=3):
    """Yield some rows at a time, so that a rank and a step are in several portions."""
    yield from (rows.iloc[at : at + size] for at in range(0, max(len(rows), 1), size))


def _result(analysis, given, **settings):
    known = {"hardware": HARDWARE, "behaviour": {}}
    known = {name: known[name] for name in analysis.run_parameters}
    by_tool = {
        name: {"torch_profiler": given[name]} for name in analysis.tables_by_tool if name in given
    }
    return run(analysis, **given | by_tool, **known, **settings)


def _plain(value):
    """Return a result as plain data that can be compared; the last bits of sums may differ."""
    if isinstance(value, Result):
        value = msgspec.json.decode(msgspec.json.encode(value))
    if isinstance(value, float):
        return "unknown" if math.isnan(value) else pytest.approx(value, rel=1e-12)
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value
