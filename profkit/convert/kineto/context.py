"""What surrounds operators and device work: module, phase, Python stack, forward operator."""

import re
import shutil
from collections.abc import Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from profkit.convert.kineto.autograd import forward_rows
from profkit.convert.kineto.callers import Callers, Linking
from profkit.convert.kineto.coded import Coded
from profkit.convert.kineto.events import Ints
from profkit.convert.kineto.hosts import Row
from profkit.convert.kineto.link import at_or, nearest_with
from profkit.convert.kineto.numbering import Column, Text
from profkit.convert.kineto.python import is_module, readable, root_first
from profkit.convert.kineto.python_calls import NAME, PythonCalls
from profkit.convert.kineto.spill import Spill, held
from profkit.convert.kineto.windows import threads_of
from profkit.paths import Growing, Paths

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

    @property
    def spill(self) -> Spill:
        """Where columns are kept."""
        return self.linker.spill

    @property
    def _linking(self) -> Linking:
        names = self.linker.gathered.names
        return Linking(
            python=self.linker.gathered.columns("python"),
            others=(self.linker.ops, self.linker.calls),
            frames=self._readable,
            is_module=names.matching(is_module),
            paths=Growing(len(self.frames.numbers)),
        )

    @cached_property
    def asked(self) -> Future[Callers] | None:
        """What another process is asked to link; None if there is no other, or no longer."""
        if pool := self.linker.pool:
            with suppress(BrokenProcessPool):
                return pool.submit(self._linking.callers)
        return None

    @property
    def callers(self) -> Callers:
        """Calls of Python functions and modules, and what is around operators and other calls."""
        return self._linked[0]

    @property
    def _writing(self) -> Future[int] | None:
        """What the process that linked the calls goes on with: it writes their table."""
        return self._linked[1]

    @cached_property
    def _linked(self) -> tuple[Callers, Future[int] | None]:
        if self.asked and (pool := self.linker.pool):
            with suppress(BrokenProcessPool):
                callers = self.asked.result()
                writing = pool.submit(self._python_calls(callers).write, self._written)
                pool.shutdown(wait=False)  # nothing else will be asked
                return callers, writing
        return self._linking.callers(), None

    @property
    def _written(self) -> Path:
        """File that the table of the calls is written to, as long as nobody asks for it."""
        return self.linker.gathered.scratch.path / f"{NAME}.parquet"

    @cached_property
    def frames(self) -> Text:
        """Names of frames without what differs from run to run."""
        return Text()

    @cached_property
    def _readable(self) -> Ints:
        """Number in `frames` of each name."""
        return self.frames.codes(map(readable, self.linker.gathered.names.numbers)).astype(np.int64)

    @held
    def forward(self) -> Column:
        """Row of the forward operator of each operator row, also of those inside backward ones."""
        ops = self.linker.ops
        own = forward_rows(
            thread=threads_of([ops]).of(ops),
            start=ops["start"],
            sequence=ops["sequence"],
            forward_tid=ops["forward_tid"],
        ).astype(np.int32)
        return at_or(own, nearest_with(own >= 0, np.arange(len(own), dtype=np.int32), self.parents))

    @property
    def parents(self) -> Row:
        """Row of the operator around each operator row."""
        return self.linker.tree.parent()[: self.linker.ops.count]

    @held
    def op_module(self) -> Column:
        """Node in the paths of modules of each operator row."""
        own = at_or(self.callers.modules.node, self.callers.sites[0]()).astype(np.int32)
        return at_or(own, self.forward, own)

    @held
    def op_phase(self) -> Column:
        """Phase of each operator row."""
        ops = self.linker.ops
        rows = np.arange(ops.count, dtype=np.int32)
        names = self.linker.gathered.names.numbers
        marks = np.array([phase_of(name) for name in names], dtype=np.int8)
        marked = marks[ops["name"]]
        # An operator that makes a node of the autograd graph is one of a forward pass.
        makes = (ops["sequence"] >= 0) & (ops["forward_tid"] <= 0)
        inside = nearest_with(makes, rows, self.parents) >= 0
        guess = np.zeros(len(rows), dtype=np.int8)
        guess[inside | (self.op_module >= 0)] = _FORWARD
        guess[self.forward >= 0] = _BACKWARD
        return at_or(marked, nearest_with(marked > 0, rows, self.parents), guess)

    def of_ops(self, rows: Row) -> dict[str, object]:
        """Return the columns of `cpu_ops` for these operator rows."""
        module, phase, stack = self._texts_of_ops
        return {
            "forward": at_or(self.linker.op_of_row, self.forward[rows]),
            "module": module.of(rows),
            "phase": phase.of(rows),
            "stack": stack.of(rows),
        }

    @cached_property
    def _texts_of_ops(self) -> tuple[Coded, Coded, Coded]:
        """Module, phase and stack of each operator row."""
        phases = Coded(_PHASES, self.op_phase, self.spill)
        return self._modules(self.op_module), phases, self._stacks()

    def of_work(self, call: Ints, op_row: Ints) -> dict[str, Coded]:
        """Return the columns of `kernels` for work launched by these calls and operator rows."""
        around = at_or(self.callers.modules.node, self.callers.sites[1]())
        # The innermost range may be outside of the module: it need not be an operator.
        own = at_or(self.op_module, op_row)
        module = np.where(own >= 0, own, at_or(around, call))
        guess = np.where(module >= 0, _FORWARD, 0)
        return {
            "module": self._modules(module),
            "phase": Coded(_PHASES, at_or(self.op_phase, op_row, guess), self.spill),
        }

    def _python_calls(self, callers: Callers) -> PythonCalls:
        linker = self.linker
        return PythonCalls(
            rank=linker.rank,
            repeat=linker.repeat,
            base_ns=linker.base_ns,
            calls=callers.calls,
            modules=callers.modules,
            frames=self.frames,
            readable=self._readable,
            is_module=linker.gathered.names.matching(is_module),
            steps=linker.host_steps,
        )

    def python_calls(self) -> Iterator[pa.Table]:
        """Yield the table of the calls of Python in chunks."""
        yield from self._python_calls(self.callers).chunks()

    def write_python_calls(self, path: Path) -> int:
        """Leave the same table as a Parquet file, and return its number of rows."""
        if self._writing:
            with suppress(BrokenProcessPool):
                rows = self._writing.result()
                shutil.move(self._written, path)
                return rows
        return self._python_calls(self.callers).write(path)

    def _modules(self, nodes: Column) -> Coded:
        texts = Text()
        return Coded(texts, self._path_codes(self.callers.modules, nodes, texts), self.spill)

    def _stacks(self) -> Coded:
        """Return the stack of each operator: recorded with it, else that of the call around it."""
        texts = Text()
        every = list(self.linker.gathered.texts.numbers)
        given = self.linker.ops["stack"]
        rooted = np.zeros(len(every), dtype=np.int32)
        occur = _occurring(given, len(every))
        rooted[occur] = texts.codes(root_first(every[each]) for each in occur.tolist())
        recorded = rooted[given]
        stacks = self.callers.stacks
        nodes = at_or(stacks.node, self.callers.sites[0]())
        around = self._path_codes(stacks, nodes, texts)
        return Coded(texts, np.where(recorded > 0, recorded, around), self.spill)

    def _path_codes(self, tree: Paths, nodes: Column, texts: Text) -> Column:
        """Return the number in `texts` of the path to each of `nodes`."""
        codes = np.zeros(len(tree.above) + 1, dtype=np.int32)  # the last is that of no node
        wanted = _occurring(nodes, len(codes))
        wanted = wanted[wanted < len(tree.above)]
        codes[wanted] = texts.codes(tree.texts(wanted, list(self.frames.numbers)))
        return codes[nodes]


def _occurring(numbers: Column, below: int) -> Ints:
    """Return which numbers occur, in order; -1 is `below` less one."""
    occurs = np.zeros(below, dtype=np.bool_)
    occurs[numbers] = True
    return np.flatnonzero(occurs)
