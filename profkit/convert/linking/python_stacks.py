"""Calls of Python functions and modules: linked here or in another process, which writes them."""

import shutil
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from profkit.convert.columns.numbering import Text
from profkit.convert.columns.values import Ints
from profkit.convert.linking.callers import Callers, Linking
from profkit.convert.linking.gathered import Gathered
from profkit.convert.linking.origin import Origin
from profkit.convert.linking.python import is_module, readable
from profkit.convert.linking.python_calls import NAME, PythonCalls
from profkit.convert.linking.steps import Steps
from profkit.process import helpers
from profkit.tables.tree_paths import PathBuilder


@dataclass(frozen=True, kw_only=True)
class PythonStacks:
    """The calls of Python of one recording, and what they surround."""

    gathered: Gathered
    origin: Origin
    steps: Steps
    pool: Executor | None
    """Another process, which links the calls meanwhile."""

    @cached_property
    def asked(self) -> Future[Callers] | None:
        """What another process is asked to link; None if there is no other, or no longer."""
        if self.pool:
            with suppress(BrokenProcessPool):
                return helpers.asked(self.pool, self._linking.callers)
        return None

    @property
    def callers(self) -> Callers:
        """Calls of functions and modules, and what is around operators and other calls."""
        return self._linked[0]

    @cached_property
    def frames(self) -> Text:
        """Names of frames without what differs from run to run."""
        return Text()

    def chunks(self) -> Iterator[pa.Table]:
        """Yield the table of the calls in chunks."""
        yield from self._table(self.callers).chunks()

    def write(self, path: Path) -> int:
        """Leave the same table as a Parquet file, and return its number of rows."""
        if writing := self._linked[1]:
            with suppress(BrokenProcessPool):
                rows = writing.result()
                shutil.move(self._written, path)
                return rows
        return self._table(self.callers).write(path)

    @cached_property
    def _linked(self) -> tuple[Callers, Future[int] | None]:
        """The calls, and what the process that linked them goes on with: it writes their table."""
        if self.asked and self.pool:
            with suppress(BrokenProcessPool):
                callers = self.asked.result()
                writing = helpers.asked(self.pool, self._table(callers).write, self._written)
                self.pool.shutdown(wait=False)  # nothing else will be asked
                return callers, writing
        return self._linking.callers(), None

    @property
    def _written(self) -> Path:
        """File that the table is written to, as long as nothing asks for it."""
        return self.gathered.scratch.path / f"{NAME}.parquet"

    @cached_property
    def _readable(self) -> Ints:
        """Number in `frames` of each name."""
        # Most traces have no call of Python, and no name is one of a frame then.
        names = self.gathered.names.numbers if self.gathered.columns(NAME).count else ()
        numbers: Ints = self.frames.codes(map(readable, names))
        return numbers.astype("int64")

    @property
    def _linking(self) -> Linking:
        return Linking(
            python=self.gathered.columns(NAME),
            others=(self.gathered.columns("cpu_ops"), self.gathered.columns("runtime_calls")),
            frames=self._readable,
            is_module=self.gathered.names.matching(is_module),
            paths=PathBuilder(len(self.frames.numbers)),
        )

    def _table(self, callers: Callers) -> PythonCalls:
        return PythonCalls(
            origin=self.origin,
            calls=callers.calls,
            modules=callers.modules,
            frames=self.frames,
            readable=self._readable,
            is_module=self.gathered.names.matching(is_module),
            steps=self.steps.host,
        )
