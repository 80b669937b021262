"""What files are that no converter reads, by how they begin, and what to do with them."""

import re

from profkit.core.errors import InputError

BYTES_LOOKED_AT = 4096

_RECORDED = "profkit records such by itself: profkit profile +tool={} -- python train.py"
_BY_PY_SPY, _BY_PYINSTRUMENT = _RECORDED.format("py_spy"), _RECORDED.format("pyinstrument")
_FORMATS = (
    (rb"PK\x03\x04", "a zip archive, as those of torch.save", "unpack it first: unzip"),
    (rb"\x28\xb5\x2f\xfd", "packed by zstd", "unpack it first: unzstd"),
    (rb"\xfd7zXZ", "packed by xz", "unpack it first: unxz"),
    (rb"BZh", "packed by bzip2", "unpack it first: bunzip2"),
    (rb"(?s).{257}ustar", "a tar archive", "unpack it first: tar xf"),
    (rb"\s*\{[^{]*speedscope\.app/file-format-schema", "samples for speedscope", _BY_PY_SPY),
    (rb"[^\n]*\([^\n()]*:\d+\) \d+\r?\n", "stacks for a flame graph", _BY_PY_SPY),
    (rb"(?:<\?xml[^<]*<(?:!DOCTYPE svg[^<]*<)?)?<?svg\b", "a picture (SVG)", _BY_PY_SPY),
    (
        rb'\s*\{[^{]*"sample_count": ?\d|\s*_     \._   __/__',
        "a session of pyinstrument",
        _BY_PYINSTRUMENT,
    ),
    (rb"\s*\{[^{}]*\"alloc_samples\"", "a profile of Scalene", _BY_PY_SPY),
    (rb"(?s)[{\xfb](?:\)\x03|\xa9\x03|\(\x03)", "a profile of cProfile", _BY_PYINSTRUMENT),
    (rb"(?s).{0,64}memray\0", "a recording of memray", _RECORDED.format("host_memory")),
    (
        rb"\s*\[\[-?\d+, ?-?\d+, ?\d+, ?-?\d+\]",
        "a memory timeline of torch.profiler",
        "give its trace, or the pickle that torch.cuda.memory._dump_snapshot writes",
    ),
    (rb'"?Time \(%\)', "a table of `nsys stats`", "give the report (.nsys-rep) that it is of"),
    (rb"(?i)\s*(?:<!DOCTYPE html|<html)", "a web page", "give the recording that it shows"),
)
"""How files begin, after zero bytes or more, what they are, and what to do."""
_KNOWN = tuple((re.compile(begin), what, hint) for begin, what, hint in _FORMATS)


def refused(path: object, head: bytes) -> InputError | None:
    """Return what is wrong with a file that begins with `head`; None if it may be read.

    `head` are `BYTES_LOOKED_AT` bytes, or as many as there are.
    """
    text = head[:BYTES_LOOKED_AT].removeprefix(b"\xef\xbb\xbf")
    return next(
        (
            InputError(f"{path}: {what}", hint=hint)
            for pattern, what, hint in _KNOWN
            if pattern.match(text)
        ),
        None,
    )
