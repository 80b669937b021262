"""Reports of Nsight Systems that tests make up, as the SQLite files that it exports."""

import sqlite3
from contextlib import closing

from profkit.convert.base import Raw
from profkit.convert.nsys import convert

PID, OTHER = 70, 71
BASE_NS = 1_790_000_000_000_000_000
STEPS = [(0, 100, "step#0"), (100, 200, "step#1")]
FORWARD = (10, 60, "forward")
LAUNCH = (20, 25, "cudaLaunchKernel_v7000", 5, PID)
KERNEL = (90, 130, "gemm", 5, PID, 0)


def thread(pid, tid=None):
    """Return the number that nsys has for a thread, or for a process if `tid` is 0."""
    return (1 << 48) | (pid << 24) | (pid if tid is None else tid)


def raw(path, rank=0, repeat=0):
    return Raw(path=path, label=f"rank{rank}_dp{rank}_tp0_pp0", rank=rank, repeat=repeat)


def frames(path, folder):
    made = convert.run(raw(path), folder)
    # What stands for a report here has no word of Python or PyTorch.
    notes = [note for note in made.notes if not note.startswith("PyTorch was not found")]
    return {name: table.to_pandas() for name, table in made.tables.items()}, notes


COLUMNS = {
    "StringIds": "id INTEGER, value TEXT",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs INTEGER",
    "NVTX_EVENTS": "start INTEGER, end INTEGER, eventType INTEGER, text TEXT, globalTid INTEGER,"
    " textId INTEGER, domainId INTEGER",
    **dict.fromkeys(
        ("CUBLAS_EVENTS", "CUDNN_EVENTS"),
        "start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL,"
        " globalTid INTEGER, nameId INTEGER NOT NULL",
    ),
    "MPI_RANKS": "globalTid INTEGER NOT NULL, rank INTEGER NOT NULL",
    "MPI_COLLECTIVES_EVENTS": "start INTEGER NOT NULL, end INTEGER, globalTid INTEGER,"
    " textId INTEGER, commHandle INTEGER, rootRank INTEGER, size INTEGER, recvSize INTEGER,"
    " requestHandle INTEGER",
    "OSRT_API": "start INTEGER, end INTEGER, globalTid INTEGER, nameId INTEGER",
    "CUPTI_ACTIVITY_KIND_KERNEL": "start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,"
    " correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, gridX INTEGER,"
    " gridY INTEGER, gridZ INTEGER, staticSharedMemory INTEGER, dynamicSharedMemory INTEGER,"
    " graphNodeId INTEGER",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start INTEGER, end INTEGER, globalTid INTEGER,"
    " correlationId INTEGER, nameId INTEGER",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,"
    " correlationId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind INTEGER, srcKind INTEGER,"
    " dstKind INTEGER",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": "start INTEGER, end INTEGER, deviceId INTEGER,"
    " streamId INTEGER, correlationId INTEGER, globalPid INTEGER, graphId INTEGER",
    "CUDA_GPU_MEMORY_USAGE_EVENTS": "start INTEGER, globalPid INTEGER, deviceId INTEGER,"
    " address INTEGER, bytes INTEGER, memoryOperationType INTEGER",
    "GPU_METRICS": "timestamp INTEGER, typeId INTEGER, metricId INTEGER, value INTEGER",
    "TARGET_INFO_GPU_METRICS": "typeId INTEGER, metricId INTEGER, metricName TEXT",
    "META_DATA_EXPORT": "name TEXT, value TEXT",
    # As the exporter of 2022.4 names them, without what is not read.
    "COMPOSITE_EVENTS": "id INTEGER, start INTEGER, globalTid INTEGER, threadState INTEGER",
    "SAMPLING_CALLCHAINS": "id INTEGER, symbol INTEGER, module INTEGER, unresolved INTEGER,"
    " stackDepth INTEGER",
    "ThreadNames": "nameId INTEGER, globalTid INTEGER",
}


def written(path, *, nvtx=(), os=(), kernels=(), calls=(), **more):
    """Write a report with the rows that are given to `path`, and return that."""
    texts = {}

    def text(value):
        return texts.setdefault(value, len(texts) + 1)

    content = {
        "TARGET_INFO_SESSION_START_TIME": [(BASE_NS,)],
        "NVTX_EVENTS": [
            (start, end, kind, said, thread(pid), None, domain)
            for start, end, said, pid, kind, domain in (
                (*row, *(PID, 59, 0)[len(row) - 3 :]) for row in nvtx
            )
        ],
        "OSRT_API": [(start, end, thread(PID), text(what)) for start, end, what in os],
        "CUPTI_ACTIVITY_KIND_KERNEL": [
            (start, end, device, 7, number, thread(pid, 0), text(what), 2, 1, 1, 16, 32, None)
            for start, end, what, number, pid, device in kernels
        ],
        "CUPTI_ACTIVITY_KIND_RUNTIME": [
            (start, end, thread(pid), number, text(what)) for start, end, what, number, pid in calls
        ],
        **more,
    }
    content["StringIds"] = [(number, value) for value, number in texts.items()]
    with closing(sqlite3.connect(path)) as connection, connection:
        for table, rows in content.items():
            if not rows and table.startswith(("CUPTI", "OSRT")):
                continue
            connection.execute(f"CREATE TABLE {table} ({COLUMNS[table]})")
            marks = ",".join("?" * (COLUMNS[table].count(",") + 1))
            connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)  # noqa: S608
    return path
