"""A large trace read by several processes: cut between events, each part a whole trace by itself.

Parts are many more than processes: one that has other work, or a slow core, reads fewer. Whatever
is not plain about a part, damage above all, is left to one process that reads the file from its
beginning, because only that one knows where and how much.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import BinaryIO

from profkit.convert.columns.spill import Scratch, Spill
from profkit.convert.torch_profiler.columns import Events
from profkit.convert.torch_profiler.header import Header
from profkit.convert.torch_profiler.reader import BLOCK_BYTES, Reader
from profkit.convert.torch_profiler.source import READ_BYTES, Source, is_gzip
from profkit.convert.torch_profiler.text import last_event_end, skip_space
from profkit.core.errors import ProfkitError
from profkit.process import helpers

_SHARED_BYTES = 128 << 20
"""Below this, to start a process takes longer than it saves."""
_PART_BYTES = 2 * BLOCK_BYTES
"""At most this: a little more would make a third block, which is not free.

A process that has no more to do waits for less than this; 4 MB take 3 % longer.
"""
_SEARCHED_BYTES = 64 << 10, 1 << 20
"""Where an event ends is looked for in few bytes, and then in more: some events are large."""

_BEFORE, _AFTER = (b'{"traceEvents":[', b"["), (b"]}", b"]")
"""What makes a trace of a part: an object, or a bare list."""

_ByPart = dict[int, tuple[Header, Events] | None]
"""What each part holds, by its number; None if it holds anything that others have to know of."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """Bytes of a file, and what makes a trace of them."""

    path: Path
    begin: int
    end: int
    block_bytes: int
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


def parts_of(path: Path, block_bytes: int = BLOCK_BYTES) -> list[Part]:
    """Return the parts of the plain trace at `path`; none if it cannot be cut."""
    size = path.stat().st_size
    count = -(-size // _PART_BYTES)
    with path.open("rb") as file:
        listed = file.read(_SEARCHED_BYTES[0]).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")
        cuts = [(0, 0)]
        for number in range(1, count):
            at = size * number // count
            if not (found := _cut(file, at, most=size // count // 2)):
                return []
            cuts.append(found)
    cuts.append((size, size))
    return [
        Part(
            path=path,
            begin=begin,
            end=end,
            block_bytes=block_bytes,
            # Bare lists where they may be: that nothing follows their events is seen at once.
            before=_BEFORE[listed or end < size] if begin else b"",
            after=_AFTER[listed or begin > 0] if end < size else b"",
        )
        for (_, begin), (end, _) in pairwise(cuts)
    ]


def _cut(file: BinaryIO, at: int, most: int) -> tuple[int, int] | None:
    """Return where an event ends, not far behind `at`, and where the next one begins."""
    for searched in _SEARCHED_BYTES:
        file.seek(at)
        text = file.read(min(searched, most))
        if (end := last_event_end(text, len(text))) >= 0:
            return at + end, at + skip_space(text, end)
    return None


def workers(count: int) -> ProcessPoolExecutor:
    """Return `count` processes that are ready to read parts, or to link."""
    return helpers.started(count, __name__)


def read_parts(
    cut: Sequence[Part], pool: Executor, scratch: Scratch | None = None, *, others: int = 1
) -> tuple[Header, Events] | None:
    """Return what all parts hold, or None if one of them is not plain.

    This process reads from the beginning, and `others` of `pool` from the end: so all meet.
    """
    scratch = scratch or Scratch()
    claims = _Claims(folder=scratch.path / "claims", count=len(cut), processes=1 + others)
    claims.folder.mkdir(exist_ok=True)

    def ask() -> list[Future[_ByPart]]:
        with suppress(BrokenProcessPool):
            return [helpers.asked(pool, _backward, cut, claims, scratch) for _ in range(others)]
        return []

    # On a thread, as the first waits until the processes are there.
    with ThreadPoolExecutor(1) as asking:
        asked = asking.submit(ask)
        read = _share(cut, claims, claims.forward(), scratch)
    for answer in asked.result() if None not in read.values() else ():
        with suppress(BrokenProcessPool):
            read |= answer.result()
    if None not in read.values():
        lost = [number for number in range(len(cut)) if number not in read]  # a process was killed
        read |= _share(cut, claims, lost, scratch)
    found = [part for number in range(len(cut)) if (part := read.get(number)) is not None]
    return _joined(found) if len(found) == len(cut) else None


def _joined(found: Sequence[tuple[Header, Events]]) -> tuple[Header, Events]:
    (header, gathered), *others = found
    last = gathered
    for more, later in others:
        header.merge(more)
        if later is not last:  # one process read both
            gathered.extend(later)
        last = later
    return header, gathered


@dataclass(frozen=True, kw_only=True, slots=True)
class _Claims:
    """Which process reads which part: the first that makes a file of its number."""

    folder: Path
    count: int
    """Of parts."""
    processes: int
    """Those that read."""

    def forward(self) -> Iterator[int]:
        """Yield parts that are now this process's, from the first on."""
        return filter(self._take, range(self.count))

    def backward(self) -> Iterator[int]:
        """Yield the same from the last on, but not the first, in runs that are in order.

        Runs become shorter: each run numbers its texts anew, and all wait for the last.
        """
        free = filter(self._take, range(self.count - 1, 0, -1))
        while run := [*islice(free, max(self._left // (2 * self.processes), 1))]:
            yield from reversed(run)

    def close(self) -> None:
        """Claim what is left, so that other processes stop."""
        for number in range(self.count):
            self._take(number)

    @property
    def _left(self) -> int:
        return self.count - sum(1 for _ in self.folder.iterdir())

    def _take(self, number: int) -> bool:
        try:
            os.close(os.open(self.folder / str(number), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True


def _backward(cut: Sequence[Part], claims: _Claims, scratch: Scratch) -> _ByPart:
    """Return what this process can have of the parts, from the end: what a pool is asked for."""
    return _share(cut, claims, claims.backward(), scratch)


def _share(
    cut: Sequence[Part], claims: _Claims, numbers: Iterable[int], scratch: Scratch
) -> _ByPart:
    """Return what those parts hold; after one that is not plain all processes stop."""
    read: _ByPart = {}
    spill = Spill(scratch)
    try:
        for number in numbers:
            before = read.get(number - 1)
            gathered = before[1] if before else Events(scratch, spill)
            read[number] = _read(cut[number], gathered)
            if read[number] is None:
                break
    finally:
        claims.close()
    return read


def _read(part: Part, gathered: Events) -> tuple[Header, Events] | None:
    """Add a part to what was `gathered`; return None if it is not plain."""
    reader = Reader(part.path, block_bytes=part.block_bytes, source=PartSource(part))
    try:
        for events in reader:
            gathered.add(events)
    except ProfkitError:
        return None
    plain = reader.ended and not reader.notes and gathered.alone
    return (reader.header, gathered) if plain else None
