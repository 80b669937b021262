"""Where in the text of a trace events begin and end, without parsing it.

An event ends at ``}``, a comma, and a ``{`` that begins like an event. Decoding what lies before
confirms it: a cut inside nested arguments or inside a string leaves text that does not decode.
"""

import re
from typing import Any

import msgspec
import numpy as np

_KEY = b'"traceEvents"'
_KEY_BYTES = 64
_ARRAY = re.compile(rb'(?<!\\)"traceEvents"\s*:\s*\[')
_LIST = re.compile(rb"\s*\[")
_EVENT = re.compile(rb'\{\s*"(?:ph|name|cat|pid|tid|ts|dur|args|id|s|bp)"\s*:')
_BEFORE_EVENT = re.compile(rb"\}\s*,\s*\Z")
_BEFORE_BYTES = 64
# Python writes NaN and Infinity, C++ nan and inf: none is JSON. Only a value of a key is looked
# at, because text such as "[nan, 1]" in a string must stay; only a value follows the key's quote.
_NOT_JSON = re.compile(rb'(?<!\\)("\s*:\s*)[-+]?(?:nan|inf(?:inity)?)(?=\s*[,}\]])', re.IGNORECASE)
# Slower, for NaN in arrays: strings are matched first and kept.
_NOT_JSON_ANYWHERE = re.compile(
    rb'("(?:[^"\\]|\\.)*")|[-+]?\b(?:nan|inf(?:inity)?)\b', re.IGNORECASE | re.DOTALL
)
_NAN = re.compile(rb'(?<![\w"])[-+]?(?:nan|inf(?:inity)?)(?![\w"])', re.IGNORECASE)
_NAN_BYTES = 12
_BYTE = re.compile(r"\(byte (\d+)\)")
TRAILING = "trailing characters"
"""In a decoder's message: the JSON value ended, and more follows."""
_SPACE = re.compile(rb"[ \t\r\n,]*")
_LEVELS = 100
_STEPS = np.zeros(256, dtype=np.int8)
_STEPS[list(b"[{")], _STEPS[list(b"]}")] = 1, -1
"""By how many levels each byte changes the nesting of JSON."""


def list_start(text: bytes | bytearray, searched: int = 0) -> int:
    """Return where the first event may begin, or -1; the first `searched` bytes hold no start."""
    if bare := _LIST.match(text):
        return bare.end()
    key = text.find(_KEY, max(0, searched - _KEY_BYTES))
    while key >= 0:
        if found := _ARRAY.match(text, key):
            return found.end()
        key = text.find(_KEY, key + 1)
    return -1


def last_event_end(text: bytes, before: int, after: int = 0) -> int:
    """Return where the last event that ends before `before` ends (its comma), or -1."""
    at = before
    while (at := text.rfind(b"{", after, at)) > after:
        if _EVENT.match(text, at) and (
            end := _BEFORE_EVENT.search(text[max(after, at - _BEFORE_BYTES) : at])
        ):
            return max(after, at - _BEFORE_BYTES) + end.start() + 1
    return -1


def last_event(text: bytes, after: int, before: int) -> int:
    """Return where the last event that begins in ``[after, before)`` begins; `after` if none."""
    end = last_event_end(text, before, after)
    return after if end < 0 else text.index(b"{", end)


def next_event(text: bytes, after: int, end: int) -> int:
    """Return where the first event that begins in ``[after, end)`` begins; `end` if none."""
    for event in _EVENT.finditer(text, after, end):
        at = event.start()
        if _BEFORE_EVENT.search(text[max(after - 1, at - _BEFORE_BYTES) : at]):
            return at
    return end


def decoded(text: bytes | memoryview, kind: Any) -> Any:
    """Decode JSON as `kind`; raises `msgspec.DecodeError` with a position for whatever is wrong."""
    try:
        return msgspec.json.decode(text, type=kind)
    except RecursionError:
        # Nesting of thousands of levels is damage like any other.
        message = f"JSON is nested too deeply (byte {_too_deep(text)})"
        raise msgspec.DecodeError(message) from None


def _too_deep(text: bytes | memoryview) -> int:
    """Return where nesting exceeds what traces have; brackets inside strings are counted too."""
    content = np.frombuffer(text, dtype=np.uint8)
    deep = np.cumsum(_STEPS[content], dtype=np.int32) > _LEVELS
    return int(deep.argmax()) if deep.any() else len(text)


def byte_of(message: str, size: int) -> int:
    """Return the position that a decoder's message names, or `size` if it names none."""
    if not (found := _BYTE.search(message)):
        return size
    # The position of trailing characters is that of the second one.
    return min(int(found[1]) - (TRAILING in message), size)


def holds_nan(text: bytes, position: int) -> bool:
    """Return whether what a decoder stumbled over at `position` is NaN or an infinity."""
    found = _NAN.search(text, max(0, position - 4), position + _NAN_BYTES)
    return found is not None and found.start() <= position


def without_nan(text: bytes) -> bytes:
    """Return `text` with null for NaN and infinities, which are not JSON."""
    repaired = _NOT_JSON.sub(rb"\1null", text)
    try:
        decoded(repaired, msgspec.Raw)
    except msgspec.DecodeError as error:
        if holds_nan(repaired, byte_of(str(error), len(repaired))):
            return _NOT_JSON_ANYWHERE.sub(lambda found: found[1] or b"null", repaired)
    return repaired


def skip_space(text: bytes, at: int) -> int:
    """Return the position of the first byte from `at` that is no white space or comma."""
    found = _SPACE.match(text, at)
    return found.end() if found else at
