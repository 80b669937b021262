"""A run of a result tree, opened in a notebook: its tables as data frames, and its results."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from profkit.core import result
from profkit.core.errors import InputError
from profkit.core.job_record import verified
from profkit.core.settings import nearest

if TYPE_CHECKING:
    import pandas as pd

_RUNS = Path("results/runs")


@dataclass(frozen=True, slots=True)
class LoadedRun:
    """One run; `load` opens it. Files are read when they are asked for, and each time again."""

    folder: Path
    """``results/runs/<run>``."""

    @property
    def tables(self) -> dict[str, tuple[str, ...]]:
        """Names of the tables that there are, each with the tools that made it."""
        paths = sorted(self.folder.glob("tables/*/*.parquet"))
        names = sorted({path.stem for path in paths})
        return {
            name: tuple(path.parent.name for path in paths if path.stem == name) for name in names
        }

    @property
    def results(self) -> tuple[str, ...]:
        """Names of the analyses that left a result."""
        return tuple(sorted(path.stem for path in self.folder.glob("analyze/*.json")))

    def table(self, name: str, tool: str = "") -> "pd.DataFrame":
        """Return table `name`, made by `tool`; which one has to be said if several made it.

        Columns, units and what is unknown are those of `profkit.api.schema`: times are integer
        nanoseconds, -1 is unknown, and text is a Categorical.
        """
        tools = self.tables.get(name, ())
        if not tools:
            raise _absent(self.folder, "table", name, self.tables)
        if tool and tool not in tools:
            raise _absent(self.folder, f"table {name!r} of tool", tool, tools)
        if not tool and len(tools) > 1:
            raise InputError(
                f"{self.folder}: {len(tools)} tools made table {name!r}: {', '.join(tools)}",
                hint=f'name one: table("{name}", tool="{tools[0]}")',
            )
        path = self.folder / "tables" / (tool or tools[0]) / f"{name}.parquet"
        verified(path)
        try:
            with pq.ParquetFile(path) as file:
                rows: pd.DataFrame = file.read().to_pandas()
        except (OSError, pa.ArrowInvalid) as error:
            raise InputError(f"{path}: cannot be read: {error}", hint="convert it again") from None
        return rows

    def result(self, name: str) -> result.Result:
        """Return what analysis `name` found."""
        if name not in self.results:
            raise _absent(self.folder, "result", name, self.results)
        document = result.read(self.folder / "analyze" / f"{name}.json")
        if document.status == "failed":
            raise InputError(f"{self.folder}: the analysis {name} failed: {document.reason}")
        return document.result


def load(run: str | Path) -> LoadedRun:
    """Open a run of a result tree, given by name (in ``results/runs`` here) or as a path.

    ``load("gpt_tiny-train-b2-...").table("kernels")`` is a data frame and ``.result("steps")`` a
    `Result`; ``.tables`` and ``.results`` say what there is. ``load("results/selection")`` opens
    what analyses across runs left.
    """
    given = Path(run)
    for folder in (_RUNS / given, given):
        if any((folder / part).is_dir() for part in ("tables", "analyze")):
            return LoadedRun(folder)
    if given.is_dir():
        raise InputError(f"{given}: not a run: it has neither tables/ nor analyze/")
    raise _absent(_RUNS, "run", str(run), sorted(path.name for path in _RUNS.glob("*")))


def _absent(folder: Path, kind: str, name: str, there: Collection[str]) -> InputError:
    hint = nearest(name, there) if there else "there is none; run profkit in this folder first"
    return InputError(f"{folder}: no {kind} named {name!r}", hint=hint)
