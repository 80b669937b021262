"""Collectives as a process calls them, seen where PyTorch hands them to a backend.

Every way leads through the operators ``c10d::*``: ``torch.distributed``, DDP's reducer in C++, FSDP
and compiled code. A function of ours runs before the backend's own, which costs 30 to 60 us a call.
"""

import functools
import json
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import cycle
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from profkit.capture.harness.ranks.clock import CudaTimer

if TYPE_CHECKING:
    from torch import Tensor

_SHOWN_RANKS = 64
_OTHERS = 2
"""How many operators that the program may begin to call are watched each time, in turn."""


class Message(NamedTuple):
    """What a call says of itself; most programs repeat a few."""

    operator: str
    group: str
    description: str
    group_size: int
    group_ranks: str
    dtype: str
    in_elements: int
    out_elements: int
    device: str


class Call(Protocol):
    """One call of a collective, that of `message`."""

    message: Message
    sequence: int
    """Number of the call in its group, the same on all ranks."""
    call_ns: int

    def end(self) -> None:
        """Take the time: the collective is over, or on a GPU will be after what is launched."""

    def times(self, *, wait: bool) -> tuple[int, int] | None:
        """Return when the rank came and when the collective was over; None if not yet known."""


class HostCall:
    """A call that the CPU carries out."""

    __slots__ = ("call_ns", "end_ns", "message", "sequence")

    def __init__(self, message: Message, sequence: int) -> None:
        self.message = message
        self.sequence = sequence
        self.end_ns = 0
        self.call_ns = time.time_ns()

    def end(self) -> None:
        """See `Call.end`."""
        self.end_ns = time.time_ns()

    def times(self, *, wait: bool) -> tuple[int, int] | None:
        """See `Call.times`."""
        del wait
        return (self.call_ns, self.end_ns) if self.end_ns else None


class GpuCall:
    """A call that the GPU carries out: the rank comes when the work before it is done."""

    __slots__ = ("call_ns", "clock", "ended", "message", "sequence", "started")

    def __init__(self, message: Message, sequence: int, clock: CudaTimer) -> None:
        self.message = message
        self.sequence = sequence
        self.clock = clock
        self.ended: Any = None
        self.call_ns = time.time_ns()
        self.started = clock.record_event()

    def end(self) -> None:
        """See `Call.end`."""
        self.ended = self.clock.record_event()

    def times(self, *, wait: bool) -> tuple[int, int] | None:
        """See `Call.times`."""
        if self.ended is None or not (wait or self.ended.query()):
            return None
        self.ended.synchronize()
        start_ns = self.clock.unix_ns(self.started)
        return start_ns, start_ns + round(self.started.elapsed_time(self.ended) * 1e6)


class CollectiveCalls:
    """Tells of each collective that this process calls while it watches."""

    def __init__(self, made: Callable[[Call], None]) -> None:
        self.made = made
        self.groups: dict[str, tuple[str, int, str]] = {}
        self.clock: CudaTimer | None = None
        self.library: Any = None
        self.called: set[Any] = set()
        """Operators that were called while they were watched."""
        self.in_turn: Iterator[tuple[Any, int]] | None = None
        """All operators, again and again; None before the first were watched."""

    def watch(self, *, on: bool) -> None:
        """Call `made` from here on, or no longer: calls that are not watched cost nothing."""
        if not on and self.library is not None:
            self.library._destroy()  # noqa: SLF001 - else it goes on until Python's exit
            self.library = None
        if not on or self.library is not None:
            return
        import torch

        if not torch.distributed.is_available():
            return
        # Below autograd and what traces, above all backends: it sees each call once, in any mode.
        key = torch._C.DispatchKey.BackendSelect  # noqa: SLF001 - nothing public sees calls of C++
        below = torch._C._dispatch_keyset_full_after(key)  # noqa: SLF001
        self.library = torch.library.Library("c10d", "IMPL")  # type: ignore[no-untyped-call]
        for operator, at in self._watched():
            kernel = partial(_observe, self, operator, at, below)
            name = operator.name().removeprefix("c10d::")
            self.library.impl(name, kernel, key.name, with_keyset=True)

    def _watched(self) -> Iterable[tuple[Any, int]]:
        """Return the operators to watch: all at first, then those of this program and some others.

        To watch all of them takes 1 ms, as much as all else in many steps.
        """
        if self.in_turn is None:
            self.in_turn = cycle(_operators())
            return _operators()
        others = [next(self.in_turn) for _ in range(_OTHERS)]
        called = [entry for entry in _operators() if entry[0] in self.called]
        return dict.fromkeys([*called, *others])

    def begun(self, operator: Any, tensors: tuple[Any, ...], boxed_group: Any) -> Call:
        """Return a call that begins now; `tensors` are the arguments before the group."""
        from torch._C._distributed_c10d import ProcessGroup

        self.called.add(operator)
        group: Any = ProcessGroup.unbox(boxed_group)
        name = str(group.group_name)
        if name not in self.groups:
            self.groups[name] = _described(group)
        out, given = list(_flat(tensors[:1])), list(_flat(tensors[-1:]))
        message = Message(
            *(operator.name(), name, *self.groups[name]),
            str(given[0].dtype).removeprefix("torch.") if given else "",
            sum(tensor.numel() for tensor in given),
            sum(tensor.numel() for tensor in out),
            given[0].device.type if given else "cpu",
        )
        sequence = int(group._get_sequence_number_for_group())  # noqa: SLF001 - it counts them all
        if message.device != "cuda":
            return HostCall(message, sequence)
        self.clock = self.clock or CudaTimer()
        return GpuCall(message, sequence, self.clock)

    def follow(self, call: Call, boxed_work: Any) -> None:
        """Report `call`, and have its end noted; a backend may give nothing to wait for."""
        self.made(call)
        if boxed_work is not None:
            from torch._C._distributed_c10d import Work

            future: Any = Work.unbox(boxed_work).get_future()
            future.add_done_callback(lambda _: call.end())


def _observe(
    calls: CollectiveCalls, operator: Any, at: int, below: Any, keys: Any, *arguments: Any
) -> Any:
    """Carry out one call of `operator`, whose argument number `at` is the group."""
    call = calls.begun(operator, arguments[:at], arguments[at])
    result = operator.redispatch(keys & below, *arguments)
    calls.follow(call, result[-1] if isinstance(result, tuple) else result)
    return result


@functools.cache
def _operators() -> list[tuple[Any, int]]:
    """Return the operators that communicate, and which of their arguments is the group."""
    import torch

    found = []
    for name in torch._C._dispatch_get_all_op_names():  # noqa: SLF001 - there is no public list
        space, _, own = name.partition("::")
        if space != "c10d":
            continue
        operator = getattr(torch.ops.c10d, own).default
        names = [argument.name for argument in operator._schema.arguments]  # noqa: SLF001
        returned = [str(value.type) for value in operator._schema.returns]  # noqa: SLF001
        if "process_group" in names and returned and returned[-1].endswith(".Work"):
            found.append((operator, names.index("process_group")))
    return found


def _described(group: Any) -> tuple[str, int, str]:
    """Return what the program calls the group, its size and its ranks, as JSON."""
    from torch import distributed

    ranks = distributed.get_process_group_ranks(group)
    # As PyTorch's own traces do: a thousand ranks in the file of each of them are a million.
    shown = ranks if len(ranks) <= _SHOWN_RANKS else [*ranks[:_SHOWN_RANKS], "..."]
    return str(group.group_desc), len(ranks), json.dumps(shown, separators=(",", ":"))


def _flat(values: Iterable[Any]) -> Iterator["Tensor"]:
    for value in values:
        if isinstance(value, list | tuple):
            yield from _flat(value)
        elif value is not None:
            yield value
