"""Every real trace, damaged in every way: what is left is read, and what is lost is said."""

import gzip
import json
import random
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profkit.convert.torch_profiler import trace as kineto
from profkit.core.errors import InputError
from profkit.tables import schema
from tests.convert.torch_profiler import damage

# The large ones, which take most of the time, come to harm in one way each, which leaves most of
# their values alone; the eight ranks of one program between them in every way.
LARGE_BYTES = 100_000
WAYS_OF_LARGE = [way for way in damage.WAYS if way not in ("values of any kind", "no events")]
ALIKE = "dlrm_8rank_v100"


@pytest.fixture(scope="module")
def traces(real_data):
    """Return the number and the path of every trace."""
    return list(enumerate(sorted((real_data / "kineto").rglob("*.json*"))))


def read(path):
    """Return the trace at `path`, or None where too little of it is left; all else is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            trace = kineto.read(path, rank=0, block_bytes=1 << 18)
        except InputError as error:
            assert "cut off before the first" in str(error) or "without" in str(error)  # noqa: PT017
            return None
    for name, table in trace.tables.items():
        assert table.schema.equals(schema.TABLES[name]), name
    check(trace.tables)
    return trace


def check(tables):
    """Rows refer to rows that are there, and nothing ends before it begins."""
    ops = len(tables["cpu_ops"])
    for name, table in tables.items():
        rows = {column: table[column].to_numpy() for column in table.column_names}
        for column in {"op", "parent"} & set(rows):
            assert ((rows[column] >= -1) & (rows[column] < ops)).all(), (name, column)
        if "end_ns" in rows:
            assert (rows["end_ns"] >= rows["start_ns"]).all(), name


def size(trace):
    return sum(map(len, trace.tables.values())) if trace else 0


def comes_to_harm(number, file, way):
    if file.stat().st_size > LARGE_BYTES:
        return way == WAYS_OF_LARGE[number % len(WAYS_OF_LARGE)]
    return file.parent.name != ALIKE or way == list(damage.WAYS)[number % len(damage.WAYS)]


@pytest.mark.parametrize("way", damage.WAYS)
def test_every_trace_is_read_as_far_as_it_goes(traces, tmp_path, way):
    path = tmp_path / "damaged.json"
    for number, file in traces:
        if not comes_to_harm(number, file, way):
            continue
        text = damage.unpacked(file.read_bytes())
        path.write_bytes(damage.WAYS[way](text, random.Random(number)))  # noqa: S311
        trace = read(path)
        if way.startswith("cut") and trace:
            said = ("cut off at byte", "keys beside the events are damaged")
            assert any(part in note for note in trace.notes for part in said), file
        if way == "durations that are NaN" and size(trace):
            assert any("without a usable duration" in note for note in trace.notes), file
        if way == "no events":
            assert trace.notes == ("The trace holds no operator, call, kernel or allocation.",)


@pytest.mark.parametrize("way", ["cut at 50 %", "a byte changed"])
def test_damage_to_the_compressed_file_is_said_too(traces, tmp_path, way):
    path = tmp_path / "damaged.json.gz"
    for number, file in traces:
        content = file.read_bytes()
        is_packed = content != damage.unpacked(content)
        if len(content) > LARGE_BYTES or not is_packed or not comes_to_harm(number, file, way):
            continue
        # Ten bytes of header hold nothing that matters, but for the first two.
        harmed = damage.WAYS[way](content[10:], random.Random(number))  # noqa: S311
        path.write_bytes(content[:10] + harmed)
        trace = read(path)
        assert trace is None or any("gzip data" in note for note in trace.notes), file


def test_one_changed_byte_costs_at_most_a_few_events(traces, tmp_path):
    path = tmp_path / "damaged.json"
    for number, file in traces:
        text = damage.unpacked(file.read_bytes())
        is_small = len(text) >= 20_000 and file.stat().st_size <= LARGE_BYTES
        if not is_small or not comes_to_harm(number, file, "a byte changed"):
            continue
        whole = size(read(file))
        # Behind the keys that say what the file is.
        head = text.index(b'"traceEvents"') + 20
        changed = damage.byte_changed(text[head:], random.Random(number))  # noqa: S311
        path.write_bytes(text[:head] + changed)
        assert size(read(path)) >= 0.95 * whole, file


SMALL = [
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 10, "dur": 20.5, "tid": "7",
     "args": {"External id": 1, "Input Dims": [[2, 3], []], "Sequence number": 4}},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 12, "dur": 2, "tid": 7,
     "args": {"correlation": 9}},
    {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce", "ts": 40, "dur": 5, "tid": 2,
     "args": {"correlation": 9, "device": 0, "stream": 2, "grid": [1, 2, 3], "dtype": "Float",
              "Collective name": "allreduce", "In msg nelems": 8, "Group size": 2}},
    {"ph": "X", "cat": "cuda_profiler_range", "name": "k", "ts": 50, "dur": 5,
     "args": {"flops": 3}},
    {"ph": "B", "cat": "cpu_op", "name": "b", "ts": 60}, {"ph": "E", "ts": 70},
    {"ph": "i", "name": "[memory]", "ts": 15, "args": {"Bytes": -8, "Addr": 2**63, "Device Id": 0}},
    {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#3", "ts": 5, "dur": 90},
]  # fmt: skip
TEXT = json.dumps({"schemaVersion": 1, "distributedInfo": {"rank": 1}, "traceEvents": SMALL})


@settings(max_examples=100, derandomize=True)
@given(
    chance=st.randoms(use_true_random=False),
    ways=st.lists(st.sampled_from(list(damage.WAYS.values())), min_size=1, max_size=3),
    packed=st.booleans(),
)
def test_no_damage_is_an_error_of_another_kind(tmp_path, chance, ways, packed):
    content = TEXT.encode()
    for way in ways:
        content = way(content, chance) if content else content
    if packed:
        content = damage.byte_changed(gzip.compress(content), chance)
    path = tmp_path / "damaged.json"
    path.write_bytes(content)
    try:
        kineto.stated_rank(path)
        check(kineto.read(path).tables)
    except InputError as error:
        assert "\n  hint: " in str(error)  # noqa: PT017


@settings(max_examples=100, derandomize=True)
@given(content=st.binary(max_size=80) | st.text('[]{}",:traceEvnsphX0-.N \\\n').map(str.encode))
def test_no_text_is_an_error_of_another_kind(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_bytes(content)
    try:
        kineto.stated_rank(path)
        kineto.read(path)
    except InputError as error:
        assert "\n  hint: " in str(error)  # noqa: PT017


def test_a_rank_that_no_table_can_hold_is_not_known(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text(TEXT.replace('"rank": 1', f'"rank": {2**63}'))
    assert kineto.stated_rank(path) == -1
