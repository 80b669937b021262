"""What a communication call moves, in the words that PyTorch, NCCL and Gloo have for it."""

import json
import math
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from profkit.convert.columns.values import Number, compact_json, integers

UNKNOWN = -1
_ELEMENTS_BELOW = 1 << 50
RANKS_BELOW = 1 << 31
"""What is larger is damage, and would not fit into its column."""

# The first that is found counts: "reduce" is part of two others. Most traces need none.
_OPERATIONS = {
    "allreduce": r"all_?reduce|cross_device_reduce|one_?shot_reduce",
    "reduce_scatter": r"reduce_?scatter",
    "allgather": r"all_?gather",
    "alltoall": r"all_?(?:to|2)_?all",
    "dispatch": r"(?<![a-z0-9])ep::.*dispatch|epdispatch",
    "combine": r"(?<![a-z0-9])ep::.*combine|epcombine",
    "sendrecv": r"send_?recv",
    "broadcast": r"broadcast",
    "barrier": r"barrier",
    "gather": r"gather",
    "scatter": r"scatter",
    "reduce": r"reduce",
    "send": r"send",
    "recv": r"recv",
}
# Names of Python, of the C++ that older versions wrote, and of c10's scalar types.
_DTYPES: dict[str, tuple[int, tuple[str, ...]]] = {
    "float32": (4, ("float", "float32")),
    "float64": (8, ("double", "float64")),
    "float16": (2, ("half", "c10::half", "float16")),
    "bfloat16": (2, ("bfloat16", "c10::bfloat16")),
    "int64": (8, ("long", "long int", "int64")),
    "int32": (4, ("int", "int32")),
    "int16": (2, ("short", "short int", "int16")),
    "int8": (1, ("char", "signed char", "int8")),
    "uint64": (8, ("uint64", "unsigned long")),
    "uint32": (4, ("uint32", "unsigned int")),
    "uint16": (2, ("uint16", "unsigned short")),
    "uint8": (1, ("byte", "unsigned char", "uint8")),
    "bool": (1, ("bool",)),
    "float8_e4m3fn": (1, ("float8_e4m3fn", "c10::float8_e4m3fn")),
    "float8_e5m2": (1, ("float8_e5m2", "c10::float8_e5m2")),
    "float8_e4m3fnuz": (1, ("float8_e4m3fnuz", "c10::float8_e4m3fnuz")),
    "float8_e5m2fnuz": (1, ("float8_e5m2fnuz", "c10::float8_e5m2fnuz")),
    "float8_e8m0fnu": (1, ("float8_e8m0fnu", "c10::float8_e8m0fnu")),
    "float4_e2m1fn_x2": (1, ("float4_e2m1fn_x2", "c10::float4_e2m1fn_x2")),
    "complex32": (4, ("complexhalf", "c10::complex<c10::half>")),
    "complex64": (8, ("complexfloat", "c10::complex<float>")),
    "complex128": (16, ("complexdouble", "c10::complex<double>")),
}
_DTYPE = {word: dtype for dtype, (_, words) in _DTYPES.items() for word in words}
_SIZE = {dtype: size for dtype, (size, _) in _DTYPES.items()}
_TENSORS = "tensorlist"


class Arguments(Protocol):
    """What a recorder notes of one call, in its own notation."""

    @property
    def collective(self) -> Number:
        """Function that was called."""

    @property
    def elements_in(self) -> Number:
        """Elements that the rank gives."""

    @property
    def elements_out(self) -> Number:
        """Elements that it gets."""

    @property
    def group_size(self) -> Number:
        """Ranks of the group."""

    @property
    def dtype(self) -> Number:
        """Type of an element."""

    @property
    def group(self) -> Number:
        """Name of the group."""

    @property
    def group_description(self) -> Number:
        """What the program calls the group."""

    @property
    def group_ranks(self) -> msgspec.Raw:
        """Ranks of the group, as JSON."""


class Message(NamedTuple):
    """What one call says of itself; "" and -1 where it does not."""

    operation: str = ""
    group: str = ""
    description: str = ""
    ranks: str = ""
    size: int = UNKNOWN
    given: int = UNKNOWN
    got: int = UNKNOWN
    dtype: str = ""


NO_MESSAGE = Message()


class Messages:
    """Messages by number, in the order in which they were first seen; none is number 0.

    A program repeats the same few calls, so that a number per event is all that most cost.
    """

    def __init__(self) -> None:
        self._numbers: dict[Message, int] = {NO_MESSAGE: 0}
        self._seen: dict[tuple[Number | bytes, ...], int] = {}

    def codes(self, args: Iterable[Arguments]) -> NDArray[np.int32]:
        """Return the number of each event's message."""
        return np.array(list(map(self._number, args)), dtype=np.int32)

    def _number(self, args: Arguments) -> int:
        texts = (args.collective, args.group, args.group_description, args.dtype)
        counts = (args.group_size, args.elements_in, args.elements_out)
        key = (*texts, *counts, bytes(args.group_ranks))
        if key not in self._seen:
            self._seen[key] = self._numbers.setdefault(_message(args), len(self._numbers))
        return self._seen[key]

    def merged(self, other: "Messages") -> NDArray[np.int32]:
        """Return, by its number in `other`, the number of each message here."""
        numbers = [self._numbers.setdefault(message, len(self._numbers)) for message in other.all()]
        return np.array(numbers, dtype=np.int32)

    def all(self) -> list[Message]:
        """Return every message, by number."""
        return list(self._numbers)


def _message(args: Arguments) -> Message:
    """Return what `args` say; waiting for a call and making a group are no messages."""
    operation = operation_of(str(args.collective))
    if not operation:
        return NO_MESSAGE
    size, given, got = integers([args.group_size, args.elements_in, args.elements_out]).tolist()
    ranks = ranks_of(bytes(args.group_ranks))
    stated = plausible(size, RANKS_BELOW)
    return Message(
        operation=operation,
        group=_text(args.group),
        description=_text(args.group_description),
        ranks=ranks,
        size=count_of(ranks) if stated < 0 else stated,
        given=plausible(given),
        got=plausible(got),
        dtype=dtype_of(_text(args.dtype)),
    )


def plausible(count: object, below: int = _ELEMENTS_BELOW) -> int:
    """Return `count` if it is a number of things, otherwise -1."""
    return count if isinstance(count, int) and 0 <= count < below else UNKNOWN


def _text(value: Number) -> str:
    return "" if value is None else str(value)


@lru_cache(1 << 15)
def operation_of(name: str) -> str:
    """Return the operation that a function, range or kernel of this name does, "" if unknown."""
    lower = name.lower()
    return next(
        (operation for operation, words in _OPERATIONS.items() if re.search(words, lower)), ""
    )


def dtype_of(name: str) -> str:
    """Return the type of torch that is called `name`; an unknown one keeps its name."""
    return _DTYPE.get(name.lower(), name)


def ranks_of(text: bytes) -> str:
    """Return the ranks of a group as compact JSON; they are written as a list or as its text."""
    value = compact_json(text)
    listed = json.loads(value) if value.startswith('"') else value
    return str(listed).replace(" ", "")


def count_of(ranks: str) -> int:
    """Return how many `ranks` there are; -1 if that is unknown, as of a list that ends in dots."""
    return len(listed_ranks(ranks)) or UNKNOWN


def listed_ranks(ranks: str) -> list[int]:
    """Return the numbers in the list `ranks`; none if it is no list, or one that ends in dots."""
    try:
        listed = json.loads(ranks)
    except ValueError:
        return []
    is_whole = isinstance(listed, list) and all(type(rank) is int for rank in listed)
    return listed if is_whole else []


def elements(shapes: str, types: str) -> tuple[int, str]:
    """Return how many elements the tensors of one range hold, and their type if it is one.

    `shapes` and `types` are JSON lists as the profiler writes them; -1 if they do not say.
    """
    try:
        dims, kinds = json.loads(shapes), json.loads(types)
        if not dims or len(dims) != len(kinds) or _TENSORS in map(str.lower, kinds):
            return UNKNOWN, ""
        count = sum(math.prod(shape) for shape in dims)
    except (ValueError, TypeError, AttributeError):
        # Of a version that writes them otherwise, or damaged.
        return UNKNOWN, ""
    dtypes = {dtype_of(dtype) for dtype in kinds}
    return plausible(count), dtypes.pop() if len(dtypes) == 1 else ""


def largest(shapes: str, types: str) -> tuple[int, str]:
    """Return elements and type of the largest tensor among the inputs of an operator.

    What it gives is an input, and what it gets often one as well; -1 if they do not say.
    """
    try:
        dims, kinds = json.loads(shapes), json.loads(types)
        pairs = zip(dims, map(dtype_of, kinds), strict=True)
        known = [(shape, kind) for shape, kind in pairs if shape and kind in _SIZE]
        sizes = [(math.prod(map(int, shape)), kind) for shape, kind in known]
    except (ValueError, TypeError, AttributeError):
        # Of a version that writes them otherwise, or damaged.
        return UNKNOWN, ""
    count, dtype = max(sizes, key=lambda pair: pair[0] * _SIZE[pair[1]], default=(UNKNOWN, ""))
    return plausible(count), dtype


def size_bytes(message: Message) -> int:
    """Return the larger of what a rank gives and gets, -1 if unknown.

    That is the size in the bandwidths of NCCL's benchmarks; for a broadcast both are equal.
    """
    largest = max(message.given, message.got)
    if message.operation in ("allgather", "gather") and message.got < 0:
        known = min(message.given, message.size) >= 0
        largest = plausible(message.given * message.size) if known else UNKNOWN
    width = _SIZE.get(message.dtype, UNKNOWN)
    return largest * width if min(largest, width) >= 0 else UNKNOWN
