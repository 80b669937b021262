"""The merged operator trees of several runs or ranks: one node per path of names."""

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.shared import calltree
from profkit.tables.tree_paths import Paths, paths

KINDS = ("operator", "runtime", "kernel")

# Their number differs from step to step, so they would make every path a different one.
_STEP = re.compile(r"(ProfilerStep|step)#\d+$")

_STEPS = ("ProfilerStep", "step")


@dataclass(frozen=True, kw_only=True, slots=True)
class Merged:
    """Operators, then runtime calls, then kernels; each row below its operator."""

    names: list[str]
    """Names by number."""
    paths: Paths
    """Path of each row through the names."""
    counted: NDArray[np.bool_]
    """Whether a row is a node of its own; steps share the node of their parent."""
    name: NDArray[np.int64]
    """Number of each row's name."""
    kind: NDArray[np.int64]
    """Position in `KINDS` of each row."""
    own_ns: NDArray[np.int64]
    """Self time of operators, duration of all else."""
    total_ns: NDArray[np.int64]
    """Duration."""
    where: pd.DataFrame
    """run, rank, repeat and step of each row."""


def merged(cpu_ops: pd.DataFrame, runtime_calls: pd.DataFrame, kernels: pd.DataFrame) -> Merged:
    """Merge the trees of all runs, ranks and repeats."""
    given = (cpu_ops, runtime_calls, kernels)
    tables = [
        _with_repeat_of_run(table.assign(name=table["name"].astype("category"))) for table in given
    ]
    ops, calls, launched = tables
    parents = [calltree.rows_of(ops, ops, "parent")]
    parents += [calltree.rows_of(ops, table) for table in (calls, launched)]
    names, codes = _named(tables)
    is_step = np.array([name in _STEPS for name in names], dtype=np.bool_)
    total = np.concatenate([(table["end_ns"] - table["start_ns"]).to_numpy() for table in tables])
    own = total.copy()
    own[: len(ops)] = ops["self_ns"].to_numpy()
    return Merged(
        names=names,
        paths=paths(np.concatenate(parents), codes, ~is_step[codes]),
        counted=~is_step[codes],
        name=codes,
        kind=np.repeat(np.arange(len(tables)), [len(table) for table in tables]),
        own_ns=own,
        total_ns=total,
        where=pd.concat(
            [table[["run", "rank", "repeat", "step"]] for table in tables], ignore_index=True
        ),
    )


def _with_repeat_of_run(table: pd.DataFrame) -> pd.DataFrame:
    """Return `table` with repeats numbered over all runs, so that they tell runs apart."""
    runs = len(table["run"].cat.categories)
    return table.assign(repeat=table["repeat"] * runs + table["run"].cat.codes)


def _named(tables: list[pd.DataFrame]) -> tuple[list[str], NDArray[np.int64]]:
    """Return all names, those of steps without their number, and the number of each row's."""
    number: dict[str, int] = {}
    codes = []
    for table in tables:
        names = [_STEP.sub(r"\1", name) for name in table["name"].cat.categories]
        numbers = [number.setdefault(name, len(number)) for name in names]
        codes.append(np.array(numbers, dtype=np.int64)[table["name"].cat.codes.to_numpy()])
    return list(number), np.concatenate(codes)
