"""A large trace read by several processes: cut between events, each part a whole trace by itself.

Parts are many more than processes: one that has other work, or a slow core, reads fewer. Whatever
is not plain about a part, damage above all, is left to one process that reads the file from its
beginning, because only that one can tell where and how much.
"""

import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from profkit.convert.kineto.columns import Gathered
from profkit.convert.kineto.reader import Header, Reader
from profkit.convert.kineto.source import READ_BYTES, Source, is_gzip
from profkit.convert.kineto.spill import Scratch
from profkit.convert.kineto.text import last_event_end, skip_space
from profkit.errors import ProfkitError

_SHARED_BYTES = 128 << 20
"""Below this, to start a process takes longer than it saves."""
_PART_BYTES = 16 << 20
"""Smaller ones take longer: after each its memory is given back and faulted in again."""
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
    return ProcessPoolExecutor(count, mp_context=context)


def read_parts(
    cut: Sequence[Part], pool: Executor, scratch: Scratch | None = None, *, ahead: int = 2
) -> tuple[Header, Gathered] | None:
    """Return what all parts hold, read by this process and `pool`; None if one is not plain.

    `ahead` parts are given to the pool at a time: one for each of its processes, and the next.
    """
    scratch = scratch or Scratch()
    read: list[tuple[Header, Gathered] | None] = []
    others: list[Future[tuple[Header, Gathered] | None]] = []
    try:
        # The pool begins at the end, and is given a little at a time: so both meet.
        while len(read) + len(others) < len(cut):
            busy = sum(not each.done() for each in others)
            while busy < ahead and len(read) + len(others) + 1 < len(cut):
                others.append(pool.submit(_read, cut[-1 - len(others)], scratch))
                busy += 1
            read.append(_read(cut[len(read)], scratch))
        read += [each.result() for each in reversed(others)]
    except BrokenProcessPool:
        return None
    found = [each for each in read if each is not None]
    if len(found) < len(read):
        return None
    header, gathered = found[0]
    for more, later in found[1:]:
        header.merge(more)
        gathered.extend(later)
    return header, gathered


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
