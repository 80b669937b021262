"""What a trace of any size takes."""

import json
import tracemalloc

import pytest

from profkit.convert._parquet import write
from profkit.convert.columns import on_disk, spill
from profkit.convert.linking import doubtful, ordered, windows
from profkit.convert.torch_profiler import trace as kineto

_STEP_US = 1000
_SMALL = 1 << 9


def event(category, name, start, duration, tid, **args):
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": 1,
        "tid": tid,
        "ts": start,
        "dur": duration,
        "args": args,
    }


def step(number):
    """Return the events of one training step: Python, operators, calls, kernels, memory."""
    start, first = number * _STEP_US, 100 * number
    yield event("user_annotation", f"ProfilerStep#{number}", start, _STEP_US - 1, 1)
    yield event("python_function", "train.py(1): step", start, _STEP_US - 1, 1)
    for at in range(20):
        begin, key = start + 10 + 20 * at, first + at + 1
        yield event("python_function", "nn.Module: Linear_0", begin, 18, 1)
        forward = {"Sequence number": key, "Fwd thread id": 0, "External id": key}
        yield event("cpu_op", "aten::linear", begin + 1, 15, 1, **forward)
        yield event("cuda_runtime", "cudaLaunchKernel", begin + 2, 3, 1, correlation=key)
        yield event("kernel", "gemm", begin + 9, 8, 7, correlation=key, stream=7, device=0)
        yield {
            **event("cpu_instant_event", "[memory]", begin + 4, 0, 1, Bytes=64, Addr=key),
            "ph": "i",
        }
        backward = {"Sequence number": key, "Fwd thread id": 1, "External id": key + 50}
        yield event("cpu_op", "LinearBackward0", start + 900 - 20 * at, 15, 2, **backward)


@pytest.fixture
def converted(tmp_path, monkeypatch):
    """Return what converts so many steps, and tells how many bytes that took at most."""
    for module, name in (
        (on_disk, "_ROWS_AT_ONCE"),
        (ordered, "_NUMBERS_AT_ONCE"),
        (doubtful, "_NUMBERS_AT_ONCE"),
        (windows, "WINDOW_ROWS"),
        (spill, "_HELD_BYTES"),
    ):
        monkeypatch.setattr(module, name, _SMALL)

    def convert(steps):
        path = tmp_path / f"{steps}.json"
        with path.open("w") as file:
            file.write('{"schemaVersion": 1, "traceEvents": [')
            for number in range(steps):
                file.write(",\n" * bool(number) + ",\n".join(map(json.dumps, step(number))))
            file.write("]}")
        tracemalloc.start()
        trace = kineto.read(path, rank=0, block_bytes=1 << 16, scratch=tmp_path)
        rows = {
            name: write(tmp_path / f"{name}.parquet", name, made())
            for name, made in trace.chunks.items()
        }
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert rows["cpu_ops"] == 41 * steps
        return peak

    return convert


def test_eight_times_the_trace_takes_the_same_memory(converted):
    converted(10)  # what is imported and cached at first
    peak = converted(50)
    # What other threads of the process allocate meanwhile only adds to it.
    assert min(converted(400) for _ in range(2)) < 1.2 * peak
