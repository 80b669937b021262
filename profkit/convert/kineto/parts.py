"""A large trace read by several processes: cut between events, each part a whole trace by itself.

Parts are many more than processes: one that has other work, or a slow core, reads fewer. Whatever
is not plain about a part, damage above all, is left to one process that reads the file from its
beginning, because only that one can tell where and how much.
"""

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from profkit import allocation
from profkit.convert.kineto.columns import Gathered
from profkit.convert.kineto.reader import Header, Reader
from profkit.convert.kineto.source import READ_BYTES, Source, is_gzip
from profkit.convert.kineto.spill import Scratch, Spill
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


_Read = dict[int, tuple[Header, Gathered] | None]
"""What each part holds, by its number; None if it holds anything that others have to know of."""


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
    cut: Sequence[Part], pool: Executor, scratch: Scratch | None = None, *, others: int = 1
) -> tuple[Header, Gathered] | None:
    """Return what all parts hold, or None if one of them is not plain.

    This process reads from the beginning, and `others` of `pool` from the end: so all meet.
    """
    scratch = scratch or Scratch()
    every = range(len(cut))
    from_end = every[:0:-1]  # the first is read here, as what it holds keeps `scratch`

    def ask() -> list[Future[_Read]]:
        with suppress(BrokenProcessPool):
            return [pool.submit(_share, cut, from_end, scratch) for _ in range(others)]
        return []

    # On a thread, as the first waits until the processes are there.
    with ThreadPoolExecutor(1) as asking:
        asked = asking.submit(ask)
        read = _share(cut, every, scratch)
    for answer in asked.result() if None not in read.values() else ():
        with suppress(BrokenProcessPool):
            read |= answer.result()
    if None not in read.values():
        spill = Spill(scratch.path)
        lost = [number for number in every if number not in read]  # by a process that was killed
        read |= {number: _read(cut[number], Gathered(scratch, spill)) for number in lost}
    found = [each for number in every if (each := read.get(number)) is not None]
    return _joined(found) if len(found) == len(cut) else None


def _joined(found: Sequence[tuple[Header, Gathered]]) -> tuple[Header, Gathered]:
    (header, gathered), *others = found
    last = gathered
    for more, later in others:
        header.merge(more)
        if later is not last:  # one process read both
            gathered.extend(later)
        last = later
    return header, gathered


def _share(cut: Sequence[Part], numbers: Sequence[int], scratch: Scratch) -> _Read:
    """Return what those parts hold that nobody else took, in the order of `numbers`."""
    read: _Read = {}
    spill = Spill(scratch.path)
    try:
        for number in numbers:
            if _take(number, scratch):
                before = read.get(number - 1)
                gathered = before[1] if before else Gathered(scratch, spill)
                read[number] = _read(cut[number], gathered)
                if read[number] is None:
                    break
    finally:
        for number in numbers:  # whoever else reads need not go on
            _take(number, scratch)
    return read


def _take(number: int, scratch: Scratch) -> bool:
    """Return whether this process is the first to ask for a part: a file says that it is taken."""
    try:
        os.close(os.open(scratch.path / f"taken{number}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def _read(part: Part, gathered: Gathered) -> tuple[Header, Gathered] | None:
    reader = Reader(part.path, source=PartSource(part))
    try:
        for events in reader:
            gathered.add(events)
    except ProfkitError:
        return None
    plain = reader.ended and not reader.notes and gathered.alone
    return (reader.header, gathered) if plain else None
