"""A large trace read by several processes: cut between events, each part a whole trace by itself.

Parts are many more than processes: one that has other work, or a slow core, reads fewer. Whatever
is not plain about a part, damage above all, is left to one process that reads the file from its
beginning, because only that one can tell where and how much.
"""

import multiprocessing
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path

from profkit import allocation
from profkit.convert.kineto.columns import Gathered
from profkit.convert.kineto.reader import Header, Reader
from profkit.convert.kineto.source import READ_BYTES, Source, is_gzip
from profkit.convert.kineto.spill import Scratch
from profkit.convert.kineto.text import last_event_end, skip_space
from profkit.errors import ProfkitError

_SHARED_BYTES = 128 << 20
"""Below this, to start a process takes longer than it saves."""
_PART_BYTES = 16 << 20
"""Smaller ones take longer: each numbers its texts anew, and all numbers are merged."""
_SEARCHED_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """Bytes of a file, and what makes a trace of them."""

    path: Path
    begin: int
    end: int
    before: bytes
    after: bytes


class PartSource(Source):
    """The bytes of one part, in chunks."""

    def __init__(self, part: Part) -> None:
        super().__init__(part.path)
        self.part = part

    def __iter__(self) -> Iterator[bytes]:
        """Yield chunks of at least one byte."""
        if self.part.before:
            yield self.part.before
        with self.path.open("rb") as file:
            file.seek(self.part.begin)
            left = self.part.end - self.part.begin
            while chunk := file.read(min(READ_BYTES, left)):
                left -= len(chunk)
                yield chunk
        if self.part.after:
            yield self.part.after


def is_shared(path: Path) -> bool:
    """Return whether several processes are faster: not with gzip, nor with a small file."""
    return path.stat().st_size >= _SHARED_BYTES and not is_gzip(path)


def parts_of(path: Path) -> list[Part]:
    """Return the parts of the plain trace at `path`; none if it cannot be cut."""
    size = path.stat().st_size
    count = max(size // _PART_BYTES, 1)
    with path.open("rb") as file:
        listed = file.read(_SEARCHED_BYTES).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")
        before, after = (b"[", b"]") if listed else (b'{"traceEvents":[', b"]}")
        cuts = [(0, 0)]
        for number in range(1, count):
            at = size * number // count
            file.seek(at)
            text = file.read(min(_SEARCHED_BYTES, size // count // 2))
            if (end := last_event_end(text, len(text))) < 0:
                return []
            cuts.append((at + end, at + skip_space(text, end)))
    cuts.append((size, size))
    return [
        Part(
            path=path,
            begin=begin,
            end=end,
            before=before if begin else b"",
            after=after if end < size else b"",
        )
        for (_, begin), (end, _) in pairwise(cuts)
    ]


def workers(count: int) -> ProcessPoolExecutor:
    """Return `count` processes that are ready to read parts, or to link."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return ProcessPoolExecutor(count, context, allocation.keep_freed)


def read_parts(
    cut: Sequence[Part], pool: Executor, scratch: Scratch | None = None, *, ahead: int = 2
) -> tuple[Header, Gathered] | None:
    """Return what all parts hold, read by this process and `pool`; None if one is not plain.

    `ahead` parts are given to the pool at a time: one for each of its processes, and the next.
    Threads give them, as the first waits until the processes are there.
    """
    scratch = scratch or Scratch()
    left = deque(range(1, len(cut)))  # the first is read here: it holds `scratch`, and all others
    read: dict[int, tuple[Header, Gathered] | None] = {}

    def ask() -> None:
        # The pool begins at the end: so both meet.
        for number in _until_empty(left.pop):
            read[number] = pool.submit(_read, cut[number], scratch).result()

    with ThreadPoolExecutor(ahead) as asking:
        asked = [asking.submit(ask) for _ in range(ahead)]
        try:
            for number in chain([0], _until_empty(left.popleft)):
                read[number] = _read(cut[number], scratch)
            for done in asked:
                done.result()
        except BrokenProcessPool:
            return None
        finally:
            left.clear()  # or the threads would go on after a failure
    found = [each for number in range(len(cut)) if (each := read[number]) is not None]
    if len(found) < len(cut):
        return None
    header, gathered = found[0]
    for more, later in found[1:]:
        header.merge(more)
        gathered.extend(later)
    return header, gathered


def _until_empty(take: Callable[[], int]) -> Iterator[int]:
    """Yield what `take` takes from what several take from."""
    with suppress(IndexError):
        while True:
            yield take()


def _read(part: Part, scratch: Scratch) -> tuple[Header, Gathered] | None:
    """Return what a part holds; None if it holds anything that others would have to know of."""
    reader, gathered = Reader(part.path, source=PartSource(part)), Gathered(scratch)
    try:
        for events in reader:
            gathered.add(events)
    except ProfkitError:
        return None
    plain = reader.ended and not reader.notes and gathered.alone
    return (reader.header, gathered) if plain else None
