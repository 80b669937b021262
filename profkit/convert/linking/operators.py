"""Operators and annotations on CPU threads: their order in `cpu_ops`, their tree and steps."""

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from profkit.convert.columns.numbering import Column
from profkit.convert.columns.on_disk import Columns, DiskColumn
from profkit.convert.columns.values import Ints
from profkit.convert.linking.gathered import ANNOTATION, Gathered
from profkit.convert.linking.lookup import at_or
from profkit.convert.linking.nesting import Nesting, Row, nesting
from profkit.convert.linking.steps import Steps
from profkit.convert.linking.tree import is_asynchronous

_ANNOTATION = re.compile(r"ProfilerStep#|Optimizer\.(?:step|zero_grad)#|enumerate\(DataLoader\)#")


def is_annotation(name: str) -> bool:
    """Return whether PyTorch itself names its annotations like this, whatever their category."""
    return _ANNOTATION.match(name) is not None


@dataclass(frozen=True, kw_only=True)
class Operators:
    """The operators of one recording; a row is one as recorded, an index its row in `cpu_ops`."""

    gathered: Gathered
    steps: Steps

    @cached_property
    def recorded(self) -> Columns:
        """Operators and annotations as they were recorded."""
        return self.gathered.columns("cpu_ops")

    @cached_property
    def tree(self) -> Nesting:
        """Operators, then calls of the runtime, then allocations and frees, nested by thread."""
        others = (self.gathered.columns(table) for table in ("runtime_calls", "memory_events"))
        asynchronous = self.gathered.names.matching(is_asynchronous)
        return nesting(self.recorded, *others, asynchronous=asynchronous, marks=self._by_name)

    @property
    def rows(self) -> Row:
        """Rows in the order of the table `cpu_ops`."""
        return self.tree.op_rows()

    @property
    def index(self) -> Row:
        """Index in `cpu_ops` of each row."""
        return self.tree.op_of_row()

    @property
    def parents(self) -> Row:
        """Row of the operator around each row of the tree."""
        return self.tree.parent()

    def around(self, rows: Column) -> Ints:
        """Return the index in `cpu_ops` of the operator around each of these rows of the tree."""
        return at_or(self.index, self.parents[rows])

    @cached_property
    def _by_name(self) -> NDArray[np.bool_]:
        """Whether each name is that of an annotation of PyTorch itself."""
        return self.gathered.names.matching(is_annotation)

    @cached_property
    def annotates(self) -> DiskColumn:
        """Whether each row is an annotation."""
        # Before PyTorch 1.10 annotations had the category of operators.
        parts = self.recorded.parts()
        kinds = (self._by_name[part["name"]] | (part["kind"] == ANNOTATION) for part in parts)
        return DiskColumn.of(self.recorded.spill, self.recorded.count, kinds, np.bool_)

    @cached_property
    def step(self) -> DiskColumn:
        """Step of each row."""
        return self.steps.of(self.recorded)
