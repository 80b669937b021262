"""The bytes of a trace file, plain or gzip, damaged or not, in chunks."""

import re
import zlib
from collections.abc import Iterator
from pathlib import Path

from profkit.convert._other_formats import refused
from profkit.convert._unpacked import refuse_bomb
from profkit.core.errors import InputError

_GZIP = b"\x1f\x8b"
# Larger reads are not faster, and smaller ones are slower.
READ_BYTES = 256 << 10
# The state before each chunk is kept for the case of damage; a chunk may hold 1000 times its size.
_READ_GZIP_BYTES = 16 << 10

_OTHERS = (
    (b"\x80", "a Python pickle", "give a memory snapshot by itself, as `profkit show FILE`"),
    (
        b"SQLite format 3",
        "an SQLite database",
        "give an export of nsys by itself, as `profkit show FILE`",
    ),
    (b"\x7fELF", "a program", "give the trace that it wrote"),
    (b"PAR1", "a Parquet file", "give the trace, not a table made from one"),
)
# With a byte order mark or without: each character takes two or four bytes.
_WIDE = re.compile(rb"\xff\xfe|\0{0,2}\xfe\xff|\0+[\[{ \t\r\n]|[\[{ \t\r\n]\0")


def is_gzip(path: Path) -> bool:
    """Return whether the file is compressed."""
    with path.open("rb") as file:
        return file.read(len(_GZIP)) == _GZIP


class Source:
    """Iterate over the decompressed bytes of `path`; `damage` says where and why they end early."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damage = ""
        self.size_bytes = 0

    def __iter__(self) -> Iterator[bytes]:
        """Yield chunks of at least one byte."""
        compressed = is_gzip(self.path)
        with self.path.open("rb") as file:
            size = _READ_GZIP_BYTES if compressed else READ_BYTES
            chunks = iter(lambda: file.read(size), b"")
            for chunk in self._decompressed(chunks) if compressed else chunks:
                if not self.size_bytes:
                    _refuse_others(self.path, chunk)
                self.size_bytes += len(chunk)
                if compressed:
                    refuse_bomb(self.path, self.size_bytes)
                yield chunk

    def _decompressed(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """Yield what each gzip member holds; zlib itself, because `gzip` drops a cut-off tail."""
        member = None
        for chunk in chunks:
            left = chunk
            while left:
                member = member or zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
                before = member.copy()
                try:
                    text = member.decompress(left)
                except zlib.error as error:
                    self.damage = f"gzip data is damaged near byte {self.size_bytes}: {error}"
                    yield from _up_to_damage(before, left)
                    return
                if text:
                    yield text
                left = member.unused_data
                if member.eof:
                    member = None
                    if not left.startswith(_GZIP[: len(left)]):
                        return  # padding after the last member
        if member is not None:
            self.damage = f"gzip data ends early, after byte {self.size_bytes}"


def _up_to_damage(member: "zlib._Decompress", chunk: bytes) -> Iterator[bytes]:
    """Yield what the bytes of `chunk` before the damaged one hold."""
    for at in range(len(chunk)):
        try:
            text = member.decompress(chunk[at : at + 1])
        except zlib.error:
            return
        if text:
            yield text


def _refuse_others(path: Path, head: bytes) -> None:
    if _WIDE.match(head):
        raise InputError(
            f"{path}: text in UTF-16 or UTF-32, which JSON in a file must not be",
            hint="convert it: iconv -f UTF-16 -t UTF-8 FILE > NEW",
        )
    if (error := refused(path, head)) is not None:
        raise error
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    for magic, what, hint in _OTHERS:
        if head.startswith(magic):
            raise InputError(f"{path}: {what}, not a trace of torch.profiler", hint=hint)
    if text and text[:1] not in b"[{":
        raise InputError(
            f"{path}: neither JSON nor gzip, so not a trace of torch.profiler",
            hint="give the *.pt.trace.json[.gz] file that torch.profiler wrote",
        )
