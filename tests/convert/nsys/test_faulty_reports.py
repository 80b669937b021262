"""Reports that hold what no recording can: nothing of it is silent."""

import sqlite3
from contextlib import closing

import pytest

from profkit.cli import main
from profkit.convert.nsys import report as reports
from profkit.convert.nsys import statistics
from profkit.core.errors import InputError
from tests.convert.nsys.reports import BASE_NS, KERNEL, LAUNCH, STEPS, frames, thread


def named(text):
    kinds = {"KERNELS": "CUPTI_ACTIVITY_KIND_KERNEL", "CALLS": "CUPTI_ACTIVITY_KIND_RUNTIME"}
    for name, table in kinds.items():
        text = text.replace(name, table)
    return text


@pytest.fixture(autouse=True)
def _without_nsys(monkeypatch):
    monkeypatch.setattr(statistics, "nsys", lambda: "")


@pytest.fixture
def edited(report):
    """Return a function that makes a report with one kernel, perhaps changed by some SQL."""

    def write(command=None):
        path = report(nvtx=STEPS, os=[(1, 2, "read")], calls=[LAUNCH], kernels=[KERNEL])
        with closing(sqlite3.connect(path)) as connection, connection:
            if command:
                connection.execute(named(command))
        return path

    return write


LEFT_OUT = "1 row of KERNELS has no time, or none that a recording has: left out."
CASES = [
    ("DROP TABLE StringIds", "3 names are blank: the table StringIds is missing."),
    ("DELETE FROM StringIds", "3 names are blank: the table StringIds holds no such text."),
    ("UPDATE KERNELS SET correlationId = NULL", "has the correlationId of a call"),
    ("UPDATE CALLS SET correlationId = 77", "has the correlationId of a call"),
    ("ALTER TABLE CALLS DROP COLUMN correlationId", "has the correlationId of a call"),
    ("UPDATE KERNELS SET end = 40", "1 row of KERNELS ends before it starts"),
    ("UPDATE KERNELS SET end = NULL", "1 row of KERNELS has no end"),
    ("UPDATE KERNELS SET end = 4e30", "1 value of KERNELS.end is no whole number"),
    ("UPDATE KERNELS SET end = 4611686018427387904", "1 value of KERNELS.end is absurd"),
    ("UPDATE KERNELS SET start = NULL", LEFT_OUT),
    ("UPDATE KERNELS SET start = 4611686018427387904", LEFT_OUT),
    ("UPDATE KERNELS SET start = -9223372036854775808", LEFT_OUT),
    ("UPDATE KERNELS SET start = 'soon'", LEFT_OUT),
    ("UPDATE KERNELS SET gridX = x'00ff'", "1 value of KERNELS.gridX is no whole number"),
    ("UPDATE KERNELS SET streamId = 1.5", "1 value of KERNELS.streamId is no whole number"),
    ("UPDATE KERNELS SET deviceId = 1000000000000", "1 value of KERNELS.deviceId is absurd"),
    ("UPDATE KERNELS SET staticSharedMemory = 1e18", "staticSharedMemory is absurd"),
    ("UPDATE KERNELS SET end = 'x', gridX = x'ff'", "1 value of KERNELS.end is no whole number"),
    ("UPDATE OSRT_API SET end = 0", "1 row of OSRT_API ends before it starts"),
    ("UPDATE NVTX_EVENTS SET end = start - 5", "2 rows of ranges in NVTX_EVENTS end before they"),
    ("UPDATE NVTX_EVENTS SET start = NULL", "2 rows of ranges in NVTX_EVENTS have no time"),
    ("UPDATE NVTX_EVENTS SET end = 'late'", "2 values of NVTX_EVENTS.end are no whole numbers"),
    (
        "UPDATE TARGET_INFO_SESSION_START_TIME SET utcEpochNs = 4611686018427387904",
        "1 start of the recording is absurd",
    ),
    ("DELETE FROM TARGET_INFO_SESSION_START_TIME", "1 start of the recording is not stated"),
    ("UPDATE KERNELS SET streamId = NULL", "1 kernel, copy or set states no stream"),
    ("UPDATE KERNELS SET streamId = -5", "1 value of KERNELS.streamId is absurd"),
    ("UPDATE KERNELS SET deviceId = NULL", "1 row of KERNELS has no deviceId"),
    ("UPDATE KERNELS SET gridY = NULL", "1 row of KERNELS has no gridY"),
    ("UPDATE KERNELS SET dynamicSharedMemory = -5", "dynamicSharedMemory is absurd"),
    ("UPDATE KERNELS SET demangledName = NULL", "1 kernel, copy or set has no name"),
    ("UPDATE CALLS SET nameId = NULL", "1 row of CALLS has no nameId"),
    ("UPDATE CALLS SET correlationId = NULL", "1 row of CALLS has no correlationId"),
    ("UPDATE CALLS SET globalTid = NULL", "1 row of CALLS has no globalTid"),
    ("UPDATE CALLS SET globalTid = -5", "1 row of CALLS has no globalTid"),
    ("INSERT INTO CALLS SELECT * FROM CALLS", "1 call of the runtime stands in the file twice"),
    ("INSERT INTO OSRT_API SELECT * FROM OSRT_API", "1 row of OSRT_API stands in the file twice"),
    ("UPDATE OSRT_API SET nameId = NULL", "1 row of OSRT_API has no nameId"),
    ("UPDATE OSRT_API SET nameId = NULL", "1 call of libraries has no name"),
    ("UPDATE NVTX_EVENTS SET text = NULL", "2 operators or annotations have no name"),
    ("UPDATE NVTX_EVENTS SET eventType = NULL", "2 rows of NVTX_EVENTS have no eventType"),
    ("UPDATE NVTX_EVENTS SET eventType = -7", "2 values of NVTX_EVENTS.eventType are absurd"),
    ("UPDATE NVTX_EVENTS SET text = CAST(x'636166e9' AS TEXT)", "2 values of NVTX_EVENTS.text are"),
    ("UPDATE NVTX_EVENTS SET text = x'ff'", "2 values of NVTX_EVENTS.text are no texts in UTF-8"),
    ("UPDATE StringIds SET value = CAST(x'e9' AS TEXT)", "3 values of StringIds.value are no text"),
    ("INSERT INTO StringIds SELECT id, 'x' FROM StringIds", "3 ids of StringIds have another text"),
    ("PRAGMA journal_mode=WAL", "It was written with a write-ahead log"),
]


@pytest.mark.parametrize(("command", "note"), CASES, ids=[": ".join(case) for case in CASES])
def test_what_is_wrong_is_said(edited, tmp_path, command, note):
    found, notes = frames(edited(command), tmp_path)
    assert any(named(note) in said for said in notes), notes
    kernels = found["kernels"]
    assert len(kernels) == (note != LEFT_OUT)
    assert (kernels["end_ns"] >= kernels["start_ns"]).all()
    assert kernels["start_ns"].isin([BASE_NS + 90, 90]).all()


DESCRIBED = (
    "CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, totalMemory INTEGER)",
    "INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA A100', 1024)",
    "CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER, pid INTEGER)",
    "CREATE TABLE ANALYSIS_DETAILS (duration INTEGER, startTime INTEGER, stopTime INTEGER)",
    "INSERT INTO ANALYSIS_DETAILS VALUES (900, 100, 1000)",
)


@pytest.mark.parametrize(
    ("command", "note"),
    [
        ("SELECT 1", ""),
        ("UPDATE KERNELS SET deviceId = 9", "1 device with work is not among those that are"),
        ("INSERT INTO TARGET_INFO_GPU SELECT * FROM TARGET_INFO_GPU", "1 device is described tw"),
        (
            "INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (4, 0, 1)",
            "1 device of CUDA is a GPU that is",
        ),
        ("UPDATE GPU_METRICS SET value = 400", "1 counter of GPUs is below 0 or above 200 %."),
        ("UPDATE GPU_METRICS SET value = -4", "1 counter of GPUs is below 0 or above 200 %."),
        ("UPDATE GPU_METRICS SET typeId = 261", "1 counter is of a GPU that is not described."),
        ("UPDATE KERNELS SET end = 5000", "Events end 4e-06 s after the recording did"),
        (
            "UPDATE COPIES SET srcKind = 2",
            "1 copy contradicts the kinds of memory that it connects",
        ),
        (
            "UPDATE COPIES SET copyKind = 2",
            "1 copy contradicts the kinds of memory that it connects",
        ),
        ("UPDATE COPIES SET bytes = 1099511627776", "1 copy or set moves more than 100 TB/s."),
        ("UPDATE USED SET memoryOperationType = 7", "1 memory event is of no known kind and"),
        ("UPDATE USED SET memoryOperationType = 1", "1 free of memory has no allocation in the"),
        ("UPDATE USED SET bytes = 4096", "More memory is reserved than the GPU has: 4,096 of 1,0"),
        (
            "INSERT INTO CALLS SELECT 1, 2, globalTid, 5, nameId FROM CALLS",
            "1 call has the id of",
        ),
    ],
)
def test_what_contradicts_something_else_in_the_report_is_said(report, tmp_path, command, note):
    path = report(
        nvtx=STEPS,
        calls=[LAUNCH],
        kernels=[KERNEL],
        CUPTI_ACTIVITY_KIND_MEMCPY=[(140, 150, 0, 7, 5, thread(70, 0), 64, 1, 0, 2)],
        CUDA_GPU_MEMORY_USAGE_EVENTS=[(15, thread(70, 0), 0, 4096, 512, 0)],
        GPU_METRICS=[(50, 256, 2, 40)],
        TARGET_INFO_GPU_METRICS=[(256, 2, "SM Active [Throughput %]")],
    )
    tables = {"COPIES": "CUPTI_ACTIVITY_KIND_MEMCPY", "USED": "CUDA_GPU_MEMORY_USAGE_EVENTS"}
    for name, table in tables.items():
        command = command.replace(name, table)
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in (*DESCRIBED, command):
            connection.execute(named(statement))
    _, notes = frames(path, tmp_path)
    own = [said for said in notes if "nsys is not installed" not in said]
    assert any(said.startswith(note) for said in own) if note else not own, own


def test_an_undamaged_report_is_not_blamed(edited, tmp_path):
    _, notes = frames(edited(), tmp_path)
    assert notes == ["nsys is not installed: its own reports as CSV are left out."]


def test_kernels_that_stand_there_twice_or_outlast_all_are_said(report, tmp_path):
    kernels = [(90 + 10 * n, 95 + 10 * n, "gemm", n, 70, 0) for n in range(12)]
    for more, said in (
        (kernels[:3], "3 kernels, copies or sets stand in the file twice"),
        ([(90, 86_400 * 10**9, "gemm", 99, 70, 0)], "1 kernel lasts 10 times as long as all beg"),
        ([], ""),
    ):
        path = report(nvtx=STEPS, calls=[LAUNCH], kernels=[*kernels, *more])
        _, notes = frames(path, tmp_path)
        found = [note for note in notes if " stand in " in note or " lasts " in note]
        assert [note.startswith(said) for note in found] == [True] * bool(said)
        path.unlink()


def test_copies_of_no_known_kind_are_said(report, tmp_path):
    copies = [(80 + n, 81 + n, 0, 7, n, thread(70, 0), 64, n, 1, 2) for n in (1, 2, 99)]
    path = report(nvtx=STEPS, calls=[LAUNCH], kernels=[KERNEL], CUPTI_ACTIVITY_KIND_MEMCPY=copies)
    _, notes = frames(path, tmp_path)
    assert "1 copy is of no known kind: without a direction." in notes


def test_counters_that_are_blank_or_doubled_are_said(report, tmp_path):
    metrics = [(0, 1, "SMs Active [Throughput %]")]
    for counters, named, said in (
        ([(1, 0, 1, 5), (2, 0, 1, 6)], metrics, []),
        ([(1, 0, 1, 5), (1, 0, 1, 5)], metrics, ["1 row of GPU_METRICS stands in the file twice"]),
        ([(1, 0, 1, None), (2, 0, 1, 6)], metrics, ["1 row of GPU_METRICS has no value"]),
        ([(1, 0, 2, 5)], metrics, ["1 metric of GPU_METRICS has no name"]),
        ([(1, 0, 1, 5)], [(0, 1, None)], ["1 metric of GPU_METRICS has no name"]),
    ):
        more = {"GPU_METRICS": counters, "TARGET_INFO_GPU_METRICS": named}
        path = report(nvtx=STEPS, calls=[LAUNCH], kernels=[KERNEL], **more)
        _, notes = frames(path, tmp_path)
        found = [note for note in notes if "GPU_METRICS" in note]
        assert [note.startswith(start) for note, start in zip(found, said, strict=True)] == [
            True
        ] * len(said)
        path.unlink()


def test_many_processes_are_refused(report, tmp_path, monkeypatch):
    monkeypatch.setattr(reports, "_MOST_PROCESSES", 10)
    kernels = [(90, 130, "gemm", number, 100 + number, 0) for number in range(12)]
    with pytest.raises(InputError, match="12 processes work on devices in it"):
        frames(report(nvtx=STEPS, kernels=kernels), tmp_path)


def test_a_log_with_rows_beside_the_file_is_not_overlooked(report, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path = report(nvtx=STEPS)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("INSERT INTO StringIds VALUES (99, 'late')")
        connection.commit()
        assert main(["import", "nsys", str(path)]) == 1
    assert "holds rows that are not in it yet" in capsys.readouterr().err
