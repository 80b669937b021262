"""Events of one trace gathered into NumPy columns, by what they are."""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profkit.convert.columns.numbering import Column
from profkit.convert.columns.spill import Block, Scratch, Spill
from profkit.convert.columns.values import (
    LARGEST_BYTES,
    UNKNOWN_NS,
    Ints,
    Number,
    Unreadable,
    floats,
    identifiers,
    integers,
    nanoseconds,
)
from profkit.convert.linking.gathered import (
    ANNOTATION,
    CALL,
    COPY,
    COUNTED,
    KERNEL,
    KIND_COUNT,
    MEMORY,
    OPERATOR,
    PYTHON,
    SET,
    SPAN,
    SYNCHRONISATION,
    Gathered,
)
from profkit.convert.linking.messages import RANKS_BELOW
from profkit.convert.linking.steps import mark_number, step_number
from profkit.convert.torch_profiler.args import (
    CallArgs,
    MemoryArgs,
    MessageArgs,
    NameArgs,
    OperatorArgs,
    RangeArgs,
    WaitArgs,
    WorkArgs,
    arguments,
    counters,
)
from profkit.convert.torch_profiler.categories import IGNORED, KINDS
from profkit.convert.torch_profiler.events import Event
from profkit.convert.torch_profiler.pairs import Pairs
from profkit.convert.torch_profiler.plain_events import ARGS, TYPES, Described, Plain
from profkit.convert.torch_profiler.plain_events import Events as AnyEvents
from profkit.convert.torch_profiler.turns import Turns

# The kinds of each table are gathered at once: what a block of rows costs by itself adds up.
_TABLES = {
    "cpu_ops": (OPERATOR, ANNOTATION),
    "runtime_calls": (CALL,),
    "kernels": (KERNEL, COPY, SET),
    "annotations": (SPAN,),
    "memory_events": (MEMORY,),
    "kernel_metrics": (COUNTED,),
    "python_calls": (PYTHON,),
    "synchronisations": (SYNCHRONISATION,),
}
_ON_THREADS = {"cpu_ops", "runtime_calls", "memory_events", "python_calls"}
# torch.autograd.profiler before Kineto wrote no category, but a process with one of these names.
_LEGACY_PROCESSES = {"CPU functions": OPERATOR, "CUDA functions": KERNEL}
_MEMORY_NAME = "[memory]"
# The events at their ends carry the ids themselves.
_FLOWS = frozenset({"s", "t", "f"})
_COMPLETE, _INSTANT, _METADATA, _PAIRED = "X", "i", "M", ("B", "E")
_UNDERSTOOD = _FLOWS | {_METADATA, *_PAIRED}
_PROCESS_NAME = "process_name"
_KIND_OF = {kind: KINDS[kind.cat] for kind in TYPES if kind.cat in KINDS}
_NO_ROWS = {*TYPES} - {*_KIND_OF}
_SHOWN = 100


def _is_step(name: str) -> bool:
    return max(step_number(name), mark_number(name)) >= 0


class Events(Gathered):
    """The columns of one trace: `add` blocks of events, then ask for `columns` of ops and so on."""

    def __init__(
        self,
        scratch: Scratch | None = None,
        spill: Spill | None = None,
        in_turns: Turns | None = None,
    ) -> None:
        """Keep the columns in `spill`, or in a file in `scratch`, or in a folder of their own.

        Threads that end steps `in_turns` count as one.
        """
        super().__init__(scratch, spill)
        self.in_turns = in_turns
        self.categories: set[str] = set()
        """Categories of the events before the block in which the first became a row."""
        self.unknown: Counter[str] = Counter()
        """Number of events by category, or what kind of event of it, that become no row."""
        self.without_duration = 0
        self.negative = 0
        """Number of events that end before they begin."""
        self.implausible = 0
        """Number of values that nothing has, which became unknown."""
        self.unreadable = Unreadable()
        self.pairs = Pairs()
        self.processes: set[str] = set()
        """What the trace calls its processes: by these other writers are known."""
        self.ranges = 0
        """Number of ranges with hardware counters."""
        self._threads: dict[str, int] = {}

    def add(self, events: AnyEvents) -> None:
        """Append a block of events."""
        is_plain = len(events) > 0 and isinstance(events[0], Plain)
        sorted_out = self._plain_by_kind(events) if is_plain else self._by_kind(events)
        for table, kinds in _TABLES.items():
            of_kinds = [sorted_out[kind] for kind in kinds]
            if any(of_kinds):
                self._gather(table, of_kinds, is_plain=is_plain)
        if not self.found:
            self.categories.update(event.cat for event in events)

    def _plain_by_kind(self, events: Sequence[Any]) -> list[list[Any]]:
        """Return the rows of each kind among plain events: their types say what they are."""
        sorted_out: list[list[Any]] = [[] for _ in range(KIND_COUNT)]
        described: list[Described] = []
        append_to = {kind: sorted_out[of].append for kind, of in _KIND_OF.items()}
        append_to |= dict.fromkeys(_NO_ROWS, deque[Any](maxlen=0).append)
        append_to[Described] = described.append
        for event in events:
            append_to[type(event)](event)
        self.processes.update(str(e.args.label) for e in described if e.name == _PROCESS_NAME)
        return sorted_out

    def _by_kind(self, events: Sequence[Any]) -> list[list[Event]]:
        """Return the rows of each kind among events of any notation."""
        sorted_out: list[list[Event]] = [[] for _ in range(KIND_COUNT)]
        append_to = {cat: sorted_out[kind].append for cat, kind in KINDS.items()}.get
        for event in events:
            if (put := append_to(event.cat)) and (
                event.ph == _COMPLETE or (event.ph == _INSTANT and event.name == _MEMORY_NAME)
            ):
                put(event)
                continue
            if event.ph in _FLOWS or (whole := self._whole(event)) is None:
                if event.ph not in _UNDERSTOOD and event.cat in KINDS:
                    self.unknown[f"{event.cat} with ph {event.ph!r}"[:_SHOWN]] += 1
                continue
            kind = self._by_name(whole) if not whole.cat else KINDS.get(whole.cat)
            if kind is not None:
                sorted_out[kind].append(whole)
            elif whole.cat not in IGNORED:
                self.unknown[whole.cat] += 1
        return sorted_out

    @property
    def alone(self) -> bool:
        """Whether nothing gathered depends on other parts of the trace."""
        return not (self.pairs.open or self.pairs.unmatched or self._threads)

    def extend(self, later: "Events") -> None:
        """Append what was gathered of a later part of the trace; both must be `alone`."""
        counters = later.blocks["kernel_metrics"]
        later.blocks["kernel_metrics"] = [self._counted_on(block) for block in counters]
        self.append(later)
        self.categories |= later.categories
        self.unknown += later.unknown
        self.without_duration += later.without_duration
        self.negative += later.negative
        self.implausible += later.implausible
        self.unreadable.count += later.unreadable.count
        self.processes |= later.processes
        self.ranges += later.ranges

    def _gather(self, table: str, of_kinds: Sequence[list[Any]], *, is_plain: bool) -> None:
        """Append the events that become rows of one table, those of one kind after the other."""
        events = [*chain(*of_kinds)] if len(of_kinds) > 1 else of_kinds[0]
        kinds = _TABLES[table]
        if table == "kernel_metrics":
            columns = self._counters(events)
        elif (args := ARGS[kinds[0]]) is None:
            columns = self._on_threads(events)
        else:
            given = [event.args for event in events] if is_plain else arguments(events, args)
            columns = self._made[table](events, given)
        if len(of_kinds) > 1:
            counts = [len(events) for events in of_kinds]
            columns["kind"] = np.repeat(np.array(kinds, dtype=np.int8), counts)
        if self.in_turns and table in _ON_THREADS:
            is_step = self.names.matching(_is_step)
            are_steps = is_step[columns["name"]] if "name" in columns else np.False_
            columns["tid"] = self.in_turns.joined(columns["tid"], are_steps)
        self.put(table, columns)

    @property
    def _made(self) -> dict[str, Callable[[list[Any], list[Any]], dict[str, Column]]]:
        """What makes the columns of each table of events and their arguments."""
        return {
            "cpu_ops": self._ops,
            "runtime_calls": self._calls,
            "kernels": self._device_work,
            "annotations": self._device_annotations,
            "memory_events": self._memory,
            "synchronisations": self._synchronisations,
        }

    def _whole(self, event: Event) -> Event | None:
        """Return what an event stands for that may be an instant or the end of a pair, or None."""
        if event.ph == _COMPLETE:
            return event
        if event.ph == _METADATA and event.name == _PROCESS_NAME:
            self.processes.update(str(arg.label) for arg in arguments([event], NameArgs))
        if event.ph == _INSTANT:
            return event if event.name == _MEMORY_NAME else None
        return self.pairs.joined(event) if event.ph in _PAIRED else None

    def _by_name(self, event: Event) -> int | None:
        if event.name == _MEMORY_NAME:
            return MEMORY
        return _LEGACY_PROCESSES.get(event.pid) if isinstance(event.pid, str) else None

    def _counted_on(self, block: Block) -> Block:
        """Return counters of a later part whose ranges are numbered on from those of this."""
        columns = {name: self.spill.read(block[name]) for name in block.layouts}
        return self.spill.keep(columns | {"range": columns["range"] + self.ranges})

    def _ops(self, events: list[Any], args: list[OperatorArgs]) -> dict[str, Column]:
        return self._on_threads(events) | {
            "external": self._external(args),
            "sequence": self._integers([arg.sequence for arg in args]),
            "forward_tid": self._integers([arg.forward_tid for arg in args]),
            "input_shapes": self.texts.json_codes([arg.shapes or arg.shapes_1_9 for arg in args]),
            "input_types": self.texts.json_codes([arg.types for arg in args]),
            "inputs": self.texts.json_codes([arg.inputs for arg in args]),
            "stack": self._stacks([arg.stack for arg in args]),
            **self._messages(args),
        }

    def _stacks(self, stacks: list[Number]) -> Column:
        if stacks.count("") == len(stacks):  # as nearly always
            return np.zeros(len(stacks), dtype=np.int32)
        return self.texts.codes([str(stack or "") for stack in stacks])

    def _calls(self, events: list[Any], args: list[CallArgs]) -> dict[str, Column]:
        return self._on_threads(events) | {
            "correlation": self._correlations(args),
            "external": self._external(args),
        }

    def _correlations(self, args: Sequence[CallArgs | WorkArgs]) -> Ints:
        """Return what ties work to its launch: roctracer wrote it as an id of its own at times."""
        ids = self._integers([arg.correlation for arg in args])
        if len(ids) and (ids == -1).all():
            external = self._external(args)
            # That of an operator is the same for all that it launches.
            if (external > 0).all() and len(np.unique(external)) == len(external):
                return external
        return ids

    def _device_work(self, events: list[Any], args: list[WorkArgs]) -> dict[str, Column]:
        device = self._places([arg.device for arg in args])
        stream = self._places([arg.stream for arg in args])
        process = self._identifiers([event.pid for event in events])
        track = self._identifiers([event.tid for event in events])
        return self._spans(events) | {
            "device": self._small(np.where(device == -1, process, device)),
            "stream": np.where(stream == -1, track, stream),
            "correlation": self._correlations(args),
            "graph": self._integers([arg.graph for arg in args]),
            "graph_node": self._integers([arg.graph_node for arg in args]),
            "external": self._external(args),
            "size_bytes": self._sizes([arg.size for arg in args]),
            "what": self.texts.codes([str(arg.kind) for arg in args]),
            **self._messages(args),
            "grid": self.texts.json_codes([arg.grid for arg in args]),
            "block": self.texts.json_codes([arg.block for arg in args]),
            "registers": self._small(self._integers([arg.registers for arg in args])),
            "shared_memory_bytes": self._sizes([arg.shared_memory for arg in args]),
            "blocks_per_sm": floats([arg.blocks_per_sm for arg in args]),
            "warps_per_sm": floats([arg.warps_per_sm for arg in args]),
            "occupancy_percent": floats([arg.occupancy for arg in args]),
        }

    def _messages(self, args: Sequence[MessageArgs]) -> dict[str, Column]:
        """Return the number of each event's message, and of the call in its group: few have any."""
        rows = [row for row, arg in enumerate(args) if arg.collective]
        given = [args[row] for row in rows]
        codes = np.zeros(len(args), dtype=np.int32)
        numbers = np.full(len(args), -1, dtype=np.int64)
        codes[rows] = self.messages.codes(given)
        numbers[rows] = self._integers([arg.call_number for arg in given]).clip(min=-1)
        return {"message": codes, "call_number": numbers}

    def _device_annotations(self, events: list[Any], args: list[RangeArgs]) -> dict[str, Column]:
        return self._spans(events) | {
            "tid": self._identifiers([event.tid for event in events]),
            "external": self._external(args),
        }

    def _synchronisations(self, events: list[Any], args: list[WaitArgs]) -> dict[str, Column]:
        return self._spans(events) | {
            "device": self._places([arg.device for arg in args]),
            "stream": self._places([arg.stream for arg in args]),
            "correlation": self._integers([arg.correlation for arg in args]),
            "awaited_stream": self._integers([arg.awaited_stream for arg in args]),
            "awaited_correlation": self._integers([arg.awaited_correlation for arg in args]),
        }

    def _memory(self, events: list[Any], args: list[MemoryArgs]) -> dict[str, Column]:
        return {
            "start": nanoseconds([event.ts for event in events]),
            "pid": self._identifiers([event.pid for event in events]),
            "tid": self._identifiers([event.tid for event in events]),
            "device_type": self._integers([arg.device_type for arg in args]),
            "device_id": self._places([arg.device_id for arg in args]),
            "size_bytes": self._changes([arg.memory_size for arg in args]),
            "address": self._integers([arg.address for arg in args]),
            "allocated_bytes": self._sizes([arg.allocated for arg in args]),
            "reserved_bytes": self._sizes([arg.reserved for arg in args]),
        }

    def _counters(self, events: list[Event]) -> dict[str, Column]:
        """Return one row for each counter of each range; `range` is the number of its range."""
        found = counters(events)
        rows = np.repeat(np.arange(len(events)), [len(metrics) for metrics in found])
        spans = self._spans(events)
        ranges = np.arange(self.ranges, self.ranges + len(events))
        self.ranges += len(events)
        return {
            "start": spans["start"][rows],
            "name": spans["name"][rows],
            "range": ranges[rows],
            "metric": self.texts.codes([str(name) for metrics in found for name in metrics]),
            "value": floats([value for metrics in found for value in metrics.values()]),
        }

    def _integers(self, values: list[Number], unknown: int = -1) -> Ints:
        return integers(values, unknown=unknown, unreadable=self.unreadable)

    def _identifiers(self, values: list[Number]) -> Ints:
        return identifiers(values, self._threads, self.unreadable)

    def _places(self, values: list[Number]) -> Ints:
        """Return numbers of devices or streams, which are not negative; those of texts are."""
        found = self._identifiers(values)
        return self._plausible(found, found >= -1 - len(self._threads), -1)

    def _small(self, values: Ints) -> Ints:
        """Return `values`, with -1 for what a 32-bit column cannot hold: that is damage."""
        return self._plausible(values, np.abs(values // 2) < RANKS_BELOW // 2, -1)

    def _sizes(self, values: list[Number]) -> Ints:
        """Return numbers of bytes, -1 for what none can be."""
        found = self._integers(values)
        return self._plausible(found, (found >= -1) & (found <= LARGEST_BYTES), -1)

    def _changes(self, values: list[Number]) -> Ints:
        """Return numbers of bytes, negative where they were freed; 0 for more than there can be."""
        found = self._integers(values, unknown=0)
        return self._plausible(found, np.abs(found // 2) <= LARGEST_BYTES // 2, 0)

    def _plausible(self, values: Ints, fits: NDArray[np.bool_], unknown: int) -> Ints:
        if fits.all():
            return values
        self.implausible += int((~fits).sum())
        return np.where(fits, values, unknown)

    def _on_threads(self, events: list[Event]) -> dict[str, Column]:
        return self._spans(events) | {
            "pid": self._identifiers([event.pid for event in events]),
            "tid": self._identifiers([event.tid for event in events]),
        }

    def _spans(self, events: list[Event]) -> dict[str, Column]:
        start = nanoseconds([event.ts for event in events])
        duration = nanoseconds([event.dur for event in events])
        self.without_duration += int((duration == UNKNOWN_NS).sum())
        self.negative += int(((duration < 0) & (duration != UNKNOWN_NS)).sum())
        return {
            "start": start,
            "end": start + duration.clip(min=0),
            "name": self.names.codes([event.name for event in events]),
        }

    def _external(self, args: Sequence[CallArgs | OperatorArgs | RangeArgs | WorkArgs]) -> Ints:
        given = self._integers([arg.external for arg in args])
        if (given == -1).any():
            older = self._integers([arg.external_before_1_12 for arg in args])
            return np.where(given == -1, older, given)
        return given
