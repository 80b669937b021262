"""Ways in which a trace file comes to harm, each a function of its bytes and of chance."""

import gzip
import re

_DURATION = re.compile(rb'("dur"\s*:\s*)"?[\d.]+"?')
_VALUE = re.compile(rb'("[^"]{1,40}"\s*:\s*)("[^"]*"|-?[\d.]+|\[[^\[\]]*\])')
WILD = (
    *(b"NaN", b"Infinity", b"null", b"true", b"[]", b"{}", b'""', b'"x"', b'"\\ud800"', b'"0x10"'),
    *(b"1e400", b"1e-999999999", b"-1", b"3.7", b"0.0000001", b"1e18", b"2147483648"),
    *(b"9223372036854775808", b"-9223372036854775809", b"99999999999999999999999"),
)
"""Values that some program, or some damage, has put where a number or a name belongs."""


def cut(percent):
    return lambda text, _: text[: len(text) * percent // 100]


def byte_changed(text, chance):
    damaged = bytearray(text)
    damaged[chance.randrange(len(damaged))] = chance.randrange(256)
    return bytes(damaged)


def bytes_deleted(text, chance):
    at = chance.randrange(len(text))
    return text[:at] + text[at + chance.choice((1, 10, 1000)) :]


def duration_is_nan(text, _):
    return _DURATION.sub(rb"\1NaN", text, count=3)


def values_replaced(text, chance):
    share = chance.choice((0.001, 0.02, 0.3))
    return _VALUE.sub(
        lambda found: found[1] + chance.choice(WILD) if chance.random() < share else found[0], text
    )


def without_events(*_):
    return b'{"schemaVersion": 1, "traceEvents": []}'


def unpacked(content):
    return gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content


WAYS = {
    "cut at 10 %": cut(10),
    "cut at 50 %": cut(50),
    "cut at 99 %": cut(99),
    "a byte changed": byte_changed,
    "bytes deleted": bytes_deleted,
    "durations that are NaN": duration_is_nan,
    "values of any kind": values_replaced,
    "no events": without_events,
}
