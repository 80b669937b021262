"""What surrounds operators and device work: module, phase, Python stack, forward operator."""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from profkit import schema
from profkit.convert.kineto.autograd import forward_rows
from profkit.convert.kineto.events import Ints
from profkit.convert.kineto.link import at_or, nearest_with, threads
from profkit.convert.kineto.numbering import Column, Text
from profkit.convert.kineto.python import (
    Calls,
    is_module,
    nested,
    readable,
    root_first,
)
from profkit.paths import Paths, paths

if TYPE_CHECKING:
    from profkit.convert.kineto.tables import Linker

_PHASES = Text()
_FORWARD, _BACKWARD, _OPTIMIZER, _DATA = _PHASES.codes(
    ["forward", "backward", "optimizer", "data"]
).tolist()
# Ranges of profkit's own marks, of PyTorch itself, and as many programs write them.
_MARKS = (
    (re.compile(r"(?:## ?)?forward(?: ?##)?$|DistributedDataParallel\.forward$"), _FORWARD),
    (re.compile(r"(?:## ?)?backward(?: ?##)?$|autograd::engine::evaluate_function"), _BACKWARD),
    (re.compile(r"(?:## ?)?optimizer(?: ?##)?$|Optimizer\.(?:step|zero_grad)#"), _OPTIMIZER),
    (re.compile(r"(?:## ?)?data(?: ?##)?$|enumerate\(DataLoader\)#"), _DATA),
)


def phase_of(name: str) -> int:
    """Return the number of the phase that a range of this name marks; 0 for none."""
    return next((phase for mark, phase in _MARKS if mark.match(name)), 0)


@dataclass(frozen=True, kw_only=True)
class Context:
    """What surrounds the rows of one trace."""

    linker: "Linker"

    @cached_property
    def _threads(self) -> tuple[Ints, Ints, Ints]:
        """Number of the thread of each Python call, operator and runtime call."""
        every = (self.python, self.linker.ops, self.linker.calls)
        both = (np.concatenate([each[name] for each in every]) for name in ("pid", "tid"))
        ends = np.cumsum([len(each["start"]) for each in every])
        python, ops, calls, _ = np.split(threads(*both), ends)
        return python, ops, calls

    @cached_property
    def python(self) -> dict[str, Column]:
        """Calls of Python functions and modules: by thread, start, and from the outside in.

        They are half of a trace with stacks, so they are sorted once and what was not is let go.
        """
        python = self.linker.gathered.columns("python")
        # In the order of the numbers that `threads` gives.
        order = np.lexsort((-python["end"], python["start"], python["pid"], python["tid"]))
        return {name: python.pop(name)[order] for name in [*python]}

    @cached_property
    def calls(self) -> Calls:
        """Calls of Python functions and modules, nested."""
        return nested(self._threads[0], self.python["start"], self.python["end"])

    @cached_property
    def modules(self) -> Paths:
        """Path of modules to each of `calls`."""
        name = self.python["name"]
        counted = self.linker.gathered.names.matching(is_module)[name]
        return paths(self.calls.caller, self._readable[name], counted)

    @cached_property
    def stacks(self) -> Paths:
        """Path of all frames to each of `calls`."""
        name = self._readable[self.python["name"]]
        return paths(self.calls.caller, name, np.ones(len(name), dtype=np.bool_))

    @cached_property
    def frames(self) -> Text:
        """Names of frames without what differs from run to run."""
        return Text()

    @cached_property
    def _readable(self) -> Ints:
        """Number in `frames` of each name."""
        return self.frames.codes(map(readable, self.linker.gathered.names.numbers)).astype(np.int64)

    @cached_property
    def forward(self) -> Ints:
        """Row of the forward operator of each operator row, also of those inside backward ones."""
        ops = self.linker.ops
        own = forward_rows(
            thread=self._threads[1],
            start=ops["start"],
            sequence=ops["sequence"],
            forward_tid=ops["forward_tid"],
        )
        return at_or(own, nearest_with(own >= 0, np.arange(len(own)), self.parents))

    @property
    def parents(self) -> Ints:
        """Row of the operator around each operator row."""
        return self.linker.tree.parent[: len(self.linker.ops["start"])]

    @cached_property
    def op_call(self) -> Ints:
        """Python call around each operator row."""
        return self.calls.at(self._threads[1], self.linker.ops["start"])

    @cached_property
    def op_module(self) -> Ints:
        """Node in `modules` of each operator row."""
        own = at_or(self.modules.node, self.op_call)
        return at_or(own, self.forward, own)

    @cached_property
    def op_phase(self) -> Ints:
        """Phase of each operator row."""
        ops = self.linker.ops
        rows = np.arange(len(ops["start"]))
        marks = np.array([phase_of(name) for name in self.linker.gathered.names.numbers])
        marked = marks[ops["name"]]
        # An operator that makes a node of the autograd graph is one of a forward pass.
        makes = (ops["sequence"] >= 0) & (ops["forward_tid"] <= 0)
        inside = nearest_with(makes, rows, self.parents) >= 0
        guess = np.where(inside | (self.op_module >= 0), _FORWARD, 0)
        guess = np.where(self.forward >= 0, _BACKWARD, guess)
        return at_or(marked, nearest_with(marked > 0, rows, self.parents), guess)

    def of_ops(self, rows: Ints) -> dict[str, object]:
        """Return the columns of `cpu_ops` for these operator rows."""
        return {
            "forward": at_or(self.linker.op_of_row, self.forward[rows]),
            "module": self._modules(self.op_module[rows]),
            "phase": _PHASES.decoded(self.op_phase[rows]),
            "stack": self._stacks(rows),
        }

    def of_work(self, call: Ints, op_row: Ints) -> dict[str, object]:
        """Return the columns of `kernels` for work launched by these calls and operator rows."""
        calls = self.linker.calls
        around = at_or(self.modules.node, self.calls.at(self._threads[2], calls["start"]))
        # The innermost range may be outside of the module: it need not be an operator.
        own = at_or(self.op_module, op_row)
        module = np.where(own >= 0, own, at_or(around, call))
        guess = np.where(module >= 0, _FORWARD, 0)
        return {
            "module": self._modules(module),
            "phase": _PHASES.decoded(at_or(self.op_phase, op_row, guess)),
        }

    def python_calls(self) -> dict[str, object]:
        """Return the columns of `python_calls`, without those that say where it was recorded."""
        python, names = self.python, self.linker.gathered.names
        module = names.matching(is_module)[python["name"]].astype(np.int32)
        base_ns = self.linker.base_ns
        return {
            "call": np.arange(len(module)),
            "caller": self.calls.caller,
            "pid": python["pid"],
            "tid": python["tid"],
            "name": self.frames.decoded(self._readable[python["name"]]),
            "kind": schema.text(module, ["function", "module"]),
            "start_ns": python["start"] + base_ns,
            "end_ns": python["end"] + base_ns,
            "step": self.linker.host_step(python["start"]),
            "module": self._modules(self.modules.node),
        }

    def _modules(self, nodes: Ints) -> pa.DictionaryArray:
        texts = Text()
        return texts.decoded(self._path_codes(self.modules, nodes, texts))

    def _stacks(self, rows: Ints) -> pa.DictionaryArray:
        """Return the stack of each operator: recorded with it, else that of the call around it."""
        texts = Text()
        every = list(self.linker.gathered.texts.numbers)
        given, which = np.unique(self.linker.ops["stack"][rows], return_inverse=True)
        recorded = texts.codes(root_first(every[each]) for each in given.tolist())[which]
        nodes = at_or(self.stacks.node, self.op_call[rows])
        around = self._path_codes(self.stacks, nodes, texts)
        return texts.decoded(np.where(recorded > 0, recorded, around))

    def _path_codes(self, tree: Paths, nodes: Ints, texts: Text) -> Column:
        """Return the number in `texts` of the path to each of `nodes`."""
        wanted, which = np.unique(nodes, return_inverse=True)
        return texts.codes(tree.texts(wanted, list(self.frames.numbers)))[which]
