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
        event(cat="kernel", ts=n, args={"device": 0, "stream": 7, "correlation": n})
        for n in range(3)
    ]
    operators = [event(ts=10 * n) for n in range(4)]
    other_stream = event(cat="kernel", args={"device": 0, "stream": 8, "correlation": 1})
    moment = event(cat="kernel", dur=0, args={"device": 0, "stream": 7, "correlation": 1})
    said = "{} kernels or operators stand in the file twice, with the same times: both count."
    assert read(document(*kernels, *operators, other_stream, moment, moment)).notes == ()
    assert read(document(*kernels, *kernels, *operators)).notes == (said.format(3),)
    assert read(document(*operators, *operators)).notes == (said.format(4),)


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
    assert found.notes == ("5 numbers of devices, sizes or registers are absurd: unknown.",)
