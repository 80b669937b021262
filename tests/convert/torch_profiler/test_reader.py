"""The reader: every form of file, every kind of damage."""

import gzip
import json
import math

import pytest

from profkit.convert.torch_profiler import trace as kineto
from profkit.convert.torch_profiler.args import MemoryArgs, WorkArgs, arguments
from profkit.convert.torch_profiler.reader import Reader
from profkit.core.errors import InputError

EVENT = '{"ph": "X", "cat": "cpu_op", "name": "%s", "pid": 1, "tid": 1, "ts": %d, "dur": 1}'


def events(count):
    return [EVENT % (f"op{number}", number) for number in range(count)]


def names(path, **options):
    reader = Reader(path, **options)
    found = [event.name for block in reader for event in block]
    return found, reader


@pytest.fixture
def trace(tmp_path):
    def write(text, name="trace.json"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def test_keys_before_and_after_the_events_are_read(trace):
    path = trace(
        '{"schemaVersion": 1, "distributedInfo": {"rank": 3}, "traceEvents": ['
        + ",".join(events(2))
        + '], "baseTimeNanoseconds": 1700000000000000000}'
    )
    found, reader = names(path)
    assert found == ["op0", "op1"]
    assert (reader.header.rank, reader.header.base_ns) == (3, 1_700_000_000_000_000_000)
    assert reader.notes == []


def test_a_bare_list_is_a_trace(trace):
    found, reader = names(trace("[" + ",\n".join(events(3)) + "]"))
    assert found == ["op0", "op1", "op2"]
    assert reader.notes == []


def test_a_rank_that_is_no_number_is_unknown(trace):
    _, reader = names(trace('{"distributedInfo": {"rank": "x"}, "traceEvents": []}'))
    assert reader.header.rank == -1


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("block_bytes", [100, 1000, 100_000])
def test_blocks_of_any_size_give_the_same_events(trace, indent, block_bytes):
    nested = {
        "args": {"list": [{"ph": "X", "name": "no"}, {"name": "event"}], "text": '}, {"ph": '}
    }
    given = [json.loads(event) | nested for event in events(500)]
    path = trace(json.dumps({"traceEvents": given, "tail": given[:3]}, indent=indent))
    found, reader = names(path, block_bytes=block_bytes)
    assert found == [f"op{number}" for number in range(500)]
    assert reader.notes == []


def test_gzip_of_several_members_is_read_whole(trace):
    text = ('{"traceEvents": [' + ",".join(events(4)) + "]}").encode()
    path = trace(gzip.compress(text[:60]) + gzip.compress(text[60:]))
    assert names(path)[0] == ["op0", "op1", "op2", "op3"]


def test_a_truncated_file_gives_what_is_there_and_says_where_it_ends(trace):
    text = '{"schemaVersion": 1, "traceEvents": [' + ",".join(events(10))
    found, reader = names(trace(text[:-20]))
    assert found == [f"op{number}" for number in range(9)]
    assert reader.notes == [
        (
            f"The trace is cut off at byte {len(text) - 20}: later events are missing, and times"
            " count from an unknown start."
        ),
        f"1 event could not be read (near byte {len(text) - len(events(10)[-1])}).",
    ]


@pytest.mark.parametrize("block_bytes", [300, 1 << 20])
@pytest.mark.parametrize(
    ("times", "is_said"),
    [(range(100), False), ([*range(50), *range(50)], True), ([*range(50), 48, *range(50)], True)],
    ids=["in order", "one thread after the other", "a little back, then all"],
)
def test_what_a_cut_file_lacks_is_of_any_time_unless_it_is_in_order(
    trace, times, is_said, block_bytes
):
    text = "[" + ",".join(EVENT % (f"op{at}", time) for at, time in enumerate(times))
    found = kineto.read(trace(text), block_bytes=block_bytes).notes
    assert ("not in the order of time" in " ".join(found)) == is_said
    assert kineto.read(trace(text + "]")).notes == ()


@pytest.mark.parametrize(
    ("end", "notes"),
    [
        (",\n]", []),
        (', ], "schemaVersion": 7}', []),
        (",", ["The trace is cut off at byte"]),
    ],
)
def test_a_comma_after_the_last_event_costs_nothing(trace, end, notes):
    begin = "[" if end.endswith("]") else '{"traceEvents": ['
    found, reader = names(trace(begin + ",".join(events(10)) + end))
    assert found == [f"op{number}" for number in range(10)]
    assert [note.partition(" byte")[0] + " byte" for note in reader.notes] == notes
    assert reader.header.schemaVersion == (7 if end.endswith("}") else None)


def test_truncated_gzip_gives_what_can_be_decompressed(trace):
    text = ('{"traceEvents": [' + ",".join(events(20_000)) + "]}").encode()
    compressed = gzip.compress(text)
    found, reader = names(trace(compressed[: len(compressed) // 2]))
    assert 5_000 < len(found) < 15_000
    assert found == [f"op{number}" for number in range(len(found))]
    assert reader.notes[0].startswith("The gzip data ends early, after byte ")


def test_a_damaged_event_costs_only_itself(trace):
    given = events(6)
    given[2] = given[2].replace('"op2"', '"op2')
    given[4] = given[4].replace('"ts"', '"t\x01s"')
    found, reader = names(trace('{"traceEvents": [' + ",".join(given) + '], "schemaVersion": 7}'))
    assert found == ["op0", "op1", "op3", "op5"]
    assert reader.header.schemaVersion == 7
    assert [note.partition(" (")[0] for note in reader.notes] == ["2 events could not be read"]


def test_numbers_that_are_not_json_are_unknown_and_text_stays(trace):
    given = (
        '{"ph":"X","name":"a: NaN, b","ts":1,"dur":NaN,"args":{"bytes":-Infinity,"Addr":inf}},'
        '{"ph":"X","name":"list","ts":1,"dur":1,"args":{"x":[1,NaN,"[nan, 1]"],"stream":7}}'
    )
    path = trace('{"traceEvents": [' + given + "]}")
    [first, second] = [event for block in Reader(path) for event in block]
    work, memory = arguments([first, second], WorkArgs), arguments([first], MemoryArgs)
    assert (first.name, first.dur, work[0].size, memory[0].address) == (
        "a: NaN, b",
        None,
        None,
        None,
    )
    assert (second.name, work[1].stream) == ("list", 7)


def test_values_of_unexpected_types_do_not_cost_the_event(trace):
    given = (
        '{"ph":"X","name":5,"cat":null,"ts":1,"dur":[1],"pid":true,"args":"none"},'
        '7,{"ph":"X","name":"b","ts":2,"args":{"bytes":{"a":1},"grid":[1, 2]}}'
    )
    [first, second] = [e for block in Reader(trace(f"[{given}]")) for e in block]
    assert (first.name, first.cat, first.dur, first.pid) == ("5", "", None, None)
    none, some = arguments([first, second], WorkArgs)
    assert none == WorkArgs()
    assert (some.size, bytes(some.grid)) == (None, b"[1,2]")


def test_damaged_text_in_arguments_does_not_cost_the_others(trace):
    given = b'{"ph":"X","ts":1,"args":{"stream":%s,"bytes":%s}}'
    path = trace(b"[" + given % (b'"\xff"', b"8") + b"," + given % (b"7", b"1e999") + b"]")
    found = arguments([e for block in Reader(path) for e in block], WorkArgs)
    assert [(buffer.stream, buffer.size) for buffer in found] == [
        ("\N{REPLACEMENT CHARACTER}", 8),
        (7, math.inf),
    ]


def test_text_that_is_not_utf8_is_replaced(trace):
    path = trace(b'[{"ph":"X","name":"a\xff","ts":1}]')
    assert names(path)[0] == ["a\N{REPLACEMENT CHARACTER}"]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "the file is empty"),
        (b"  \n", "the file is empty"),
        (gzip.compress(b"x" * 100, mtime=0)[:9], "the file is empty"),
        (b"\x80\x04\x95", "a Python pickle"),
        (b"SQLite format 3\x00", "an SQLite database"),
        (b"PK\x03\x04", "a zip archive"),
        (b"\x0a\x0bplugin", "neither JSON nor gzip"),
        (b"hello", "neither JSON nor gzip"),
        (b'{"nodes": []}', "JSON without `traceEvents`"),
        (b'{"schemaVersion": 1, "devicePr', "cut off before the first event, after 30 bytes"),
        (b'{"text": "\\"traceEvents\\": ["}', "JSON without `traceEvents`"),
    ],
)
def test_what_is_no_trace_is_named(trace, content, says):
    with pytest.raises(InputError, match=says):
        names(trace(content))


def test_gzip_with_a_wrong_checksum_still_gives_everything(trace):
    content = bytearray(gzip.compress(("[" + ",".join(events(5)) + "]").encode()))
    content[-6] ^= 1
    found, reader = names(trace(bytes(content)))
    assert found == ["op0", "op1", "op2", "op3", "op4"]
    assert reader.notes[0].startswith("The gzip data is damaged near byte ")


def test_nesting_of_any_depth_costs_only_its_event(trace):
    given = events(4)
    given[1] = given[1].replace("}", ', "args": ' + "[" * 20_000 + "]" * 20_000 + "}")
    found, reader = names(trace('{"traceEvents": [' + ",".join(given) + "]}"))
    assert found == ["op0", "op2", "op3"]
    assert [note.partition(" (")[0] for note in reader.notes] == ["1 event could not be read"]


@pytest.mark.parametrize(
    ("tail", "rank"),
    [("]", -1), ("],", -1), ('], "distributedInfo": {"rank": 3}', 3),
     ('], "distributedInfo": {"rank": 3}, "other": {"a": [1, 2', 3)],
)  # fmt: skip
def test_keys_cut_off_after_the_events_are_read_as_far_as_they_go(trace, tail, rank):
    found, reader = names(trace('{"traceEvents": [' + ",".join(events(2)) + tail))
    assert (found, reader.header.rank) == (["op0", "op1"], rank)
    assert reader.notes == ["The keys beside the events are damaged: only some or none were read."]
