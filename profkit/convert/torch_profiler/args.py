"""The arguments of events: for each kind of event a struct of those that become columns.

An event is decoded with its arguments still as text, because half of a trace needs none of them.
The fields of each struct are in the order in which Kineto writes them: decoding is fastest so.
"""

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, TypeVar

import msgspec

from profkit.convert.columns.values import Number, scalar
from profkit.convert.torch_profiler.events import Event

_NO_JSON = msgspec.Raw()
_KEYS = {
    "external": "External id",
    "external_before_1_12": "external id",
    "sequence": "Sequence number",
    "forward_tid": "Fwd thread id",
    "shapes": "Input Dims",
    "shapes_1_9": "Input dims",
    "types": "Input type",
    "inputs": "Concrete Inputs",
    "stack": "Call stack",
    "graph": "graph id",
    "graph_node": "graph node id",
    "size": "bytes",
    "registers": "registers per thread",
    "shared_memory": "shared memory",
    "blocks_per_sm": "blocks per SM",
    "warps_per_sm": "warps per SM",
    "occupancy": "est. achieved occupancy %",
    "label": "name",
    "collective": "Collective name",
    "group": "Process Group Name",
    "group_description": "Process Group Description",
    "group_ranks": "Process Group Ranks",
    "call_number": "Seq",
    "group_size": "Group size",
    "elements_in": "In msg nelems",
    "elements_out": "Out msg nelems",
    "memory_size": "Bytes",
    "address": "Addr",
    "device_type": "Device Type",
    "device_id": "Device Id",
    "allocated": "Total Allocated",
    "reserved": "Total Reserved",
    "awaited_stream": "wait_on_stream",
    "awaited_correlation": "wait_on_cuda_event_record_corr_id",
}


class MessageArgs(msgspec.Struct, gc=False, rename=_KEYS):
    """Of a call or kernel that communicates."""

    collective: Number = ""
    elements_in: Number = -1
    elements_out: Number = -1
    group_size: Number = -1
    dtype: Number = ""
    group: Number = ""
    group_description: Number = ""
    group_ranks: msgspec.Raw = _NO_JSON
    call_number: Number = -1
    """Of the call in its group, equal on all ranks; older versions of PyTorch do not record it."""


class RangeArgs(msgspec.Struct, gc=False, rename=_KEYS):
    """Of the span on a device of an annotation."""

    external: Number = -1
    external_before_1_12: Number = -1


class OperatorArgs(MessageArgs, gc=False, rename=_KEYS):
    """Of an operator or an annotation."""

    external: Number = -1
    sequence: Number = -1
    forward_tid: Number = -1
    inputs: msgspec.Raw = _NO_JSON
    types: msgspec.Raw = _NO_JSON
    shapes: msgspec.Raw = _NO_JSON
    stack: Number = ""
    shapes_1_9: msgspec.Raw = _NO_JSON
    external_before_1_12: Number = -1


class CallArgs(msgspec.Struct, gc=False, rename=_KEYS):
    """Of a call of the runtime or the driver."""

    external: Number = -1
    correlation: Number = -1
    external_before_1_12: Number = -1


class WorkArgs(MessageArgs, gc=False, rename=_KEYS):
    """Of a kernel, copy or set."""

    external: Number = -1
    device: Number = -1
    stream: Number = -1
    correlation: Number = -1
    size: Number = -1
    kind: Number = ""
    registers: Number = -1
    shared_memory: Number = -1
    blocks_per_sm: Number = math.nan
    warps_per_sm: Number = math.nan
    grid: msgspec.Raw = _NO_JSON
    block: msgspec.Raw = _NO_JSON
    occupancy: Number = math.nan
    graph: Number = -1
    graph_node: Number = -1
    external_before_1_12: Number = -1


class MemoryArgs(msgspec.Struct, gc=False, rename=_KEYS):
    """Of an allocation or free."""

    reserved: Number = -1
    allocated: Number = -1
    memory_size: Number = 0
    address: Number = -1
    device_id: Number = -1
    device_type: Number = -1


class WaitArgs(msgspec.Struct, gc=False, rename=_KEYS):
    """Of a synchronisation."""

    awaited_stream: Number = -1
    awaited_correlation: Number = -1
    stream: Number = -1
    correlation: Number = -1
    device: Number = -1


class NameArgs(msgspec.Struct, gc=False, rename=_KEYS):
    """Of a metadata event: what a process or thread is called."""

    label: Number = ""


_Args = TypeVar("_Args", bound=msgspec.Struct)


def arguments(events: Sequence[Event], kind: type[_Args]) -> list[_Args]:
    """Return the arguments of `events`; where a value has an unexpected type, its default."""
    text = b"".join((b"[", b",".join([event.args for event in events]), b"]"))
    try:
        found: list[_Args] = msgspec.json.decode(text, type=list[kind])  # type: ignore[valid-type]
    except (msgspec.ValidationError, UnicodeDecodeError):
        return [_one(bytes(event.args), kind) for event in events]
    return found


def counters(events: Sequence[Event]) -> list[dict[str, Any]]:
    """Return all arguments of `events`: hardware counters have any name."""
    found = [msgspec.json.decode(event.args) for event in events]
    return [metrics if isinstance(metrics, dict) else {} for metrics in found]


def _one(text: bytes, kind: type[_Args]) -> _Args:
    try:
        return msgspec.json.decode(text, type=kind)
    except UnicodeDecodeError:
        return _one(text.decode("utf-8", "replace").encode(), kind)
    except msgspec.ValidationError:
        return _loose(text, kind)


def _loose(text: bytes, kind: type[_Args]) -> _Args:
    """Return the arguments in `text`, JSON with values of unexpected types."""
    given = msgspec.json.Decoder(float_hook=Decimal).decode(text)
    args = kind()
    for field in msgspec.structs.fields(kind):
        value = given.get(field.encode_name) if isinstance(given, dict) else None
        if value is None:
            continue
        if field.type is msgspec.Raw:
            encoded = msgspec.json.Encoder(decimal_format="number").encode(value)
            setattr(args, field.name, msgspec.Raw(encoded))
        else:
            value = scalar(value)
            setattr(args, field.name, float(value) if isinstance(value, Decimal) else value)
    return args
