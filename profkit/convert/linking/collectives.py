"""Communication calls: what each moves, in which group, and which CPU call asked for it."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from profkit.convert.columns.numbering import Column, Text
from profkit.convert.columns.on_disk import Columns, DiskColumn
from profkit.convert.columns.values import UNKNOWN_NS, Ints
from profkit.convert.linking.device_work import DeviceWork
from profkit.convert.linking.lookup import at_or, nearest_with
from profkit.convert.linking.messages import (
    RANKS_BELOW,
    UNKNOWN,
    Message,
    count_of,
    elements,
    largest,
    operation_of,
    plausible,
    size_bytes,
)
from profkit.convert.linking.names import (
    is_collective,
    is_collective_of_pytorch,
    is_communicating_call,
)
from profkit.convert.linking.tree import is_asynchronous
from profkit.tables import schema

# Ranges that the process groups of PyTorch open around the call itself, named after the backend.
_BACKEND_RANGE = re.compile(r"(?:nccl|rccl|xccl|gloo|mpi|ucc):")
_DISPATCHED = re.compile(r"c10d::")


def communication(
    work: DeviceWork, groups: Mapping[str, Message], base_ns: int
) -> tuple[dict[str, Any], DiskColumn]:
    """Return the columns of `collectives`: communication kernels, and calls without a device.

    And for each piece of device work the row of `collectives` that it carries out; -1 for none.
    """
    operators, gathered, at = work.operators, work.gathered, work.communication
    ops, names = operators.recorded, gathered.names
    call, device = work.call()[at], work.ordered.select(at)
    host = _on_host(work)
    host = host[np.argsort(operators.index[host])]
    of_host = ops.select(host)
    op_row = np.concatenate([work.op_row()[at], host])
    words = Words(
        names=names, texts=gathered.texts, messages=gathered.messages.all(), groups=groups
    )
    name = np.concatenate([device["name"], of_host["name"]])
    message = np.concatenate([device["message"], of_host["message"]])
    parents = operators.parents[: ops.count]
    numbers = described(message, name, op_row, columns=ops, parents=parents, words=words)
    launching = work.launches.recorded
    asking = launching.at("start", call, ops.at("start", op_row[: len(at)], UNKNOWN_NS))
    call_ns = np.concatenate([asking, call_starts(names, ops, host)])
    start_ns = np.concatenate([device["start"], of_host["start"]])
    order = np.argsort(start_ns, kind="stable")
    counted = np.concatenate([device["call_number"], of_host["call_number"]])
    above = nearest_with(lambda rows: ops.at("call_number", rows) >= 0, op_row, parents)
    own = {
        "sequence": np.where(counted >= 0, counted, ops.at("call_number", above)),
        "call_ns": np.where(call_ns == UNKNOWN_NS, UNKNOWN, call_ns + base_ns),
        "start_ns": start_ns + base_ns,
        "end_ns": np.concatenate([device["end"], of_host["end"]]) + base_ns,
        "correlation": np.concatenate([device["correlation"], np.full(len(host), -1)]),
        "op": np.concatenate([work.op()[at], operators.index[host]]),
        "step": np.concatenate([work.step()[at], operators.step()[host]]),
    }
    carried_out = work.made(lambda rows: np.full(rows.stop - rows.start, -1))
    carried_out.fill(at, np.flatnonzero(order < len(at)))
    return {column: values[order] for column, values in own.items()} | {
        "collective": np.arange(len(order)),
        "name": names.decoded(name[order]),
        "kind": schema.text(order >= len(at), ["device", "host"]),
        **columns_of(words.messages, numbers[order]),
    }, carried_out


def _on_host(work: DeviceWork) -> Ints:
    """Return the rows of operators in which the CPU itself communicates.

    Those are the ranges of its back ends, and operators named like a collective that have no such
    range, no other collective and no call to a device inside. Those of PyTorch count where no back
    end has ranges: it may have them on threads of its own.
    """
    names, operators = work.gathered.names, work.operators
    ops = operators.recorded
    ranges = ops.named(names.matching(is_asynchronous))
    of_backends = ops.named(names.matching(is_backend_range))
    called = names.matching(is_collective)
    if len(of_backends):
        called &= ~names.matching(is_collective_of_pytorch)
    calling = ops.named(called)
    calling = calling[~operators.annotates()[calling]]
    if not len(calling):
        return ranges
    parents = operators.parents[: ops.count]
    makers = np.concatenate([at_or(operators.rows, work.launches.op()[:]), work.op_row()[:]])
    within = np.zeros(ops.count, dtype=np.bool_)
    above = np.concatenate([makers, parents[np.concatenate([of_backends, calling])]])
    while len(above := above[above >= 0]):
        above = np.unique(above[~within[above]])
        within[above] = True
        above = parents[above]
    return np.union1d(ranges, calling[~within[calling]])


def is_backend_range(name: str) -> bool:
    """Return whether a range of this name has a communication call's inputs as its own."""
    return _BACKEND_RANGE.match(name) is not None


def described(  # noqa: PLR0913 - one column each
    own: Ints,
    own_name: Ints,
    ops: Ints,
    *,
    columns: Columns,
    parents: Column,
    words: "Words",
) -> Ints:
    """Return the number in `words` of what is known of each call.

    `own` are the numbers of what the calls themselves say, `own_name` those of their names, and
    `ops` the rows of the operators they belong to, in `columns`. Failing the call, the nearest
    operator counts that says something; failing that, the backend's range around it and the
    shapes of its inputs; failing that, an operator around it that is called after a collective,
    and the largest of its inputs; failing that, the name.
    """
    above = nearest_with(lambda rows: columns.at("message", rows) > 0, ops, parents)
    stated = np.where(own > 0, own, columns.at("message", above, 0))
    ranges = words.names.matching(is_backend_range)
    around = nearest_with(
        lambda rows: ranges[columns.at("name", rows)], np.where(stated > 0, -1, ops), parents
    )
    calling = words.names.matching(is_communicating_call)
    by_call = nearest_with(
        lambda rows: calling[columns.at("name", rows)],
        np.where((stated > 0) | (around >= 0), -1, ops),
        parents,
    )
    around = np.where(around >= 0, around, by_call)
    texts = [columns.at(column, around, 0) for column in ("name", "input_shapes", "input_types")]
    # Of "nccl:coalesced" only the kernel says what it does.
    operations = [name for name in np.unique(texts[0]).tolist() if operation_of(words.name(name))]
    of_range = np.where(np.isin(texts[0], operations), texts[0], own_name)
    keys = (column.tolist() for column in (stated, of_range, *texts[1:], by_call >= 0))
    return np.array([*map(cache(words.number), *keys)], dtype=np.int64)


class Words:
    """The texts and messages of one trace by number; new messages get numbers after the old."""

    def __init__(
        self,
        *,
        names: Text,
        texts: Text,
        messages: Sequence[Message],
        groups: Mapping[str, Message],
    ) -> None:
        self.names = names
        self.messages = [*messages]
        self.name = names.listed.__getitem__
        self._text = texts.listed
        self._groups = groups

    def number(self, stated: int, name: int, shapes: int, types: int, by_call: int) -> int:
        """Return the number of the message `stated`, or of a new one from a range or `by_call`."""
        message = self.messages[stated]
        if not stated:
            read = largest if by_call else elements
            given, dtype = read(self._text[shapes], self._text[types])
            operation = operation_of(self.name(name))
            message = Message(operation=operation, given=given, dtype=dtype)
        if message.size < 0 and (group := self._groups.get(message.group)):
            message = message._replace(
                group=group.group,
                description=message.description or group.description,
                ranks=message.ranks or group.ranks,
                size=group.size,
            )
        self.messages.append(message)
        return len(self.messages) - 1


def columns_of(messages: Sequence[Message], numbers: Ints) -> dict[str, Any]:
    """Return the columns that say what each call moves."""
    texts = {"operation": 0, "group": 1, "group_description": 2, "group_ranks": 3, "dtype": 7}
    counts = {"group_size": 4, "in_elements": 5, "out_elements": 6}
    columns: dict[str, Any] = {}
    for name, at in texts.items():
        words = Text()
        columns[name] = words.decoded(
            words.codes(str(message[at]) for message in messages)[numbers]
        )
    for name, at in counts.items():
        columns[name] = np.array([message[at] for message in messages], dtype=np.int64)[numbers]
    sizes = np.array([size_bytes(message) for message in messages], dtype=np.int64)
    return columns | {"size_bytes": sizes[numbers]}


def call_starts(names: Text, ops: Columns, ranges: Column) -> Ints:
    """Return the start of the operator that asked for each of the `ranges`, rows of `ops`.

    Gloo runs calls on threads of its own, in the order in which they were asked for. So where
    there are as many operators as ranges of an operation, the n-th belongs to the n-th.
    """
    result = np.full(len(ranges), UNKNOWN_NS, dtype=np.int64)
    if not len(ranges):
        return result
    operation = Text().codes(map(operation_of, names.numbers))
    dispatched = ops.select(ops.named(names.matching(_DISPATCHED.match)))
    found = ops.select(ranges)
    asking, calling = operation[dispatched["name"]], operation[found["name"]]
    start, begun = found["start"], dispatched["start"]
    for kind in sorted({*calling.tolist()}):
        rows = np.flatnonzero(calling == kind)
        rows = rows[np.argsort(start[rows], kind="stable")]
        asked = np.sort(begun[asking == kind])
        if len(asked) == len(rows) and (asked <= start[rows]).all():
            result[rows] = asked
    return result


def groups_of(distributed_info: Any) -> dict[str, Message]:
    """Return the groups that a trace describes, by name; if there is only one, also as that of "".

    A call that names no group is then of the only one.
    """
    listed = distributed_info.get("pg_config") if isinstance(distributed_info, dict) else None
    found = [_group(one) for one in listed or () if isinstance(one, dict)]
    only = {"": found[0]} if isinstance(listed, list) and len(listed) == len(found) == 1 else {}
    return {group.group: group for group in found if group.group} | only


def _group(facts: dict[str, Any]) -> Message:
    name, description, size = (facts.get(key) for key in ("pg_name", "pg_desc", "pg_size"))
    listed = facts.get("ranks")
    ranks = str(listed).replace(" ", "") if isinstance(listed, list) else ""
    stated = plausible(size, RANKS_BELOW)
    return Message(
        group="" if name is None else str(name),
        description=str(description or ""),
        ranks=ranks,
        size=count_of(ranks) if stated < 0 else stated,
    )
