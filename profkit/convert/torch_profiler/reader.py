"""A trace of any size as blocks of events: one block in memory at a time, damage repaired.

A block ends where an event ends: see `profkit.convert.torch_profiler.text` for how that is found.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from profkit.convert.columns.values import EXACT_BELOW_US
from profkit.convert.torch_profiler.events import DecimalEvent, Event, FloatEvent, loose
from profkit.convert.torch_profiler.header import (
    DecimalDocument,
    ExactDocument,
    FloatDocument,
    Header,
    PlainDocument,
)
from profkit.convert.torch_profiler.plain_events import Block, Events, ExactBlock, plainly
from profkit.convert.torch_profiler.source import Source
from profkit.convert.torch_profiler.text import (
    TRAILING,
    byte_of,
    decoded,
    holds_nan,
    last_event,
    last_event_end,
    list_start,
    next_event,
    skip_space,
    without_nan,
)
from profkit.core.errors import InputError
from profkit.core.formatting import agreeing

# Larger and smaller blocks are slower: by 4 % at 8 MB, where caches hold less, by 8 % at 1 MB.
BLOCK_BYTES = 4 << 20
_PIECE_BYTES = 1 << 20
_HEADER_BYTES = 64 << 20
"""Most that may stand before the events, or after them."""
_EVENT_BYTES = 32 << 20
"""Most that one event may take: Kineto writes some kB, and a stranger's must not fill memory."""
_CUT_OFF = "truncated"
"""In a decoder's message: the JSON value goes on beyond the end."""

_CUTS_TRIED = 8
_KEYS_TRIED = 100
_SAMPLED = 256
_PLACES_NAMED = 3


class Reader:
    """Iterate over the blocks of events of one trace; afterwards `header` and `notes` are whole."""

    def __init__(
        self, path: Path, *, block_bytes: int = BLOCK_BYTES, source: Source | None = None
    ) -> None:
        self.path = path
        self.block_bytes = block_bytes
        self.source = source or Source(path)
        self.header = Header()
        self.notes: list[str] = []
        self.lost: list[int] = []
        """Byte offsets of events that could not be read."""
        self.ended = False
        """Whether the closing bracket of the list of events was seen."""
        self._chunks = iter(self.source)
        self._exact = False
        self._in_object = True

    def __iter__(self) -> Iterator[Events]:
        """Yield lists of events, in the order of the file."""
        offset, text = self._begin()
        while True:
            text, more = self._fill(text)
            events, used = self._leading(text, offset) if more else (None, 0)
            if events is None:
                break
            yield self._timed(events, text, used, self._list)
            used = skip_space(text, used)
            offset, text = offset + used, text[used:]
        if more:  # the list ended before the file did: what follows is small
            text = self._rest(text, offset)
        yield self._last(text, offset)
        self._conclude(offset + len(text))

    def _begin(self) -> tuple[int, bytes]:
        """Return offset and text of the first event, having read what stands before it."""
        text = bytearray()
        for chunk in self._chunks:
            searched = len(text)
            text += chunk if text else chunk.removeprefix(b"\xef\xbb\xbf")
            if (start := list_start(text, searched)) >= 0:
                self._in_object = not text[:start].lstrip().startswith(b"[")
                if self._in_object:
                    self.header = self._header(bytes(text[:start]) + b"]}")
                return start, bytes(text[start:])
            if len(text) > _HEADER_BYTES:
                break
        if not text.strip():
            reason = f" ({self.source.damage})" if self.source.damage else ""
            raise InputError(
                f"{self.path}: the file is empty{reason}",
                hint="the process may have died before it wrote; run the capture again",
            )
        try:
            decoded(bytes(text), msgspec.Raw)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            if _CUT_OFF in str(error):
                raise InputError(
                    f"{self.path}: cut off before the first event, after {len(text)} bytes",
                    hint="the process may have died while it wrote; run the capture again",
                ) from None
        raise InputError(
            f"{self.path}: JSON without `traceEvents`, so not a trace of torch.profiler",
            hint="give the *.pt.trace.json[.gz] file that torch.profiler wrote",
        )

    def _header(self, text: bytes) -> Header:
        for candidate in (text, without_nan(text)):
            try:
                header: Header = decoded(candidate, Header)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
            return header
        self.notes.append("The keys beside the events are damaged: only some or none were read.")
        return _leading_keys(text)

    def _fill(self, text: bytes) -> tuple[bytes, bool]:
        """Return `text` grown to a block, and whether the file goes on."""
        parts, size = [text], len(text)
        while size < self.block_bytes:
            chunk = next(self._chunks, None)
            if chunk is None:
                return b"".join(parts), False
            parts.append(chunk)
            size += len(chunk)
        return b"".join(parts), True

    def _leading(self, text: bytes, offset: int) -> tuple[Events | None, int]:
        """Decode the events at the front of `text`; None if the list ends within it."""
        cut = first = last_event_end(text, len(text))
        for _ in range(_CUTS_TRIED):
            if cut <= 0:
                break
            block = _bracketed(text, 0, cut)
            try:
                return self._decode(block), cut
            except msgspec.DecodeError as error:
                if TRAILING in str(error):
                    return None, 0
                if byte_of(str(error), len(block)) < len(block) - _PIECE_BYTES:
                    break  # damage, not a cut in the wrong place
            cut = last_event_end(text, cut)
        if first <= 0:  # one event larger than a block
            if len(text) > _EVENT_BYTES:
                raise self._too_large("an event, or what follows the last", _EVENT_BYTES, offset)
            self.block_bytes *= 2
            return [], 0
        return self._salvage(text[:first], offset), first

    def _rest(self, text: bytes, offset: int) -> bytes:
        """Return the end of the file, which begins with `text`."""
        parts, size = [text], len(text)
        for chunk in self._chunks:
            parts.append(chunk)
            size += len(chunk)
            if size > len(text) + _HEADER_BYTES:
                raise self._too_large("what follows the list of events", _HEADER_BYTES, offset)
        return b"".join(parts)

    def _too_large(self, what: str, most: int, offset: int) -> InputError:
        return InputError(
            f"{self.path}: refused: {what}, near byte {offset}, takes more than {most >> 20} MiB",
            hint="it is damaged, or no trace of torch.profiler; give one trace in each file",
        )

    def _last(self, text: bytes, offset: int) -> Events:
        """Return the events of the end of the file, and read the keys after them."""
        try:
            events = self._ending(text)
            self.ended = True
        except (msgspec.DecodeError, UnicodeDecodeError):
            events = self._salvage(text, offset)
        return self._timed(events, text, len(text), self._ending)

    def _list(self, text: bytes) -> Events:
        return self._decode(_bracketed(text, 0, len(text)))

    def _ending(self, text: bytes) -> Events:
        return self._document(text) if self._in_object else self._decode(b"[" + text)

    def _document(self, text: bytes) -> Events:
        if list_start(text) >= 0:
            raise msgspec.DecodeError("a second list of events")  # it would replace the first
        text = b'{"traceEvents":[' + text
        document: PlainDocument | ExactDocument | FloatDocument | DecimalDocument | None
        document = plainly(text, ExactDocument if self._exact else PlainDocument)
        if document is None:
            document = decoded(text, DecimalDocument if self._exact else FloatDocument)
        self.header.merge(document)
        return document.traceEvents

    def _timed(
        self, events: Events, text: bytes, used: int, decode: Callable[[bytes], Events]
    ) -> Events:
        """Return `events`, decoded once more and exactly if a float cannot hold their times."""
        sample = events[:: 1 + len(events) // _SAMPLED]  # one clock wrote them all
        times = [getattr(event, "ts", None) for event in sample]
        if self._exact or not any(type(ts) is float and ts >= EXACT_BELOW_US for ts in times):
            return events
        self._exact = True
        with suppress(msgspec.DecodeError, UnicodeDecodeError):
            return decode(text[:used])
        # Damage in this block was counted the first time.
        counted = self.lost, self.notes, self.ended
        self.lost, self.notes, self.ended = [], [], False
        exact = self._salvage(text[:used], 0)
        self.lost, self.notes, self.ended = counted
        return exact

    def _decode(self, text: bytes) -> Events:
        """Decode a JSON list of events, repairing what is valid elsewhere but not in JSON."""
        try:
            plain = plainly(text, ExactBlock if self._exact else Block)
            return self._decode_strictly(text) if plain is None else plain
        except UnicodeDecodeError:
            return self._decode(text.decode("utf-8", "replace").encode())
        except msgspec.DecodeError as error:
            if not holds_nan(text, byte_of(str(error), len(text))):
                raise
            return self._decode_strictly(without_nan(text))

    def _decode_strictly(self, text: bytes) -> list[Event]:
        kind: Any = list[DecimalEvent] if self._exact else list[FloatEvent]
        try:
            events: list[Event] = decoded(text, kind)
        except msgspec.ValidationError:
            return self._decode_loosely(text)
        return events

    def _decode_loosely(self, text: bytes) -> list[Event]:
        kind = DecimalEvent if self._exact else FloatEvent
        decoder = msgspec.json.Decoder(kind)
        events: list[Event] = []
        for raw in decoded(text, list[msgspec.Raw]):
            try:
                event: Event | None = decoder.decode(raw)
            except msgspec.ValidationError:
                event = loose(raw)
            if event is not None:
                events.append(event)
        return events

    def _salvage(self, text: bytes, offset: int) -> list[Event]:
        """Decode what can be had of damaged text, in pieces, and count the events lost."""
        # All repairs first: they move what follows, and errors are found by position.
        text = without_nan(b"[" + text.decode("utf-8", "replace").encode())[1:]
        events: list[Event] = []
        at = 0
        while at < len(text) and not self.ended:
            end = last_event_end(text, min(at + _PIECE_BYTES, len(text)), at)
            if end <= at or len(text) - at <= _PIECE_BYTES:
                end = len(text)
            self._salvage_piece(text, at, end, offset, events)
            at = end
        return events

    def _salvage_piece(
        self, text: bytes, at: int, end: int, offset: int, events: list[Event]
    ) -> None:
        """Decode the events of ``text[at:end]``, leaving out those where decoding fails."""
        while (at := skip_space(text, at)) < end:
            try:
                events += self._decode_strictly(_bracketed(text, at, end))
            except msgspec.DecodeError as error:
                broken = at + byte_of(str(error), end + 1 - at) - 1
                if TRAILING in str(error):
                    events += self._decode_or_lose(text[at:broken].rstrip()[:-1], offset + at)
                    self._end(text[broken:])
                    return
                start = last_event(text, at, broken)
                events += self._decode_or_lose(text[at:start], offset + at)
                whole = self._whole(text[start:broken])
                if whole is not None and text[broken : broken + 1] in (b"]", b""):
                    events += whole  # nothing is wrong but a comma after the last event
                    at = broken
                    continue
                self.lost.append(offset + start)
                at = next_event(text, start + 1, end)
            else:
                return

    def _decode_or_lose(self, text: bytes, offset: int) -> list[Event]:
        if (events := self._whole(text)) is None:
            self.lost.append(offset)
        return events or []

    def _whole(self, text: bytes) -> list[Event] | None:
        """Return the events that `text` consists of; None if there is anything else in it."""
        if not (events := text.rstrip(b" \t\r\n,")):
            return []
        try:
            return self._decode_strictly(b"[" + events + b"]")
        except msgspec.DecodeError:
            return None

    def _end(self, trailer: bytes) -> None:
        """Read the keys after the list of events."""
        self.ended = True
        keys = trailer[skip_space(trailer, 0) :]
        own = _first_document(keys) if self._in_object else b""
        if list_start(keys) >= 0:
            self.notes.append(
                "Another list of events follows the first and was left out: give each trace in a"
                " file of its own."
            )
        elif more := len(keys) - len(own):
            self.notes.append(
                agreeing(
                    more, "{} byte[s] follow[s|] the end of the trace and [was|were] left out."
                )
            )
        if self._in_object:
            self.header.merge(self._header(b"{" + own))

    def _conclude(self, size: int) -> None:
        """Put into words what was lost, and where."""
        if self.source.damage:
            self.notes.append(f"The {self.source.damage} of the uncompressed text.")
        if not self.ended:
            self.notes.append(
                f"The trace is cut off at byte {size}: later events are missing"
                + ("." if self.header.base_ns else ", and times count from an unknown start.")
            )
        if self.lost:
            where = ", ".join(str(offset) for offset in self.lost[:_PLACES_NAMED])
            more = " and others" if len(self.lost) > _PLACES_NAMED else ""
            self.notes.append(
                agreeing(
                    len(self.lost),
                    "{} event[s] could not be read (near byte {at}).",
                    at=where + more,
                )
            )


def _first_document(keys: bytes) -> bytes:
    """Return the `keys` at the end of a trace without another document that follows them."""
    try:
        decoded(b"{" + keys, msgspec.Raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if TRAILING in str(error):
            return keys[: byte_of(str(error), len(keys) + 1) - 1]
    return keys


def _leading_keys(text: bytes) -> Header:
    """Return the keys that stand whole before the damage in the text of an object."""
    end = len(text)
    for _ in range(_KEYS_TRIED):
        try:
            header: Header = decoded(text[:end] + b"}", Header)
        except (msgspec.DecodeError, UnicodeDecodeError):
            if (end := text.rfind(b",", 0, end)) < 0:
                break
        else:
            return header
    return Header()


def _bracketed(text: bytes, start: int, end: int) -> bytes:
    return b"".join((b"[", memoryview(text)[start:end], b"]"))
