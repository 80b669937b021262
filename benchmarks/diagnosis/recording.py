"""Kineto traces made event by event: what a CPU asks of a GPU, and when the GPU does it.

Times follow from the program and are not written down: a kernel starts once its launch is through
and its stream is free, a collective ends on all ranks when the last one has come and the data are
sent, and a call that waits returns when its stream is done. So the cost of a fault is the step with
it minus the step without it, to the nanosecond. Fields are those of PyTorch 2.6 on an H100.
"""

import itertools
import json
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Event = dict[str, Any]

_BASE_NS = 1_727_743_122_000_000_000
_PROCESS = 4242
MAIN, COMPUTE, COMMUNICATION = _PROCESS, 7, 20
BACKWARD = _PROCESS + 77
"""Thread of the autograd engine; the others are the main thread and two streams."""
_QUEUE = 1022
"""Launches that CUDA takes before a further one waits."""
_LATENCY_NS = 2_000
_CALLBACKS = {
    "cudaLaunchKernel": 211,
    "cudaLaunchKernelExC": 430,
    "cudaMemcpyAsync": 41,
    "cudaMemsetAsync": 51,
    "cudaStreamSynchronize": 131,
    "cudaMalloc": 20,
    "cudaFree": 22,
    "cudaModuleLoadData": 390,
    "cudaStreamWaitEvent": 147,
}
_DEVICE = {
    "id": 0,
    "name": "NVIDIA H100 80GB HBM3",
    "totalGlobalMem": 84_929_347_584,
    "computeMajor": 9,
    "computeMinor": 0,
    "maxThreadsPerBlock": 1024,
    "maxThreadsPerMultiprocessor": 2048,
    "regsPerBlock": 65536,
    "warpSize": 32,
    "sharedMemPerBlock": 49152,
    "numSms": 132,
    "regsPerMultiprocessor": 65536,
    "sharedMemPerBlockOptin": 232448,
    "sharedMemPerMultiprocessor": 233472,
}


def ns(microseconds: float) -> int:
    """Return microseconds as nanoseconds."""
    return round(microseconds * 1000)


@dataclass(kw_only=True)
class Rank:
    """One process with one GPU, and the events that it leaves."""

    rank: int = 0
    world: int = 1
    has_operators: bool = True
    """Whether operators, annotations and Python are recorded, or the GPU and its API alone."""

    now: int = ns(500)
    events: list[Event] = field(default_factory=list)
    busy_until: dict[int, int] = field(default_factory=lambda: {COMPUTE: 0, COMMUNICATION: 0})
    _thread: int = MAIN
    _operators: list[int] = field(default_factory=lambda: [0])
    _frames: list[int | None] = field(default_factory=lambda: [None])
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _queued: deque[int] = field(default_factory=deque)
    _spans: list[tuple[int, int]] = field(default_factory=list)
    """Start and end of what ran on the compute stream since a step began."""

    def spend(self, microseconds: float) -> None:
        """Let the CPU work without a record of it."""
        self.now += ns(microseconds)

    @contextmanager
    def on_thread(self, thread: int) -> Iterator[None]:
        """Go on in another thread, while this one waits for it."""
        own, self._thread = self._thread, thread
        yield
        self._thread = own

    @contextmanager
    def frame(self, name: str) -> Iterator[None]:
        """Call a Python function: ``file.py(line): function``."""
        number, parent, start = next(self._numbers), self._frames[-1], self.now
        self._frames.append(number)
        # No two frames begin or end at once: which of them is inside would be unknown.
        self.spend(0.2)
        yield
        self.spend(0.2)
        self._frames.pop()
        self._span(
            "python_function", name, start, {"Python parent id": parent, "Python id": number}
        )

    @contextmanager
    def operator(
        self,
        name: str,
        *,
        cost_us: float = 8,
        dims: Sequence[Sequence[int]] = (),
        metadata: Event | None = None,
    ) -> Iterator[None]:
        """Dispatch an operator, which takes `cost_us` around what happens inside it."""
        number, start = next(self._numbers), self.now
        self.spend(cost_us / 2)
        self._operators.append(number)
        yield
        self._operators.pop()
        self.spend(cost_us / 2)
        numbers = {"External id": number, "Record function id": 0, "Ev Idx": number}
        args: Event = numbers | (metadata or {})
        if dims:
            args |= {
                "Input Dims": list(map(list, dims)),
                "Input type": ["c10::BFloat16"] * len(dims),
            }
        self._span("cpu_op", name, start, args)

    @contextmanager
    def annotation(self, name: str) -> Iterator[None]:
        """Mark a range, as `record_function` does."""
        start, number = self.now, next(self._numbers)
        yield
        self._span("user_annotation", name, start, {"External id": number, "Ev Idx": number})

    @contextmanager
    def step(self, number: int) -> Iterator[None]:
        """Record one step of the profiler, on the CPU and on the GPU."""
        self._spans.clear()
        name = f"ProfilerStep#{number}"
        with self.annotation(name):
            yield
        if self._spans and self.has_operators:
            span = self._spans[0][0], max(end for _, end in self._spans)
            self._device_event("gpu_user_annotation", name, COMPUTE, span, {"External id": 1})

    def launch(
        self, kernel: str, gpu_us: float, *, call_us: float = 4, call: str = "cudaLaunchKernel"
    ) -> None:
        """Launch a kernel that takes `gpu_us` on the compute stream."""
        if len(self._queued) >= _QUEUE:
            self.now = max(self.now, self._queued.popleft())
        correlation = self._call(call, call_us)
        args = _launch_shape(gpu_us)
        span = self._next(ns(gpu_us))
        self._on_gpu("kernel", kernel, COMPUTE, span, args | {"correlation": correlation})

    def copy(self, direction: str, memory: str, size: int, gigabytes_per_s: float) -> None:
        """Copy `size` bytes; from or to pageable memory, the call ends with the copy."""
        start, correlation = self.now, next(self._numbers)
        self.spend(5)
        source, target = ("Device", memory) if direction == "DtoH" else (memory, "Device")
        rates = {"bytes": size, "memory bandwidth (GB/s)": gigabytes_per_s}
        name = f"Memcpy {direction} ({source} -> {target})"
        duration = ns(1.5 + size / gigabytes_per_s / 1000)
        self._flow("s", self._thread, _PROCESS, start, correlation)
        span = self._next(duration)
        self._on_gpu("gpu_memcpy", name, COMPUTE, span, rates | {"correlation": correlation})
        if memory == "Pageable":
            self.now = max(self.now, self.busy_until[COMPUTE]) + ns(3)
        self._runtime("cudaMemcpyAsync", start, correlation)

    def synchronize(self) -> None:
        """Wait until the compute stream is done."""
        start = self.now
        self.now = max(self.now + ns(2), self.busy_until[COMPUTE] + ns(3))
        self._runtime("cudaStreamSynchronize", start, next(self._numbers))

    def call(self, name: str, microseconds: float, *, drains: bool = False) -> None:
        """Call something that works on the CPU, after all of the GPU's work if it `drains` it."""
        start = self.now
        if drains:
            self.now = max(self.now, *self.busy_until.values())
        self.spend(microseconds)
        self._runtime(name, start, next(self._numbers))

    def item(self) -> None:
        """Read a number from the GPU."""
        with self.operator("aten::item", cost_us=4), self.operator("aten::_local_scalar_dense"):
            self.copy("DtoH", "Pinned", 4, 0.003)
            self.synchronize()

    def enter_collective(self, stream: int) -> tuple[int, int]:
        """Launch a collective after what is queued; return its correlation and its start."""
        correlation = self._call("cudaLaunchKernelExC", 8)
        return correlation, max(self._ready(), self.busy_until[stream])

    def leave_collective(
        self, kernel: str, entered: tuple[int, int], end: int, *, stream: int, args: Event
    ) -> None:
        """End a collective that began as `entered` says."""
        correlation, start = entered
        shape = _launch_shape(10) | args
        self._on_gpu("kernel", kernel, stream, (start, end), shape | {"correlation": correlation})

    def await_stream(self, stream: int) -> None:
        """Have what is launched on the compute stream from now on wait for another stream."""
        self.call("cudaStreamWaitEvent", 2)
        self.busy_until[COMPUTE] = max(self.busy_until[COMPUTE], self.busy_until[stream])

    def _ready(self) -> int:
        """Return when what is launched now on the compute stream would start."""
        return max(self.now + _LATENCY_NS, self.busy_until[COMPUTE])

    def _call(self, name: str, microseconds: float) -> int:
        """Record a call of the runtime that something on the GPU follows; return its number."""
        start, correlation = self.now, next(self._numbers)
        self.spend(microseconds)
        self._runtime(name, start, correlation)
        self._flow("s", self._thread, _PROCESS, start, correlation)
        return correlation

    def _runtime(self, name: str, start: int, correlation: int) -> None:
        args = {"cbid": _CALLBACKS.get(name, 0), "correlation": correlation}
        self._add("cuda_runtime", name, start, self.now, self._external() | args)

    def _next(self, duration: int) -> tuple[int, int]:
        """Return start and end of what is launched now on the compute stream."""
        return self._ready(), self._ready() + duration

    def _on_gpu(
        self, category: str, name: str, stream: int, span: tuple[int, int], args: Event
    ) -> None:
        """Record what a stream does in `span`, and its link to the call of its correlation."""
        start, end = span
        self.busy_until[stream] = end
        self._queued.append(end)
        while self._queued and self._queued[0] <= self.now:
            self._queued.popleft()
        if stream == COMPUTE:
            self._spans.append(span)
        where = {"device": 0, "context": 1, "stream": stream}
        self._device_event(category, name, stream, span, self._external() | where | args)
        self._flow("f", stream, 0, start, args["correlation"])

    def _external(self) -> Event:
        return {"External id": self._operators[-1]} if self.has_operators else {}

    def _span(self, category: str, name: str, start: int, args: Event) -> None:
        if self.has_operators or name.startswith("ProfilerStep#"):
            self._add(category, name, start, self.now, args)

    def _add(self, category: str, name: str, start: int, end: int, args: Event) -> None:
        where = {"pid": _PROCESS, "tid": self._thread}
        self.events.append(_complete(category, name, start, end, args) | where)

    def _device_event(
        self, category: str, name: str, stream: int, span: tuple[int, int], args: Event
    ) -> None:
        where = {"pid": 0, "tid": stream}
        self.events.append(_complete(category, name, *span, args) | where)

    def _flow(self, phase: str, thread: int, process: int, start: int, number: int) -> None:
        where = {"pid": process, "tid": thread, "ts": start / 1000}
        binding = {"bp": "e"} if phase == "f" else {}
        flow = {"ph": phase, "cat": "ac2g", "name": "ac2g", "id": number, **where, **binding}
        self.events.append(flow)

    def write(self, path: Path) -> None:
        """Write the trace."""
        job = {"backend": "nccl", "rank": self.rank, "world_size": self.world, "pg_count": 1}
        group: Event = {"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:nccl"}
        group |= {"pg_size": self.world, "ranks": list(range(self.world))}
        document = {
            "schemaVersion": 1,
            "deviceProperties": [_DEVICE],
            **({"distributedInfo": job | {"pg_config": [group]}} if self.world > 1 else {}),
            "traceName": path.name,
            "displayTimeUnit": "ms",
            "baseTimeNanoseconds": _BASE_NS,
            "traceEvents": [*_names(), *self.events, *self._recording()],
        }
        path.write_text(json.dumps(document))

    def _recording(self) -> Iterator[Event]:
        where = {"pid": "Spans", "tid": "PyTorch Profiler"}
        args = {"Op count": 0}
        yield _complete("Trace", "PyTorch Profiler (0)", ns(100), self.now + ns(200), args) | where
        mark = {"name": "Record Window End", "ph": "i", "s": "g", "pid": "", "tid": ""}
        yield mark | {"ts": (self.now + ns(200)) / 1000}


def _complete(category: str, name: str, start: int, end: int, args: Event) -> Event:
    times = {"ts": start / 1000, "dur": (end - start) / 1000}
    return {"ph": "X", "cat": category, "name": name, **times, "args": args}


def _launch_shape(gpu_us: float) -> Event:
    blocks = max(1, round(gpu_us * 4))
    return {
        "queued": 0,
        "registers per thread": 64,
        "shared memory": 49152,
        "blocks per SM": blocks / _DEVICE["numSms"],  # type: ignore[operator]
        "warps per SM": 8 * blocks / _DEVICE["numSms"],  # type: ignore[operator]
        "grid": [blocks, 1, 1],
        "block": [256, 1, 1],
        "est. achieved occupancy %": 50,
    }


def _names() -> Iterator[Event]:
    """Yield the names of processes, threads and streams."""
    processes = {_PROCESS: "CPU", 0: "GPU 0"}
    threads = {
        (_PROCESS, MAIN): f"thread {MAIN} (python)",
        (_PROCESS, BACKWARD): f"thread {BACKWARD} (pt_autograd_0)",
        (0, COMPUTE): f"stream {COMPUTE} ",
        (0, COMMUNICATION): f"stream {COMMUNICATION} ",
    }
    for process, label in processes.items():
        where = {"ph": "M", "ts": 100.0, "pid": process, "tid": 0}
        yield {"name": "process_name", **where, "args": {"name": "python"}}
        yield {"name": "process_labels", **where, "args": {"labels": label}}
    for (process, thread), name in threads.items():
        where = {"ph": "M", "ts": 100.0, "pid": process, "tid": thread}
        yield {"name": "thread_name", **where, "args": {"name": name}}
