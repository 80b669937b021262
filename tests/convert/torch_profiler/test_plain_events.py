"""Events that are decoded with their arguments in one go become what others become."""

import json

import pytest

from profkit.convert.torch_profiler import header, plain_events, reader
from profkit.convert.torch_profiler import trace as kineto
from profkit.convert.torch_profiler.categories import FLOWS, IGNORED, KINDS
from profkit.convert.torch_profiler.plain_events import ARGS, Block, Plain, plainly
from profkit.convert.torch_profiler.reader import Reader

COLLECTIVE = {
    "Collective name": "allreduce",
    "In msg nelems": 8,
    "Out msg nelems": 8,
    "Group size": 2,
    "dtype": "Float",
    "Process Group Name": "0",
    "Process Group Ranks": [0, 1],
    "Seq": 3,
}
WORK = {
    "External id": 1,
    "device": 0,
    "stream": 7,
    "correlation": 5,
    "bytes": 64,
    "kind": "Memcpy HtoD",
    "registers per thread": 32,
    "shared memory": 0,
    "blocks per SM": 0.5,
    "grid": [1, 2, 3],
    "est. achieved occupancy %": 12,
}
ARGUMENTS = {
    "cpu_op": {
        "External id": 1,
        "Sequence number": 4,
        "Fwd thread id": 0,
        "Input Dims": [[2, 3], []],
        "Input type": ["float", ""],
        "Concrete Inputs": ["", "1"],
        "Call stack": "a.py(1): f;b.py(2): g",
        **COLLECTIVE,
    },
    "cuda_runtime": {"External id": 1, "correlation": 5},
    "kernel": WORK | COLLECTIVE,
    "gpu_memcpy": WORK,
    "gpu_user_annotation": {"External id": 1},
    "cpu_instant_event": {"Bytes": -8, "Addr": 16, "Device Type": 1, "Device Id": 0},
    "cuda_sync": {"wait_on_stream": 7, "stream": 7, "correlation": 5, "device": 0},
    "python_function": {"Python id": 1, "Python parent id": None},
}
NAMED = [
    {"name": "process_name", "ph": "M", "ts": 0, "pid": 1, "tid": 0, "args": {"name": "python"}},
    {"name": "thread_sort_index", "ph": "M", "pid": 1, "tid": 1, "args": {"sort_index": 3}},
    {"name": "Record Window End", "ph": "i", "s": "g", "pid": "", "tid": "", "ts": 9},
]


def event(category, number, **changes):
    at = {"pid": 1, "tid": 1, "ts": 10.5 + number, "dur": 3.25}
    if category in FLOWS:
        return {"ph": "s", "id": number, **at, "cat": category, "name": category}
    is_memory = category == "cpu_instant_event"
    name = "[memory]" if is_memory else f"{category} {number % 3}"
    begin = {"ph": "i" if is_memory else "X", "cat": category, "name": name}
    return begin | at | {"args": ARGUMENTS.get(category, {})} | changes


def every():
    plain = [category for category, kind in KINDS.items() if kind in ARGS]
    listed = [*plain, *IGNORED, *FLOWS] * 3
    return [event(category, number) for number, category in enumerate(listed)]


@pytest.fixture
def read(tmp_path, monkeypatch):
    """Return whether events were plain, and all that was read of them, in one way and the other."""

    def both(events, **options):
        path = tmp_path / "trace.json"
        text = json.dumps({"traceEvents": events}, indent=1)
        path.write_text(text.replace('"@', "").replace('@"', ""))
        blocks = [block for block in Reader(path, **options) if block]
        is_plain = [isinstance(block[0], Plain) for block in blocks]
        found = kineto.read(path, rank=0, **options)
        first = {name: table.to_pydict() for name, table in found.tables.items()}
        monkeypatch.setattr(reader, "plainly", lambda *_: None)
        other = kineto.read(path, rank=0, **options)
        second = {name: table.to_pydict() for name, table in other.tables.items()}
        monkeypatch.undo()
        assert repr(first) == repr(second)
        assert found.notes == other.notes
        return is_plain, first

    return both


@pytest.mark.parametrize("block_bytes", [1000, 4 << 20])
def test_all_categories_are_plain_and_become_the_same_rows(read, block_bytes):
    is_plain, tables = read([*every(), *NAMED], block_bytes=block_bytes)
    assert all(is_plain)
    assert len(tables["python_calls"]["name"]) == 3
    assert tables["kernels"]["grid"][0] == "[1,2,3]"
    assert tables["memory_events"]["size_bytes"] == [-8] * 3


@pytest.mark.parametrize("block_bytes", [1000, 4 << 20])
@pytest.mark.parametrize(
    "time",
    [
        "1712195495519689.047",
        "1712195495519689",
        "1712195495519689.0475",
        "1.712195495519689047e15",
        "1712195495519689.1e2",
        "-1712195495519689.047",
        "9999999999999999999999.047",
        "99999999999999999999990471712195495519689.047",
        "0.500",
        "007.500",
        '\\"1712195495519689.047\\"',
        '\\"soon\\"',
        "null",
        "true",
        "[1,2.047]",
        "NaN",
    ],
)
def test_times_that_no_float_holds_are_read_alike_in_every_notation(read, time, block_bytes):
    exact = [each | {"ts": f"@17121954955196{n:02}.047@"} for n, each in enumerate(every(), 10)]
    odd = event("cpu_op", 1, ts=f"@{time}@")
    is_plain, tables = read([*exact, odd, *exact, *NAMED], block_bytes=block_bytes)
    assert all(is_plain[1:2]) or time in ("007.500", "NaN")
    begun = {ns - ns % 10**11 for ns in tables["python_calls"]["start_ns"]}
    assert begun == {1_712_195_495_519_600_000 - 1_712_195_495_519_600_000 % 10**11}
    assert {ns % 1000 for ns in tables["python_calls"]["start_ns"]} == {47}


def test_a_trace_of_absolute_times_is_plain(read):
    exact = [each | {"ts": f"@17121954955196{n:02}.047@"} for n, each in enumerate(every(), 10)]
    is_plain, tables = read([*exact, *NAMED])
    assert is_plain == [True]
    assert tables["cpu_ops"]["start_ns"][0] == 1_712_195_495_519_610_047


@pytest.mark.parametrize(
    "odd",
    [
        event("cpu_op", 1, ph="B"),
        event("cpu_op", 1, name=5),
        event("cpu_op", 1, args=None),
        event("cpu_op", 1, args={"External id": [1]}),
        event("kernel", 1, ts="12.5", args={"stream": {"a": 1}}),
        event("of nobody", 1),
        event("ac2g", 1) | {"ph": "X"},
        event("cpu_instant_event", 1, name="[other]"),
        event("cuda_profiler_range", 1, args={"sm__cycles": 4.5}),
        {"ph": "X", "name": "without category", "ts": 1, "dur": 1},
        {"name": "process_name", "cat": "__metadata", "ph": "M", "args": {"name": "x"}},
        7,
    ],
    ids=lambda odd: json.dumps(odd)[:60],
)
def test_a_block_with_an_event_of_another_notation_is_read_as_ever(read, odd):
    is_plain, tables = read([*every(), odd, *NAMED])
    assert is_plain == [False]
    assert len(tables["python_calls"]["name"]) == 3


@pytest.mark.parametrize("near", [64, 128 << 10])
@pytest.mark.parametrize("where", ["at the end", "at the beginning", "around the rows"])
def test_what_describes_processes_may_stand_anywhere(read, monkeypatch, where, near):
    monkeypatch.setattr(plain_events, "_NEAR_BYTES", near)
    threads = [NAMED[1] | {"tid": number} for number in range(30)]
    described = [NAMED[0], *threads, NAMED[0] | {"pid": "Spans"}]
    events = {
        "at the end": [*every(), *described, NAMED[2]],
        "at the beginning": [*described, NAMED[2], *every()],
        "around the rows": [*described, *every(), NAMED[2]],
    }
    is_plain, tables = read(events[where])
    assert is_plain == [True] or near == 64
    assert len(tables["python_calls"]["name"]) == 3


def test_what_looks_like_metadata_within_arguments_is_left_alone(read):
    within = event("cpu_op", 1, args={"Input type": ["process_name", "Record Window End"]})
    assert read([*every(), within, *NAMED])[1]["cpu_ops"]["input_types"].count(
        '["process_name","Record Window End"]'
    )


def test_what_is_no_json_is_said_where_it_is():
    with pytest.raises(reader.msgspec.DecodeError, match=r"\(byte 12\)"):
        plainly(b'[{"ph": "X",]', Block)
    assert plainly(b'{"traceEvents": [], "schemaVersion": 1}', header.PlainDocument) is not None
