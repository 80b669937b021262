"""Traces of strangers: what would fill memory or last for ever is refused, and said."""

import gzip
import json

import pytest

from profkit.convert import _unpacked
from profkit.convert.linking import tree, windows
from profkit.convert.torch_profiler import reader, trace
from profkit.core.errors import InputError

HEAD = b'{"schemaVersion": 1, "traceEvents": ['


def event(**more):
    base = {"ph": "X", "cat": "cpu_op", "name": "op", "pid": 1, "tid": 1, "ts": 1, "dur": 2}
    return json.dumps(base | more).encode()


def document(*events):
    return HEAD + b",".join(events) + b"]}"


ONE, TWO = document(event()), document(event(name="second"))
LARGE = r"an event, or what follows the last, near byte \d+, takes more than 0 MiB"


@pytest.fixture
def read(tmp_path):
    def convert(content, **options):
        path = tmp_path / "rank0.json"
        path.write_bytes(content)
        return trace.read(path, **options)

    return convert


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (gzip.compress(HEAD + b" " * (1 << 20)), "as those of a gzip bomb do"),
        (HEAD + b" " * 50_000 + b"]}", LARGE),
        (HEAD + event(name="x" * 50_000) + b"]}", LARGE),
        (HEAD + event(args={"x": [[]] * 20_000}) + b"]}", LARGE),
        (document(event())[:-1] + b',"x":"' + b"x" * 50_000 + b'"}', LARGE),
        (ONE + document(*[event()] * 9000), "what follows the list of events, near byte"),
        (document(*(event(tid=tid) for tid in range(12))), "more than 10 threads or processes"),
        (document(*(event(pid=pid) for pid in range(12))), "more than 10 threads or processes"),
        (document(*(event(pid=f"p{pid}z") for pid in range(12))), "more than 10 threads or proc"),
        (document(*(event(pid=n % 4, tid=n // 4) for n in range(12))), "more than 10 threads"),
        (document(*(event(ts=n, dur=90 - 2 * n) for n in range(22))), "20 of its rows lie inside"),
        (document(*(event(ts=n, dur=90 - n) for n in range(22))), "20 of its rows lie inside"),
    ],
    ids=[
        *("gzip bomb", "blank", "one name", "nested arguments", "keys after the events"),
        "another trace",
        *("threads", "processes", "named processes", "both", "levels", "levels that cross"),
    ],
)
def test_what_has_no_end_is_refused(read, monkeypatch, content, says):
    monkeypatch.setattr(_unpacked, "_ALWAYS_BYTES", 1 << 16)
    monkeypatch.setattr(reader, "_EVENT_BYTES", 1 << 14)
    monkeypatch.setattr(reader, "_HEADER_BYTES", 1 << 14)
    monkeypatch.setattr(windows, "_MOST_THREADS", 10)
    monkeypatch.setattr(tree, "_MOST_LEVELS", 20)
    with pytest.raises(InputError, match=says):
        read(content, block_bytes=1 << 12)


@pytest.mark.parametrize("coding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_wide_text_is_named(read, coding):
    with pytest.raises(InputError, match="UTF-16 or UTF-32"):
        read(document(event()).decode().encode(coding))


ANOTHER = "Another list of events follows the first and was left out: give each trace in a file"


@pytest.mark.parametrize(
    ("content", "note"),
    [
        (gzip.compress(ONE + TWO), ANOTHER),
        (gzip.compress(ONE) + gzip.compress(TWO), ANOTHER),
        (b"[" + event() + b"][" + event(name="second") + b"]", ANOTHER),
        (ONE[:-1] + b', "traceEvents": [' + event(name="second") + b"]}", ANOTHER),
        (ONE + b"rubbish", "7 bytes follow the end of the trace and were left out."),
    ],
    ids=["documents in one gzip", "members", "lists", "keys", "rubbish"],
)
def test_what_follows_the_trace_is_said_to_be_left_out(read, content, note):
    found = read(content)
    assert found.tables["cpu_ops"]["name"].to_pylist() == ["op"]
    [said] = found.notes
    assert said.startswith(note)


def test_events_that_stand_there_twice_are_counted(read):
    kernels = [
        event(cat="kernel", ts=5 * n, args={"device": 0, "stream": 7, "correlation": n})
        for n in range(3)
    ]
    operators = [event(ts=10 * n) for n in range(4)]
    other_stream = event(cat="kernel", args={"device": 0, "stream": 8, "correlation": 1})
    moment = event(cat="kernel", dur=0, args={"device": 0, "stream": 7, "correlation": 1})
    said = "{} in the file twice, with the same times: both count."
    assert read(document(*kernels, *operators, other_stream, moment, moment)).notes == ()
    for events, what in (
        (kernels, "3 kernels, copies or sets stand"),
        (operators, "4 operators or annotations stand"),
        ([event(cat="cuda_runtime")], "1 call of the runtime stands"),
        ([event(cat="python_function", name="a.py(1): f")], "1 call of Python stands"),
        ([event(cat="cpu_instant_event", ph="i", name="[memory]")], "1 allocation or free stands"),
    ):
        assert read(document(other_stream, *events, *events)).notes == (said.format(what),)


def launched(number, at=0, dur=1, **args):
    """Return a call, and the kernel that it launches 5 us later, or at another time."""
    args = {"device": 0, "stream": 7, "correlation": number} | args
    call = event(cat="cuda_runtime", name="cudaLaunchKernel", ts=10 * number, args=args)
    return call, event(cat="kernel", name="gemm", ts=10 * number + 5 + at, dur=dur, args=args)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ([launched(n) for n in (31, 32)], None),
        ([launched(n)[1:] for n in range(31, 43)], "12 of 42 kernels, copies or sets have no call"),
        ([launched(n)[:1] for n in range(31, 43)], "12 of 42 launches have no work on a device"),
        ([launched(31, at=-2000)], "1 kernel, copy or set begins before the call that launched"),
        ([launched(31, at=9e9)], "1 kernel, copy or set begins after the last launch, by 10"),
        ([launched(31, dur=50), launched(32)], "1 kernel, copy or set begins before the one"),
        ([launched(31, dur=50), launched(32, stream=8)], None),
        ([launched(31, device=5)], "1 device with work is not among those that are described: 5"),
    ],
)
def test_work_that_contradicts_its_launch_or_its_stream_is_counted(read, changed, said):
    events = [one for pair in (*map(launched, range(1, 31)), *changed) for one in pair]
    described = b'{"deviceProperties": [{"id": 0, "name": "x"}], "traceEvents": ['
    notes = read(document(*events).replace(HEAD, described)).notes
    assert [note.startswith(said) for note in notes] == ([True] if said else [])


def kernel(cat="kernel", **args):
    args = {"device": 0, "stream": 7, "correlation": 1} | args
    return event(cat=cat, name="gemm", ts=20, dur=5, args=args)


def memory(**args):
    args = {"Device Type": 1, "Device Id": 0, "Bytes": 8, "Total Allocated": 8} | args
    return event(cat="cpu_instant_event", ph="i", name="[memory]", args=args)


def collective(**args):
    base = {"Collective name": "allreduce", "Group size": 2, "Process Group Ranks": "[0, 1]"}
    return kernel(**base | {"In msg nelems": 64, "Out msg nelems": 64} | args)


def step(number, dur):
    return event(cat="user_annotation", name=f"ProfilerStep#{number}", ts=10 * number, dur=dur)


CALL = event(cat="cuda_runtime", name="cudaLaunchKernel", args={"correlation": 1})


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([collective(), memory(**{"Total Reserved": 64}), step(1, 10), step(2, 10), CALL], None),
        ([kernel(block=[4096, 1, 1])], "Kernels have a block that no GPU can launch: [4096,1,1]."),
        ([kernel(block=["x"], grid=[[]])], None),
        ([kernel(grid=[0, 1, 1])], "Kernels have a grid that no GPU can launch: [0,1,1]."),
        ([kernel(**{"registers per thread": 5000})], "1 kernel has more registers than any GPU"),
        ([kernel(**{"shared memory": 10**10})], "1 kernel has more shared memory bytes than any"),
        (
            [kernel(**{"est. achieved occupancy %": 250})],
            "1 kernel has more occupancy percent than any GPU, which has 100.",
        ),
        ([kernel("gpu_memcpy", bytes=1 << 40)], "1 copy or set moves more than 100 TB/s."),
        ([CALL, event(cat="cuda_runtime", args={"correlation": 1})], "1 call has the id of"),
        ([memory(**{"Total Reserved": 4})], "1 allocation or free leaves more memory allocated"),
        ([memory(**{"Total Reserved": 1 << 41})], "More memory is reserved than the GPU has"),
        ([collective(**{"Group size": 64})], "1 collective states a group size that is not the"),
        ([collective(**{"Out msg nelems": 6})], "1 collective of kind allreduce gets other"),
        ([step(1, 15), step(2, 10)], "1 step begins before the one before it has ended."),
        ([kernel(device=3)], "1 device with work is not among those that are described: 3."),
    ],
)
def test_what_no_gpu_and_no_allocator_does_is_said(read, events, said):
    described = (
        b'{"deviceProperties":[{"id":0,"name":"NVIDIA A100","totalGlobalMem":1099511627776}]'
    )
    notes = read(document(*events).replace(HEAD, described + b',"traceEvents": [')).notes
    assert any(note.startswith(said) for note in notes) if said else not notes, notes


@pytest.mark.parametrize(
    ("info", "said"),
    [
        ('{"rank": 0, "world_size": 2, "pg_config": []}', None),
        ('{"rank": 5, "world_size": 2, "pg_config": []}', "distributedInfo contradicts itself: r"),
        ('{"rank": 0, "world_size": 0}', "distributedInfo states no number of ranks."),
        (
            '{"rank": 0, "world_size": 2, "pg_config": [{"pg_name": "0", "ranks": [0, 9]}]}',
            "1 group in distributedInfo has ranks that contradict their numbers.",
        ),
        (
            '{"rank": 0, "world_size": 9, "pg_config": [{"pg_size": 4, "ranks": [0, 1]}]}',
            "1 group in distributedInfo has ranks that contradict their numbers.",
        ),
    ],
)
def test_ranks_and_groups_that_contradict_one_another_are_said(read, info, said):
    given = b'{"distributedInfo": %s, "traceEvents": [' % info.encode()
    notes = read(ONE.replace(HEAD, given)).notes
    assert [note.startswith(said) for note in notes] == ([True] if said else []), notes


def test_devices_that_are_described_twice_are_said(read):
    described = b'{"deviceProperties":[{"id":0,"name":"a"},{"id":0,"name":"b"}],"traceEvents": ['
    assert read(ONE.replace(HEAD, described)).notes == ("1 device is described twice.",)


def test_absurd_numbers_are_unknown_and_counted(read):
    args = {"device": 10**18, "stream": 7, "bytes": 10**17, "registers per thread": -(10**12)}
    memory = {"Bytes": 2**62, "Total Allocated": -(2**60), "Total Reserved": 512, "Device Type": 1}
    found = read(
        document(
            event(cat="gpu_memcpy", args=args),
            event(cat="cpu_instant_event", ph="i", name="[memory]", args=memory),
        )
    )
    [copy] = found.tables["kernels"].to_pylist()
    assert (copy["device"], copy["size_bytes"], copy["registers"]) == (-1, -1, -1)
    [change] = found.tables["memory_events"].to_pylist()
    assert (change["size_bytes"], change["allocated_bytes"], change["reserved_bytes"]) == (
        0,
        -1,
        512,
    )
    assert found.notes == (
        "5 numbers of devices, sizes or registers are absurd: unknown.",
        "1 kernel, copy or set states no device: unknown.",
    )


NO_NUMBER = "1 value is no number where numbers belong: unknown."
UNREADABLE = {
    "kernel": ("correlation", "stream", "device", "bytes", "registers per thread", "graph id"),
    "gpu_memcpy": ("correlation", "device", "bytes"),
    "cuda_runtime": ("correlation", "External id"),
    "cpu_op": ("External id", "Sequence number", "Fwd thread id"),
    "cuda_sync": ("stream", "correlation", "wait_on_stream"),
}
ARGS = {"device": 0, "stream": 7, "correlation": 1}


@pytest.mark.parametrize("value", [None, [1], {"a": 1}, True, 1e30, 10**30])
@pytest.mark.parametrize(
    ("cat", "key"), [(cat, key) for cat, keys in UNREADABLE.items() for key in keys]
)
def test_what_is_no_number_is_unknown_and_counted(read, cat, key, value):
    assert read(document(event(cat=cat, args=ARGS))).notes == ()
    assert NO_NUMBER in read(document(event(cat=cat, args=ARGS | {key: value}))).notes


@pytest.mark.parametrize("value", [None, [1], {"a": 1}, True])
@pytest.mark.parametrize("key", ["pid", "tid"])
@pytest.mark.parametrize("cat", ["cpu_op", "cuda_runtime", "python_function", "user_annotation"])
def test_a_thread_that_is_no_number_is_counted(read, cat, key, value):
    assert NO_NUMBER in read(document(event(cat=cat, **{key: value}))).notes


NAMELESS = "1 {} has no name, or none that is text: blank."


@pytest.mark.parametrize(
    ("changed", "note"),
    [
        ({"name": None}, NAMELESS.format("operator or annotation")),
        ({"name": ["x"]}, NAMELESS.format("operator or annotation")),
        ({"name": None, "cat": "cuda_runtime"}, NAMELESS.format("call of the runtime")),
        ({"name": "", "cat": "python_function"}, NAMELESS.format("call of Python")),
        (
            {"name": None, "cat": "kernel", "args": ARGS},
            NAMELESS.format("kernel, copy or set"),
        ),
        ({"ph": "Q"}, "1 event of unknown categories or kinds (\"cpu_op with ph 'Q'\")"),
        ({"ph": None}, "1 event of unknown categories or kinds (\"cpu_op with ph ''\")"),
        ({"ph": "i"}, "1 event of unknown categories or kinds (\"cpu_op with ph 'i'\")"),
        (
            {"ph": "i", "cat": "cpu_instant_event", "name": "memory"},
            "1 event of unknown categories or kinds (\"cpu_instant_event with ph 'i'\")",
        ),
        ({"cat": "kernel", "args": ARGS | {"stream": -5}}, "1 number of devices, sizes or"),
        ({"cat": "kernel", "args": ARGS | {"bytes": -5}}, "1 number of devices, sizes or"),
    ],
)
def test_what_is_blank_or_of_no_kind_is_counted(read, changed, note):
    assert any(said.startswith(note) for said in read(document(event(), event(**changed))).notes)


@pytest.mark.parametrize("name", [b"caf\xe9", b"\xff\xfe", b"\x80abc", b"\xc3("])
@pytest.mark.parametrize("cat", ["cpu_op", "kernel", "cuda_runtime", "python_function"])
def test_names_that_are_not_utf_8_are_counted(read, cat, name):
    content = document(event(cat=cat, name="NAME", args=ARGS)).replace(b"NAME", name)
    assert "1 text holds bytes that are not UTF-8, shown as \ufffd." in read(content).notes


@pytest.mark.parametrize(
    ("keys", "note"),
    [
        ({"baseTimeNanoseconds": "x"}, "baseTimeNanoseconds is no time"),
        ({"baseTimeNanoseconds": -5}, "baseTimeNanoseconds is no time"),
        ({"baseTimeNanoseconds": [1]}, "baseTimeNanoseconds is no time"),
        ({"distributedInfo": {"rank": "x"}}, "distributedInfo states no rank."),
        (
            {"distributedInfo": {"rank": 1, "world_size": 8}},
            "Rank 1 of 8; the trace says nothing of their groups.",
        ),
        (
            {
                "distributedInfo": {
                    "rank": 1,
                    "world_size": 2,
                    "pg_config": [{"pg_name": name, "pg_size": 2} for name in "01"],
                }
            },
            "Rank 1 of 2; no call says its group.",
        ),
        ({"distributedInfo": [1]}, "distributedInfo states no rank."),
        ({"deviceProperties": 7}, "1 of the devices in deviceProperties"),
        ({"deviceProperties": [{"id": None, "name": "A"}]}, "1 of the devices in"),
        ({"deviceProperties": [{"id": 0, "name": ["A"]}]}, "1 of the devices in"),
        ({"deviceProperties": [{"id": 0, "name": "A", "numSms": "x"}]}, "1 of the devices in"),
    ],
)
def test_keys_that_hold_something_else_are_said(read, keys, note):
    head = json.dumps(keys).encode()[1:-1]
    content = document(event())
    found = read(content.replace(b'"traceEvents"', head + b', "traceEvents"')).notes
    assert [said.startswith(note) for said in found] == [True]
