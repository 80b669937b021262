"""What readers note is one sentence for one thing, and another for several."""

import pickle
import sqlite3
from contextlib import closing

import msgspec
import pytest

from profkit.convert import py_spy
from profkit.convert.memory_snapshot import snapshot
from profkit.convert.nsys import statistics
from profkit.convert.torch_profiler import trace
from tests.convert.memory_snapshot import test_bounds as snapshots
from tests.convert.nsys import reports
from tests.convert.torch_profiler import test_bounds as traces


def kernel(n, **args):
    own = {"device": 0, "stream": 7, "correlation": n} | args
    return traces.event(cat="kernel", name="gemm", ts=100 * n, args=own)


TRACES = {
    "no time": (
        lambda n: traces.event(ts=None, name=f"op {n}"),
        "1 event without a usable time was left out.",
        "2 events without a usable time were left out.",
    ),
    "no duration": (
        lambda n: traces.event(dur=None, ts=10 * n),
        "1 event without a usable duration counts as 0 ns long.",
        "2 events without a usable duration count as 0 ns long.",
    ),
    "negative": (
        lambda n: traces.event(dur=-3, ts=10 * n),
        "1 event ends before it begins and counts as 0 ns long.",
        "2 events end before they begin and count as 0 ns long.",
    ),
    "absurd": (
        lambda n: kernel(n, bytes=-5),
        "1 number of devices, sizes or registers is absurd: unknown.",
        "2 numbers of devices, sizes or registers are absurd: unknown.",
    ),
    "unreadable": (
        lambda n: kernel(n, bytes=[1]),
        "1 value is no number where numbers belong: unknown.",
        "2 values are no numbers where numbers belong: unknown.",
    ),
    "category": (
        lambda n: b",".join(traces.event(ts=10 * n, **new) for new in ({}, {"cat": "new"})),
        "1 event of unknown categories or kinds ('new') was left out.",
        "2 events of unknown categories or kinds ('new') were left out.",
    ),
    "unpaired": (
        lambda n: traces.event(ph="B", ts=10 * n),
        "1 begin or end event has no partner and was left out.",
        "2 begin or end events have no partner and were left out.",
    ),
    "crossing": (
        lambda n: b",".join(traces.event(ts=100 * n + at, dur=20) for at in (0, 10)),
        "1 row ends after the row around it: asynchronous, without self time.",
        "2 rows end after the row around them: asynchronous, without self time.",
    ),
    "nameless": (
        lambda n: traces.event(name=None, ts=10 * n),
        "1 operator or annotation has no name, or none that is text: blank.",
        "2 operators or annotations have no name, or none that is text: blank.",
    ),
    "no device": (
        lambda n: kernel(n, device=10**18),
        "1 kernel, copy or set states no device: unknown.",
        "2 kernels, copies or sets state no device: unknown.",
    ),
    "twice": (
        lambda n: b",".join([traces.event(ts=10 * n)] * 2),
        "1 operator or annotation stands in the file twice, with the same times: both count.",
        "2 operators or annotations stand in the file twice, with the same times: both count.",
    ),
    "registers": (
        lambda n: kernel(n, **{"registers per thread": 600}),
        "1 kernel has more registers than any GPU, which has 512.",
        "2 kernels have more registers than any GPU, which has 512.",
    ),
    "memory": (
        lambda n: traces.memory(**{"Total Reserved": 4, "Addr": n}),
        "1 allocation or free leaves more memory allocated than is reserved.",
        "2 allocations or frees leave more memory allocated than is reserved.",
    ),
}


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("name", TRACES)
def test_of_a_trace(tmp_path, name, count):
    made, *sentences = TRACES[name]
    path = tmp_path / "rank0.json"
    path.write_bytes(traces.document(*(made(number) for number in range(1, count + 1))))
    notes = trace.read(path).notes
    assert sentences[count - 1] in notes
    assert sentences[2 - count] not in notes


ENTRY = snapshots.ENTRY
SNAPSHOTS = {
    "stream": (
        {"stream": -3},
        "1 entry of cuda:0 has a stream that no allocator writes.",
        "2 entries of cuda:0 have a stream that no allocator writes.",
    ),
    "action": (
        {"action": "x"},
        "1 entry of cuda:0 has an action that is not known, and changes nothing: 'x'.",
        "2 entries of cuda:0 have actions that are not known, and change nothing: 'x'.",
    ),
    "outside": (
        {"addr": 9},
        "1 allocation of cuda:0 lies in no segment.",
        "2 allocations of cuda:0 lie in no segment.",
    ),
    "no time": (
        {"time_us": -1, "action": "free_requested"},
        "1 entry of cuda:0 has no time.",
        "2 entries of cuda:0 have no time.",
    ),
}


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("name", SNAPSHOTS)
def test_of_a_snapshot(tmp_path, name, count):
    changed, *sentences = SNAPSHOTS[name]
    entries = [ENTRY | changed | {"addr": changed.get("addr", 4096) + n} for n in range(count)]
    path = tmp_path / "rank0.memory.pickle"
    path.write_bytes(pickle.dumps(snapshots.history(ENTRY, *entries), 4))
    notes = snapshot.read(path).notes
    assert sentences[count - 1] in notes
    assert sentences[2 - count] not in notes


REPORTS = {
    "end = start - 5": (
        "1 row of CUPTI_ACTIVITY_KIND_KERNEL ends before it starts: 0 ns long.",
        "2 rows of CUPTI_ACTIVITY_KIND_KERNEL end before they start: 0 ns long.",
    ),
    "end = NULL": (
        "1 row of CUPTI_ACTIVITY_KIND_KERNEL has no end: 0 ns long.",
        "2 rows of CUPTI_ACTIVITY_KIND_KERNEL have no end: 0 ns long.",
    ),
    "gridX = 1.5": (
        "1 value of CUPTI_ACTIVITY_KIND_KERNEL.gridX is no whole number: unknown.",
        "2 values of CUPTI_ACTIVITY_KIND_KERNEL.gridX are no whole numbers: unknown.",
    ),
    "deviceId = 1000000000000": (
        "1 value of CUPTI_ACTIVITY_KIND_KERNEL.deviceId is absurd: unknown.",
        "2 values of CUPTI_ACTIVITY_KIND_KERNEL.deviceId are absurd: unknown.",
    ),
}


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("change", REPORTS)
def test_of_a_report_of_nsys(report, tmp_path, monkeypatch, change, count):
    monkeypatch.setattr(statistics, "nsys", lambda: "")
    kernels = [(90 + 10 * n, 95 + 10 * n, "gemm", n, 70, 0) for n in range(count)]
    path = report(nvtx=reports.STEPS, calls=[reports.LAUNCH], kernels=kernels)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET {change}")  # noqa: S608
    _, notes = reports.frames(path, tmp_path)
    assert REPORTS[change][count - 1] in notes
    assert REPORTS[change][2 - count] not in notes


@pytest.mark.parametrize(
    ("count", "note"),
    [
        (1, "1 sample of 't' names no known frame: left out."),
        (2, "2 samples of 't' name no known frame: left out."),
    ],
)
def test_of_a_profile_of_py_spy(count, note):
    times = {"unit": "seconds", "startValue": 0, "endValue": count, "weights": [1] * count}
    profile = times | {"type": "sampled", "name": "t", "samples": [[9]] * count}
    file = msgspec.convert(
        {"shared": {"frames": [{"name": "f"}]}, "profiles": [profile]}, py_spy.Speedscope
    )
    assert py_spy.stacks(file)[1] == [note]
