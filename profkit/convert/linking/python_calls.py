"""The table of all calls of Python functions and modules, which a process may write by itself."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from profkit.convert._parquet import write
from profkit.convert.columns.numbering import Occurring, Text
from profkit.convert.columns.on_disk import Columns
from profkit.convert.columns.values import Ints
from profkit.convert.linking.origin import Origin
from profkit.convert.linking.steps import StepSpans
from profkit.tables import schema
from profkit.tables.tree_paths import Paths

NAME = "python_calls"


@dataclass(frozen=True, kw_only=True)
class PythonCalls:
    """What the table is made of."""

    origin: Origin
    calls: Columns
    """All calls, linked."""
    modules: Paths
    """Paths of modules; its rows are the numbers `path` of `calls`."""
    frames: Text
    """Names of frames without what differs from run to run."""
    readable: Ints
    """Number in `frames` of each name."""
    is_module: NDArray[np.bool_]
    """Whether each name is that of a module."""
    steps: StepSpans

    def write(self, path: Path) -> int:
        """Write the table as a Parquet file, and return its number of rows."""
        return write(path, NAME, self.chunks())

    def chunks(self) -> Iterator[pa.Table]:
        """Yield the table in chunks: the calls of a window, without where they were recorded."""
        texts = Text()
        # The last is that of no node.
        nodes = np.arange(len(self.modules.above))
        paths = [*self.modules.texts(nodes, self.frames.listed), ""]
        module = texts.codes(paths)[np.append(self.modules.node, -1)]
        names = Occurring(self.frames, (self.readable[names] for names in self.calls.each("name")))
        within = Occurring(texts, (module[paths] for paths in self.calls.each("path")))
        first = 0
        for block in self.calls.blocks:
            own = {name: self.calls.of_block(block, name) for name in self.calls}
            count = len(own["start"])
            kind = self.is_module[own["name"]].astype(np.int32)
            yield self.origin.table(
                NAME,
                count,
                {
                    "call": np.arange(first, first + count),
                    "caller": own["caller"],
                    "pid": own["pid"],
                    "tid": own["tid"],
                    "name": names.of(self.readable[own["name"]]),
                    "kind": schema.text(kind, ["function", "module"]),
                    "start_ns": own["start"] + self.origin.base_ns,
                    "end_ns": own["end"] + self.origin.base_ns,
                    "step": self.steps.at(own["start"]),
                    "module": within.of(module[own["path"]]),
                },
            )
            first += count
