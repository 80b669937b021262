"""The files that `fuzz_readers.py` harms, and the ways in which it does."""

import gzip
import json
import pickle
import random
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.convert.nsys import reports
from tests.convert.torch_profiler import damage

READERS = {"trace": "torch_profiler", "snapshot": "memory_snapshot", "nsys": "nsys", "ncu": "ncu"}
"""The tool whose converter reads each kind."""

_NUMBERS = (-1, 0, 2**31, 2**53 + 1, 2**62, 2**63 - 1, -(2**63), 10**18, 10**30)
_TEXTS = ("", "x", "\udc80", b"\xff")
_VALUES: tuple[Any, ...] = (*_NUMBERS, *_TEXTS, 1.5, float("nan"), None, True, [], {}, [[]], ())
_PAGE_WORDS = ("", "nan", "inf", "-1", "9" * 400, "1e400", '"', ",", "\0", "no data", "(1,2)", "½")


class Sample(NamedTuple):
    """One undamaged file."""

    suffix: str
    content: bytes
    is_checked: bool
    """Whether a checksum covers all of it."""


def damaged(reader: str, seed: int, number: int) -> tuple[Sample, bytes]:
    """Return a file and what chance made of it; the same for the same arguments."""
    chance = random.Random(f"{reader} {seed} {number}")  # noqa: S311 - not a secret
    known = samples(reader)
    sample = known[chance.randrange(len(known))]
    content = sample.content
    inside = not sample.is_checked and chance.choice((True, False))
    way = _INSIDE[reader] if inside else chance.choice(_BYTES)
    for _ in range(chance.choice((1, 1, 1, 2, 8))):
        content = way(content, chance) or content
    return sample, content


@cache
def samples(reader: str) -> tuple[Sample, ...]:
    """Return the undamaged files of one reader."""
    plain, suffix = _MADE[reader]
    files = [Sample(suffix, content, is_checked=False) for content in plain()]
    if reader in ("trace", "nsys"):
        packed = gzip.compress(files[0].content, mtime=0)
        files.append(Sample(f"{suffix}.gz", packed, is_checked=True))
    return tuple(files)


def _traces() -> list[bytes]:
    events: list[dict[str, Any]] = [
        {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 2, "ts": 10 * n, "dur": 9.5}
        | {"args": {"External id": n, "correlation": n, "stream": 7, "device": 0, "bytes": 64}}
        for n in range(8)
        for cat, name in (
            *(("cpu_op", f"aten::op{n}"), ("cuda_runtime", "cudaLaunchKernel")),
            *(("kernel", "ncclKernel_AllReduce"), ("user_annotation", f"ProfilerStep#{n}")),
            *(("gpu_memcpy", "Memcpy HtoD"), ("python_function", f"a.py({n}): f")),
        )
    ]
    memory = {"Bytes": 512, "Addr": 4096, "Device Type": 1, "Device Id": 0, "Total Allocated": 512}
    events += [
        {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 2, "ts": 5}
        | {"s": "t", "args": memory},
        {"ph": "B", "cat": "cpu_op", "name": "pair", "pid": 1, "tid": 3, "ts": 1},
        {"ph": "E", "cat": "cpu_op", "name": "pair", "pid": 1, "tid": 3, "ts": 4},
    ]
    header = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "NVIDIA H100", "totalGlobalMem": 80 << 30}],
        "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 2},
        "baseTimeNanoseconds": 1_700_000_000_000_000_000,
    }
    absolute = [event | {"ts": 1.7e15 + event["ts"] + 0.125} for event in events]
    return [
        json.dumps(header | {"traceEvents": events}).encode(),
        json.dumps({"traceEvents": events} | header, indent=1).encode(),
        json.dumps(absolute).encode(),
    ]


def _snapshots() -> list[bytes]:
    frames = [{"filename": f"/home/me/f{n}.py", "line": n, "name": f"g{n}"} for n in range(4)]
    entries: list[dict[str, Any]] = [
        {"action": action, "addr": 4096 + 512 * n, "size": 512, "stream": 0, "frames": frames[:n]}
        | {"time_us": 1_700_000_000_000_000 + 3 * n + at, "user_metadata": "", "device_free": 9}
        for at, action in enumerate(("alloc", "free_requested", "free_completed", "segment_alloc"))
        for n in range(4)
    ]
    entries.sort(key=lambda entry: entry["time_us"])
    block = {"size": 4096, "requested_size": 4000, "state": "active_allocated", "frames": frames}
    segment = {"device": 0, "address": 65536, "total_size": 8192, "stream": 0, "frames": frames}
    segment |= {"segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False}
    annotations = [
        {"stage": stage, "name": "n", "device": 0, "time_us": 5} for stage in ("START", "END")
    ]
    content = {
        "segments": [segment | {"blocks": [block, block | {"state": "inactive"}]}],
        "device_traces": [entries, []],
        "external_annotations": annotations,
        "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": ""},
    }
    return [pickle.dumps(content, protocol) for protocol in (2, 4)]


def _reports() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        path: Path = reports.written(  # type: ignore[no-untyped-call]
            Path(folder) / "made",
            nvtx=[*reports.STEPS, reports.FORWARD, (1, 2, "rank#0", reports.PID, 34)],
            os=[(n, n + 1, "read") for n in range(20)],
            kernels=[(90 + n, 95 + n, "gemm", n, reports.PID, 0) for n in range(20)],
            calls=[(20 + n, 21 + n, "cudaLaunchKernel_v7000", n, reports.PID) for n in range(20)],
            GPU_METRICS=[(n, 0, 1, n) for n in range(9)],
            TARGET_INFO_GPU_METRICS=[(0, 1, "SMs Active [Throughput %]")],
            CUDA_GPU_MEMORY_USAGE_EVENTS=[(n, 1 << 48, 0, n, 512, n % 2) for n in range(6)],
        )
        return [path.read_bytes()]


def _pages() -> list[bytes]:
    heading = '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream"'
    heading += ',"Block Size","Grid Size","Device","CC"'
    which = (
        ',"7","python","host","void gemm<float>(int)","1","7","(32, 1, 1)","(4, 1, 1)","0","9.0"'
    )
    raw = [f'{heading},"gpu__time_duration.sum","dram__bytes.sum"', "," * 10 + ',"us","Mbyte"']
    raw += [f'"{n}"{which},"{n}.5","1,024.0"' for n in range(4)]
    more = '"Section Name","Metric Name","Metric Unit","Metric Value","Rule Name","Rule Type"'
    details = [f'==PROF== Connected\n{heading},{more},"Rule Description"']
    details += [f'"{n}"{which},"S","Duration","us","{n}.5","","",""' for n in range(4)]
    details += [f'"3"{which},"S","","","","Rule","WRN","said: @url:x:http://y@"']
    return ["\n".join(lines).encode() for lines in (raw, details)]


_MADE: dict[str, tuple[Callable[[], list[bytes]], str]] = {
    "trace": (_traces, ".pt.trace.json"),
    "snapshot": (_snapshots, ".memory.pickle"),
    "nsys": (_reports, ".nsys-rep"),
    "ncu": (_pages, ".ncu-rep"),
}


def _flipped(content: bytes, chance: random.Random) -> bytes:
    harmed = bytearray(content)
    harmed[chance.randrange(len(harmed))] ^= 1 << chance.randrange(8)
    return bytes(harmed)


def _cut(content: bytes, chance: random.Random) -> bytes:
    return content[: chance.randrange(len(content))]


def _repeated(content: bytes, chance: random.Random) -> bytes:
    begin, size = chance.randrange(len(content)), chance.choice((1, 10, 100, 5000))
    part = content[begin : begin + size] * chance.choice((1, 2, 50))
    at = chance.randrange(len(content))
    return content[:at] + part + content[at:]


def _zeroed(content: bytes, chance: random.Random) -> bytes:
    at, size = chance.randrange(len(content)), chance.choice((1, 4, 8, 512))
    return content[:at] + chance.choice((b"\0", b"\xff")) * size + content[at + size :]


def _edge(content: bytes, chance: random.Random) -> bytes:
    """Put a number that is at the edge of what fits where some bytes were."""
    size, at = chance.choice((2, 4, 8)), chance.randrange(len(content))
    number = chance.choice((0, 1, (1 << 8 * size - 1) - 1, 1 << 8 * size - 1, (1 << 8 * size) - 1))
    word = number.to_bytes(size, chance.choice(("little", "big")))
    return content[:at] + word + content[at + size :]


_BYTES = (_flipped, damage.byte_changed, damage.bytes_deleted, _cut, _repeated, _zeroed, _edge)


def _replaced(value: Any, chance: random.Random, share: float) -> Any:
    """Return plain data with some of its values replaced by others."""
    if chance.random() < share:
        return chance.choice(_VALUES)
    if isinstance(value, dict):
        kept = (key for key in value if chance.random() >= share / 4)
        return {key: _replaced(value[key], chance, share) for key in kept}
    if isinstance(value, list | tuple):
        return type(value)(_replaced(part, chance, share) for part in value)
    return value


def _values_of_pickle(content: bytes, chance: random.Random) -> bytes:
    try:
        plain = pickle.loads(content)  # noqa: S301 - made above
    except Exception:  # noqa: BLE001 - harmed before
        return content
    return pickle.dumps(_replaced(plain, chance, chance.choice((0.002, 0.02))), 4)


def _cells_of_sqlite(content: bytes, chance: random.Random) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "made"
        path.write_bytes(content)
        try:
            with closing(sqlite3.connect(path)) as connection, connection:
                _change_sqlite(connection, chance)
        except (sqlite3.Error, OverflowError, UnicodeEncodeError):
            return content
        return path.read_bytes()


def _change_sqlite(connection: sqlite3.Connection, chance: random.Random) -> None:
    names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master")]
    table = chance.choice(names)
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    column, rows = chance.choice(columns), chance.choice(("1", "rowid % 2", "rowid = 1"))
    update = f"UPDATE {table} SET {column} = ? WHERE {rows}"  # noqa: S608 - names made above
    others = (
        f"DROP TABLE {table}",
        f"ALTER TABLE {table} DROP COLUMN {column}",
        f"INSERT INTO {table} SELECT * FROM {table}",  # noqa: S608
    )
    command = chance.choice((*others, *[update] * 7))
    values = [value for value in _VALUES if not isinstance(value, list | dict | tuple)]
    connection.execute(command, (chance.choice(values),) if command == update else ())


def _words_of_page(content: bytes, chance: random.Random) -> bytes:
    cells = content.split(b'"')
    cells[chance.randrange(len(cells))] = chance.choice(_PAGE_WORDS).encode()
    return b'"'.join(cells)


_INSIDE: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "trace": damage.values_replaced,
    "snapshot": _values_of_pickle,
    "nsys": _cells_of_sqlite,
    "ncu": _words_of_page,
}
