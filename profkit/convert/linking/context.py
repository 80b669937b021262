"""What surrounds operators and device work: module, phase, Python stack, forward operator."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from profkit.convert.columns.numbering import Column, Text
from profkit.convert.columns.on_disk import Columns, DiskColumn, slices
from profkit.convert.columns.text_column import TextColumn
from profkit.convert.columns.values import Ints
from profkit.convert.linking.autograd import forward_rows
from profkit.convert.linking.callers import Callers
from profkit.convert.linking.device_work import DeviceWork
from profkit.convert.linking.lookup import at_or, nearest_with
from profkit.convert.linking.nesting import Row
from profkit.convert.linking.operators import Operators
from profkit.convert.linking.python import root_first
from profkit.convert.linking.python_stacks import PythonStacks
from profkit.tables.tree_paths import Paths

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
    """What surrounds the operators and the device work of one recording."""

    operators: Operators
    python: PythonStacks

    def _of_ops(self, make: Callable[[slice], Column]) -> DiskColumn:
        """Return the column that `make` makes of some operator rows at a time."""
        ops = self._ops
        return DiskColumn.of(ops.spill, ops.count, map(make, slices(ops.count)))

    @property
    def _callers(self) -> Callers:
        return self.python.callers

    @property
    def _ops(self) -> Columns:
        return self.operators.recorded

    @cached_property
    def forward(self) -> DiskColumn:
        """Row of the forward operator of each operator row, also of those inside backward ones."""
        found = forward_rows(self._ops)

        def of_rows(rows: slice) -> Column:
            own = found()
            return at_or(own, self._nearest(lambda row: own[row] >= 0, rows))

        return self._of_ops(of_rows)

    def _nearest(self, holds: Callable[[Column], Column], rows: slice) -> Column:
        """Return for each of some operator rows the nearest around it, or itself, that `holds`."""
        return nearest_with(holds, np.arange(rows.start, rows.stop), self.parents)

    @property
    def parents(self) -> Row:
        """Row of the operator around each operator row."""
        return self.operators.parents[: self._ops.count]

    @cached_property
    def op_module(self) -> DiskColumn:
        """Node in the paths of modules of each operator row."""

        def of_rows(rows: slice) -> Column:
            forward, own = self.forward()[rows], np.arange(rows.start, rows.stop)
            around = self._callers.sites[0]()[np.where(forward >= 0, forward, own)]
            return at_or(self._callers.modules.node, around)

        return self._of_ops(of_rows)

    @cached_property
    def _mark(self) -> DiskColumn:
        """Phase that each operator row marks by its name; 0 for none."""
        ops, marks = self._ops, self.operators.gathered.names.mapped(phase_of, np.int8)
        return self._of_ops(lambda rows: marks[ops.select(rows)["name"]])

    @cached_property
    def _makes_node(self) -> DiskColumn:
        """Whether each operator row makes a node of the autograd graph."""
        ops = self._ops
        makes = ((part["sequence"] >= 0) & (part["forward_tid"] <= 0) for part in ops.parts())
        return DiskColumn.of(ops.spill, ops.count, makes, np.bool_)

    @cached_property
    def op_phase(self) -> DiskColumn:
        """Phase of each operator row."""

        def of_rows(rows: slice) -> Column:
            mark, makes = self._mark(), self._makes_node()
            # An operator that makes a node of the autograd graph is one of a forward pass.
            inside = self._nearest(lambda row: makes[row], rows) >= 0
            guess = np.where(inside | (self.op_module()[rows] >= 0), _FORWARD, 0)
            guess[self.forward()[rows] >= 0] = _BACKWARD
            return at_or(mark, self._nearest(lambda row: mark[row] > 0, rows), guess)

        return self._of_ops(of_rows)

    def of_ops(self, rows: Row) -> dict[str, object]:
        """Return the columns of `cpu_ops` for these operator rows."""
        module, phase, stack = self._texts_of_ops
        return {
            "forward": at_or(self.operators.index, self.forward()[rows]),
            "module": module.of(rows),
            "phase": phase.of(rows),
            "stack": stack.of(rows),
        }

    @cached_property
    def _texts_of_ops(self) -> tuple[TextColumn, TextColumn, TextColumn]:
        """Module, phase and stack of each operator row."""
        return self._modules(self.op_module), TextColumn(_PHASES, self.op_phase), self._stacks()

    def of_work(self, work: DeviceWork) -> dict[str, TextColumn]:
        """Return the columns of `kernels` that describe what is around its launch."""

        def module(rows: slice) -> Column:
            around = at_or(self._callers.sites[1](), work.call()[rows])
            # The innermost range may be outside of the module: it need not be an operator.
            own = at_or(self.op_module(), work.op_row()[rows])
            return np.where(own >= 0, own, at_or(self._callers.modules.node, around))

        modules = work.made(module)

        def phase(rows: slice) -> Column:
            guess = np.where(modules()[rows] >= 0, _FORWARD, 0)
            return at_or(self.op_phase(), work.op_row()[rows], guess)

        return {
            "module": self._modules(modules),
            "phase": TextColumn(_PHASES, work.made(phase)),
        }

    def _modules(self, nodes: DiskColumn) -> TextColumn:
        texts = Text()
        codes = self._path_codes(self._callers.modules, nodes.parts(), texts)
        own = (codes[part] for part in nodes.parts())
        return TextColumn(texts, DiskColumn.of(self._ops.spill, nodes.count, own))

    def _stacks(self) -> TextColumn:
        """Return the stack of each operator: recorded with it, else that of the call around it."""
        ops, texts, stacks = self._ops, Text(), self._callers.stacks
        recorded_stacks = self.operators.gathered.texts.listed
        rooted = np.zeros(len(recorded_stacks), dtype=np.int32)
        occur = _occurring(ops.each("stack"), len(recorded_stacks))
        rooted[occur] = texts.codes(
            root_first(recorded_stacks[number]) for number in occur.tolist()
        )

        def around(rows: slice) -> Column:
            return at_or(stacks.node, self._callers.sites[0]()[rows])

        codes = self._path_codes(stacks, map(around, slices(ops.count)), texts)

        def of_rows(rows: slice) -> Column:
            recorded = rooted[ops.select(rows)["stack"]]
            return np.where(recorded > 0, recorded, codes[around(rows)])

        return TextColumn(texts, self._of_ops(of_rows))

    def _path_codes(self, tree: Paths, nodes: Iterable[Column], texts: Text) -> Column:
        """Return the numbers in `texts` of the paths to `nodes`, by node, the last for no node."""
        codes = np.zeros(len(tree.above) + 1, dtype=np.int32)
        wanted = _occurring(nodes, len(codes))
        wanted = wanted[wanted < len(tree.above)]
        codes[wanted] = texts.codes(tree.texts(wanted, self.python.frames.listed))
        return codes


def _occurring(numbers: Iterable[Column], below: int) -> Ints:
    """Return which numbers occur, in order; -1 is `below` less one."""
    occurs = np.zeros(below, dtype=np.bool_)
    for part in numbers:
        occurs[part] = True
    return np.flatnonzero(occurs)
