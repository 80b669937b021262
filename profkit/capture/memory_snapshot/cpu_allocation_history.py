"""The history of a process's CPU memory, in the layout of PyTorch's CUDA memory snapshots.

PyTorch keeps such a history of CUDA's caching allocator only. Its profiler sees every allocation
of CPU tensors as well, with the Python and C++ frames around it, so the same picture can be made.
"""

import gc
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.profiler import profile

_PYTHON = "_ExtraFields_PyCall"
_BUILTIN = "_ExtraFields_PyCCall"
_OPERATOR = "_ExtraFields_TorchOp"
_ALLOCATION = "_ExtraFields_Allocation"

Frame = dict[str, Any]
Path_ = tuple[Frame, Any] | None


def profiler() -> "profile":
    """Return a profiler of allocations with their stacks, not started."""
    from torch.profiler import ProfilerActivity, profile

    return profile(activities=[ProfilerActivity.CPU], profile_memory=True, with_stack=True)


def snapshot(stopped: "profile | None", failed: str) -> dict[str, Any]:
    """Return the history of a stopped profiler and the live storages; only these without one.

    `failed` is the error that ended the process, or "".
    """
    results: Any = stopped and stopped.profiler and stopped.profiler.kineto_results
    ranges: list[dict[str, Any]] = []
    seen = _entries(results.experimental_event_tree(), ranges) if results else ()
    trace = sorted(seen, key=lambda entry: entry["time_us"])
    if failed:
        time_us = trace[-1]["time_us"] if trace else 0
        trace.append({"action": "oom", "addr": 0, "size": 0, "time_us": time_us, "frames": []})
    return {
        "segments": [_segment(*block) for block in _live(trace)],
        "device_traces": [trace],
        "external_annotations": ranges,
        "profkit_device": "cpu",
    }


def ran_out(window: dict[str, Any]) -> dict[str, Any]:
    """Return the snapshot `window`, written earlier, with the storages that are new since then.

    Their allocations were not recorded and have neither time nor frames. Blocks of the window
    count as live unless another one has their address.
    """
    trace = list(window["device_traces"][0])
    left = {segment["address"]: segment["total_size"] for segment in window["segments"]}
    since = (block for block in _older() if left.get(block[0]) != block[1])
    trace += [{"action": "alloc", "addr": at, "size": size, "frames": []} for at, size in since]
    trace.append({"action": "oom", "addr": 0, "size": 0, "frames": []})
    segments = [_segment(*block) for block in _live(trace)]
    return {**window, "segments": segments, "device_traces": [trace]}


def _live(trace: list[dict[str, Any]]) -> Iterator[tuple[int, int, list[Frame]]]:
    """Yield address, size and frames of live blocks at the end, in the trace or not."""
    live = {}
    for entry in trace:
        if entry["action"] == "alloc":
            live[entry["addr"]] = entry
        else:
            live.pop(entry["addr"], None)
    for address, entry in live.items():
        yield address, entry["size"], entry["frames"]
    for address, size in _older():
        if address not in live:
            yield address, size, []


def _older() -> Iterator[tuple[int, int]]:
    """Yield address and size of the storages that Python can reach, each once."""
    import torch

    seen = {0}
    for candidate in gc.get_objects():
        # By type: isinstance would run code of proxies.
        if not issubclass(type(candidate), torch.Tensor) or candidate.device.type != "cpu":
            continue
        try:
            storage = candidate.untyped_storage()
            address, size = storage.data_ptr(), storage.nbytes()
        except (RuntimeError, NotImplementedError):
            # Fake and sparse tensors have no storage.
            continue
        if size and address not in seen:
            seen.add(address)
            yield address, size


def _segment(address: int, size: int, frames: list[Frame]) -> dict[str, Any]:
    block = {"size": size, "requested_size": size, "address": address, "frames": frames}
    return {
        "device": 0,
        "address": address,
        "total_size": size,
        "allocated_size": size,
        "active_size": size,
        "stream": 0,
        "segment_type": "large",
        "frames": frames,
        "blocks": [{**block, "state": "active_allocated"}],
    }


@dataclass(slots=True)
class _Frames:
    """Frames, each distinct one once, with the paths that the profiler shortened."""

    known: dict[tuple[str, int, str], Frame] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)

    def frame(self, file: str, line: int, name: str) -> Frame:
        key = (self.whole(file), line, name)
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = dict(zip(("filename", "line", "name"), key, strict=True))
        return found

    def whole(self, file: str) -> str:
        """Return the whole path of a file; the profiler leaves out the folder of ``sys.path``."""
        found = self.files.get(file)
        if found is None:
            paths = (Path(folder or ".") / file for folder in sys.path)
            first = next((path for path in paths if file and path.is_file()), None)
            found = self.files[file] = str(first.resolve()) if first else file
        return found


def _entries(roots: list[Any], ranges: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the entries of a tree of the profiler's events, with frames from the innermost.

    Adds to `ranges` where those of ``record_function`` begin and end. They are no frames: in the
    tree they are children of the call that opens them, and parents of nothing.
    """
    from torch._C._profiler import RecordScope

    frames = _Frames()
    pending: list[tuple[Any, Path_]] = [(root, None) for root in roots]
    while pending:
        event, path = pending.pop()
        about = event.extra_fields
        kind = type(about).__name__
        if kind == _ALLOCATION:
            if about.device.type == "cpu":
                yield _entry(event, about, path)
        elif kind == _PYTHON:
            path = _called(path, about, frames)
            site = about.callsite
            path = (
                frames.frame("", 0, _text(event, "name"))
                if about.module
                else frames.frame(
                    _text(site, "file_name"), site.line_number, _text(site, "function_name")
                ),
                path,
            )
        elif kind == _BUILTIN:
            path = _called(path, about, frames)
        elif kind == _OPERATOR and about.scope == RecordScope.USER_SCOPE:
            ranges += _borders(event)
        elif kind == _OPERATOR:
            path = (frames.frame("", 0, _text(event, "name")), path)
        pending += [(child, path) for child in event.children]


def _borders(event: Any) -> Iterator[dict[str, Any]]:
    """Yield where a range begins and ends, as CUDA's histories have it."""
    for stage, time_ns in (("START", event.start_time_ns), ("END", event.end_time_ns)):
        name = _text(event, "name")
        yield {"stage": stage, "name": name, "device": 0, "time_us": time_ns // 1000}


def _text(holder: Any, name: str) -> str:
    try:
        return str(getattr(holder, name))
    except UnicodeDecodeError:
        # PyTorch keeps some names longer than their memory.
        return "(name that cannot be read)"


def _called(path: Path_, about: Any, frames: _Frames) -> Path_:
    """Return `path` with the line of its innermost frame that makes the call `about`."""
    if path is None or not path[0]["filename"]:
        return path
    top, rest = path
    return frames.frame(top["filename"], about.caller.line_number, top["name"]), rest


def _entry(event: Any, about: Any, path: Path_) -> dict[str, Any]:
    freed = about.alloc_size < 0
    entry = {
        "action": "free_completed" if freed else "alloc",
        "addr": about.ptr or 0,
        "size": abs(about.alloc_size),
        "stream": 0,
        "time_us": event.start_time_ns // 1000,
        "frames": [],
    }
    while path is not None and not freed:
        entry["frames"].append(path[0])
        path = path[1]
    return entry
