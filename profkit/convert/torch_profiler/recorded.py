"""When and on what a trace was recorded, without reading it: from its beginning and its end."""

import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from profkit.convert.base import Recorded
from profkit.convert.columns.values import LATEST_NS, nanoseconds
from profkit.convert.torch_profiler.source import Source, is_gzip

_HEAD_BYTES = 1 << 20
_TAIL_BYTES = 1 << 20
_BASE = re.compile(rb'"baseTimeNanoseconds"\s*:\s*"?(\d{1,19})(?=[\s,}"])')
_TIME = re.compile(rb'"ts"\s*:\s*"?(\d{1,19}(?:\.\d{1,9})?)(?=[\s,}"])')
_DEVICES = re.compile(rb'"deviceProperties"\s*:\s*\[([^\]]*)')
_HOST = re.compile(rb'"host_name"\s*:\s*"([^"\\]{1,255})"')
_TRACE_NAME = re.compile(rb'"traceName"\s*:\s*"([^"\\]{1,4096})"')
_WORKER = re.compile(r"(?:.*/)?(?P<host>[^/]+)_(?P<process>\d{1,18})\.\d+\.pt\.trace\.json")
"""What `tensorboard_trace_handler` calls a file that is given no name."""
_PROCESS = re.compile(rb'"pid"\s*:\s*"?(\d{1,18})(?=[\s,}"])')
_DEVICES_BELOW = 256
"""Work on a device has its number in place of that of a process."""
_NAME = re.compile(rb'"name"\s*:\s*"([^"\\]*)"')


def recorded(path: Path) -> Recorded:
    """Return what the trace at `path` says of its recording; raises `InputError`."""
    ends = [*_ends(path)]
    stated = next((found for text in ends if (found := _BASE.search(text))), None)
    base_ns = int(stated[1]) if stated else 0
    described = next((found for text in ends if (found := _DEVICES.search(text))), None)
    names = _NAME.findall(described[1]) if described else []
    named = {int(pid) for text in ends for pid in _PROCESS.findall(text)}
    times = nanoseconds([float(us) for text in ends for us in _TIME.findall(text)])
    # Events that describe processes and threads may have time 0.
    times = times[(times > 0) & (times < LATEST_NS - base_ns)]
    return Recorded(
        devices=frozenset(name.decode("utf-8", "replace") for name in names),
        begin_ns=base_ns + int(times.min()) if len(times) else -1,
        end_ns=base_ns + int(times.max()) if len(times) else -1,
        host=_host(path, ends, named),
        processes=frozenset(pid for pid in named if pid >= _DEVICES_BELOW),
    )


def _host(path: Path, ends: Sequence[bytes], processes: Collection[int]) -> str:
    """Return the host that a trace states, or that its first name has with its process; else ""."""
    texts = (found for text in ends if (found := _HOST.search(text)))
    if stated := next(texts, None):
        return stated[1].decode("utf-8", "replace")
    first = (found for text in ends if (found := _TRACE_NAME.search(text)))
    names = [found[1].decode("utf-8", "replace") for found in first]
    for worker in filter(None, map(_WORKER.match, [*names, path.name])):
        if int(worker["process"]) in processes:
            return worker["host"]
    return ""


def _ends(path: Path) -> Iterator[bytes]:
    """Yield the beginning of the text and, of a longer one, its end."""
    if not is_gzip(path):
        with path.open("rb") as file:
            yield file.read(_HEAD_BYTES)
            file.seek(max(_HEAD_BYTES, path.stat().st_size - _TAIL_BYTES))
            yield file.read()
        return
    head, tail = b"", b""
    for chunk in Source(path):
        tail = (tail + chunk)[-_TAIL_BYTES:]
        head = head + chunk if len(head) < _HEAD_BYTES else head
    yield head
    yield tail
