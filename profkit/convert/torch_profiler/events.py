"""One event of a trace as a typed struct, whatever PyTorch, CUDA or HIP version wrote it."""

from decimal import Decimal
from typing import Any

import msgspec

from profkit.convert.columns.values import Number, scalar

NO_ARGS = msgspec.Raw(b"{}")


class Event(msgspec.Struct, gc=False):
    """An event with times as Python numbers: exact below `EXACT_BELOW_US`, and the fastest."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: Number = -1
    tid: Number = -1
    ts: Number | Decimal = None
    dur: Number | Decimal = None
    args: msgspec.Raw = NO_ARGS
    """Decoded by `args` of this package, once it is known which of them are needed."""


class FloatEvent(Event, gc=False):
    """What `Event` looks like to the decoder when times are plain numbers."""

    ts: Number = None
    dur: Number = None


class DecimalEvent(Event, gc=False):
    """An event with times as decimal text: exact for absolute times with a fraction."""

    ts: Decimal | None = None
    dur: Decimal | None = None


class _WithArgs(msgspec.Struct):
    args: msgspec.Raw = NO_ARGS


def loose(text: msgspec.Raw) -> Event | None:
    """Build an event from JSON with values of unexpected types, or None if it is no object."""
    fields = msgspec.json.Decoder(float_hook=Decimal).decode(text)
    if not isinstance(fields, dict):
        return None
    event = Event()
    for name in ("ph", "cat", "name"):
        setattr(event, name, _text(fields.get(name)))
    for name in ("pid", "tid", "ts", "dur"):
        setattr(event, name, scalar(fields.get(name)))
    event.args = msgspec.json.decode(text, type=_WithArgs).args
    return event


def _text(value: Any) -> str:
    return str(value) if scalar(value) is not None else ""
