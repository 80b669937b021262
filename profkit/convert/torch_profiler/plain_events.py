"""Events as Kineto writes them, decoded in one go with those of their arguments that are columns.

That takes half of the time of reading them one by one, see `profkit.convert.torch_profiler.events`:
the category says what is needed, and nothing else becomes an object. A block with anything that is
written otherwise does not decode as this.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Literal, Union, get_args

import msgspec

from profkit.convert.columns.values import Number
from profkit.convert.linking.gathered import (
    ANNOTATION,
    CALL,
    COPY,
    KERNEL,
    MEMORY,
    OPERATOR,
    PYTHON,
    SET,
    SPAN,
    SYNCHRONISATION,
)
from profkit.convert.torch_profiler import text
from profkit.convert.torch_profiler.args import (
    CallArgs,
    MemoryArgs,
    NameArgs,
    OperatorArgs,
    RangeArgs,
    WaitArgs,
    WorkArgs,
)
from profkit.convert.torch_profiler.categories import FLOWS, IGNORED, KINDS
from profkit.convert.torch_profiler.events import Event

ARGS: dict[int, type[msgspec.Struct] | None] = {
    PYTHON: None,
    OPERATOR: OperatorArgs,
    ANNOTATION: OperatorArgs,
    CALL: CallArgs,
    KERNEL: WorkArgs,
    COPY: WorkArgs,
    SET: WorkArgs,
    SPAN: RangeArgs,
    MEMORY: MemoryArgs,
    SYNCHRONISATION: WaitArgs,
}
"""The arguments of rows of each kind; those of hardware counters have any name."""
_WithoutCategory = Literal[
    "process_name",
    "process_labels",
    "process_sort_index",
    "thread_name",
    "thread_sort_index",
    "Iteration Start: PyTorch Profiler",
    "Record Window End",
]
_NO_TIME = msgspec.Raw(b"null")
_FIRST, _LAST = b'"process_name"', b'"Record Window End"'
_END_BYTES = 64 << 10
"""What may follow it: the keys beside the events."""
_NEAR_BYTES = 128 << 10
"""What describes a thousand threads, which may stand between what describes two processes."""


class Plain(msgspec.Struct, gc=False):
    """A plain event: its category is its type."""

    cat: ClassVar[str]


class _Flow(Plain, gc=False):
    """An arrow between events."""

    ph: Literal["s", "t", "f"]


class Described(Plain, gc=False, tag="", tag_field="cat"):
    """What a process or thread is called, or when a recording began and ended."""

    cat = ""
    ph: Literal["M", "i"]
    name: _WithoutCategory
    args: NameArgs = msgspec.field(default_factory=NameArgs)


def _fields(kind: int | None, time: Any) -> list[tuple[Any, ...]]:
    """Return the fields of events that become rows of a kind, or of none, with times as `time`."""
    unknown = _NO_TIME if time is msgspec.Raw else None
    place = [("pid", Number, -1), ("tid", Number, -1), ("ts", time, unknown)]
    if kind == MEMORY:
        own = [("ph", Literal["i"]), ("name", Literal["[memory]"]), *place]
    else:
        own = [("ph", Literal["X"]), ("name", str, ""), *place, ("dur", Number, None)]
    args = ARGS[kind] if kind is not None else None
    return [*own, ("args", args, msgspec.field(default_factory=args))] if args else own


def _of_category(category: str, fields: Sequence[Any], base: type[Plain] = Plain) -> Any:
    """Return the type of the plain events of a category."""
    return msgspec.defstruct(
        category,
        fields,
        bases=(base,),
        namespace={"cat": category},
        tag=category,
        tag_field="cat",
        gc=False,
    )


def _types(time: Any) -> Iterator[Any]:
    for category, kind in KINDS.items():
        if kind in ARGS:
            yield _of_category(category, _fields(kind, time))
    for category in IGNORED:
        yield _of_category(category, _fields(None, time))
    for category in FLOWS:
        yield _of_category(category, [], _Flow)
    yield Described


Events = Sequence[Event] | Sequence[Plain]
"""A block of events: all are plain, or none is."""
_PLAIN, _EXACT = tuple(_types(Number)), tuple(_types(msgspec.Raw))
TYPES = (*_PLAIN, *_EXACT)
"""The types of each category of plain events."""
Block = list[Union[_PLAIN]]  # type: ignore[valid-type]  # noqa: UP007 - of a tuple
"""What a block of plain events is decoded as."""
ExactBlock = list[Union[_EXACT]]  # type: ignore[valid-type]  # noqa: UP007 - of a tuple
"""The same where no float holds their times, which are left as they are written."""


def plainly(content: bytes, kind: Any) -> Any:
    """Decode JSON as `kind`, made of plain events; None if there is an event that is not plain.

    Raises `msgspec.DecodeError` for what is no JSON, as far as it was looked at.
    """
    # Where what has no category is written, at the end, all before it would be decoded in vain.
    is_last = content.rfind(_LAST, -_END_BYTES) >= 0
    if is_last and (found := _repaired(content, kind)) is not None:
        return found
    with suppress(msgspec.ValidationError):
        return text.decoded(content, kind)
    return None if is_last else _repaired(content, kind)


def _repaired(content: bytes, kind: Any) -> Any:
    """Decode JSON once its events have categories; None if none lacked one, or it is no `kind`."""
    given = _with_categories(content)
    with suppress(msgspec.DecodeError):
        return text.decoded(given, kind) if len(given) > len(content) else None
    return None


def _with_categories(content: bytes) -> bytes:
    """Return the text with a category for events of `Described`, which are written in one go."""
    begin, end = _described(content)
    events = content[begin:end]
    for name in get_args(_WithoutCategory):
        named = f'"{name}"'.encode()
        events = events.replace(named, named + b',"cat":""')
    return b"".join((content[:begin], events, content[end:]))


def _described(content: bytes) -> tuple[int, int]:
    """Return where events of `Described` begin and end."""
    begin = last = content.rfind(_LAST)
    # Mostly they stand at the end, and to look through all of the text takes as long as many rows.
    while (before := content.rfind(_FIRST, max(begin - _NEAR_BYTES, 0), max(begin, 0))) >= 0:
        begin = before
    if begin == last:
        begin = max(content.find(_FIRST), 0)
        last = content.find(_LAST, begin)
    return begin, last + len(_LAST) if last >= 0 else len(content)
