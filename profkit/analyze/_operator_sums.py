"""Sums over the operators of some ranks, which those of all ranks are made of."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pandas as pd

from profkit.analyze._operator_calls import WHERE, memory_rows, operator_calls, runtime_rows
from profkit.analyze.base import Columns
from profkit.core.settings import Settings

BY_NAME = ["name", "kind"]
BY_SHAPE = ["name", "input_shapes", "kind"]
_TEXTS = ("name", "kind", "input_shapes", "line")
_BY_LINE = ["name", "input_shapes", "line"]
_OPS = Columns(
    "rank repeat op parent name kind start_ns end_ns self_ns step input_shapes inputs stack"
)
_CALLS = Columns("rank repeat op name start_ns end_ns step")
_KERNELS = Columns("rank repeat op start_ns end_ns")
_MEMORY = Columns("rank repeat op device size_bytes time_ns step")


@dataclass(frozen=True, kw_only=True, slots=True)
class MapSettings(Settings):
    """The settings that the sums depend on."""

    asynchronous: tuple[str, ...] = ("gloo:*", "nccl:*", "mpi:*", "ucc:*", "xccl:*")
    """Glob patterns of ranges that may end on another thread than they began on: they have a
    total time but no self time and enclose nothing, as in PyTorch's own table."""


def sums_of_ranks(
    cpu_ops: Annotated[pd.DataFrame, _OPS],
    runtime_calls: Annotated[pd.DataFrame, _CALLS],
    kernels: Annotated[pd.DataFrame, _KERNELS],
    memory_events: Annotated[pd.DataFrame, _MEMORY],
    config: MapSettings,
) -> dict[str, pd.DataFrame]:
    """Return sums over the calls of some ranks, by name and shapes, and their steps."""
    calls = operator_calls(cpu_ops, runtime_calls, kernels, memory_events, config.asynchronous)
    others = (runtime_rows(runtime_calls), memory_rows(cpu_ops, runtime_calls, memory_events))
    in_step = cpu_ops.loc[cpu_ops["step"] >= 0, [*WHERE, "step"]].drop_duplicates()
    return {
        "by_name": joined([summed(part, BY_NAME) for part in (calls, *others)]),
        "by_shape": summed(calls, BY_SHAPE),
        "lines": _time_of_lines(calls),
        "steps": in_step.groupby(WHERE, as_index=False).size(),
        "captures": cpu_ops[WHERE].drop_duplicates(),
        "has_memory": pd.DataFrame({"rows": [len(memory_events)]}),
    }


def summed(calls: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return sums over the calls, or over sums of them, with equal `keys`."""
    measures = [name for name in calls.columns if name not in _TEXTS]
    groups = calls.groupby(keys, observed=True, sort=False)
    # One by one: all at once they are copied first.
    total = pd.DataFrame({name: groups[name].sum() for name in measures})
    if "flops" in measures and "flops_calls" not in measures:
        total["flops_calls"] = groups["flops"].count()
    return total.reset_index().astype(dict.fromkeys(keys, object))


def joined(parts: list[pd.DataFrame]) -> pd.DataFrame:
    """Return the rows of all `parts`; a measure that a part does not have is 0 there."""
    rows = pd.concat([part for part in parts if len(part)] or parts, ignore_index=True)
    counts = [name for name in rows.columns if name.endswith(("_ns", "_bytes", "calls"))]
    rows[counts] = rows[counts].fillna(0).astype(np.int64)
    return rows


def _time_of_lines(calls: pd.DataFrame) -> pd.DataFrame:
    """Return the time of the program's lines by name and shapes, where lines are known."""
    known = calls.loc[(calls["line"] != "").to_numpy(), [*_BY_LINE]]
    spent = calls.loc[known.index, ["self_device_ns", "self_cpu_ns"]].sum(axis=1)
    rows = spent.groupby([known[name] for name in known], observed=True).sum().rename("spent_ns")
    return rows.reset_index().astype(dict.fromkeys(_BY_LINE, object))
