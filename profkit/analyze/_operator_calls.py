"""The rows of PyTorch's ``key_averages`` before they are summed: one per call that counts.

Follows ``torch.autograd.profiler_util.EventList``, over whole columns instead of objects.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.costs.torch_flops import flops
from profkit.analyze.shared import calltree, intervals
from profkit.analyze.shared.glob_match import matching
from profkit.analyze.shared.step_windows import by_repeat
from profkit.tables.python_frames import own_line

WHERE = ["rank", "repeat"]
DEVICE_TIME = ["self_device_ns", "total_device_ns"]
HOST_MEMORY = ["self_cpu_bytes", "total_cpu_bytes"]
DEVICE_MEMORY = ["self_device_bytes", "total_device_bytes"]

_HIDDEN = (
    "profiler::_record_function_enter",
    "profiler::_record_function_enter_new",
    "profiler::_record_function_exit",
    "aten::is_leaf",
    "aten::output_nr",
    "aten::_version",
)
"""Operators that PyTorch's own table leaves out."""


def operator_calls(
    cpu_ops: pd.DataFrame,
    runtime_calls: pd.DataFrame,
    kernels: pd.DataFrame,
    memory_events: pd.DataFrame,
    asynchronous: Sequence[str],
) -> pd.DataFrame:
    """Return one row per call in PyTorch's table, with self and total time, memory and FLOPs."""
    enclosing = calltree.rows_of(cpu_ops, cpu_ops, "parent")
    hidden = matching(cpu_ops["name"], _HIDDEN)
    loose = hidden | matching(cpu_ops["name"], asynchronous)
    # Children of a loose range belong to the range around it.
    parent = calltree.nearest(enclosing, enclosing, loose)
    launched = calltree.nearest(calltree.rows_of(cpu_ops, runtime_calls), enclosing, loose)
    merged = _is_merged(parent, launched, cpu_ops["name"], loose)
    counted_in = calltree.nearest(np.arange(len(cpu_ops)), parent, merged | loose)
    # Columns are cut one by one: all at once they would be there twice.
    kept = ~(merged | hidden)
    self_cpu = calltree.sums(counted_in, cpu_ops["self_ns"].to_numpy(np.int64), len(cpu_ops))

    def sums(table: pd.DataFrame, values: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
        if table.empty:  # zeros take no memory until they are written
            return np.zeros(kept.sum(), np.int64), np.zeros(kept.sum(), np.int64)
        rows = calltree.nearest(calltree.rows_of(cpu_ops, table), parent, merged | loose)
        own = calltree.sums(rows, values, len(parent))[kept]
        return own, calltree.subtree_sums(rows, values, parent)[kept]

    on_host = memory_events["device"].astype(object).to_numpy() == "cpu"
    size = memory_events["size_bytes"].to_numpy(np.int64)
    measured = {"self_cpu_ns": self_cpu[kept], "total_cpu_ns": _duration(cpu_ops)[kept]}
    measured |= zip(DEVICE_TIME, sums(kernels, _duration(kernels)), strict=True)
    measured |= zip(HOST_MEMORY, sums(memory_events, size * on_host), strict=True)
    measured |= zip(DEVICE_MEMORY, sums(memory_events, size * ~on_host), strict=True)
    in_step = (cpu_ops["step"] >= 0).to_numpy()[kept]
    return pd.DataFrame(
        {
            "name": _rewritten(cpu_ops["name"], _without_number)[kept],
            "kind": cpu_ops["kind"].array[kept],
            "input_shapes": _rewritten(cpu_ops["input_shapes"], _without_lists)[kept],
            "line": _rewritten(cpu_ops["stack"], own_line)[kept],
            # Summed to integers, in an eighth of the memory.
            "calls": np.ones(len(in_step), dtype=np.bool_),
            "calls_in_steps": in_step,
            "self_cpu_in_steps_ns": measured["self_cpu_ns"] * in_step,
            "flops": flops(cpu_ops)[kept],
            **measured,
        },
        copy=False,
    )


def _is_merged(
    parent: calltree.Rows,
    launched: calltree.Rows,
    names: "pd.Series[str]",
    loose: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Tell which operators are the only child of one of the same name: PyTorch drops them.

    Its time and children go to the parent. Operators and runtime calls are children, `loose`
    ranges neither children nor parents.
    """
    size = len(parent)
    children = calltree.sums(np.where(loose, -1, parent), np.ones(size, dtype=np.int64), size)
    children += calltree.sums(launched, np.ones(len(launched), dtype=np.int64), size)
    code = names.cat.codes.to_numpy()
    is_same = (parent >= 0) & (code == code[parent])
    return np.asarray(~loose & is_same & (children[parent] == 1))


def runtime_rows(runtime_calls: pd.DataFrame) -> pd.DataFrame:
    duration = _duration(runtime_calls)
    in_step = (runtime_calls["step"] >= 0).to_numpy()
    return pd.DataFrame(
        {
            "name": runtime_calls["name"],
            "kind": "runtime",
            "calls": 1,
            "calls_in_steps": in_step.astype(np.int64),
            "self_cpu_in_steps_ns": duration * in_step,
            "self_cpu_ns": duration,
            "total_cpu_ns": duration,
        }
    )


def memory_rows(
    cpu_ops: pd.DataFrame, runtime_calls: pd.DataFrame, memory_events: pd.DataFrame
) -> pd.DataFrame:
    """Return the allocations and frees that happened while no range was open on any thread."""
    ops_of, calls_of = by_repeat(cpu_ops), by_repeat(runtime_calls)
    alone = np.ones(len(memory_events), dtype=np.bool_)
    events_of: dict[Any, Any] = memory_events.groupby(WHERE, observed=True).indices
    for where, rows in events_of.items():
        ops, calls = ops_of(where), calls_of(where)
        shown = _spans(ops)[~matching(ops["name"], _HIDDEN)]
        busy = intervals.union(np.concatenate((shown, _spans(calls))))
        alone[rows] = ~intervals.contains(busy, memory_events["time_ns"].to_numpy()[rows])
    events = memory_events[alone]
    on_host = (events["device"].astype(object) == "cpu").to_numpy()
    size = events["size_bytes"].to_numpy(np.int64)
    return pd.DataFrame(
        {
            "name": "[memory]",
            "kind": "memory",
            "calls": 1,
            "calls_in_steps": (events["step"] >= 0).astype(np.int64),
            **dict.fromkeys(HOST_MEMORY, size * on_host),
            **dict.fromkeys(DEVICE_MEMORY, size * ~on_host),
        }
    )


def _spans(table: pd.DataFrame) -> intervals.Intervals:
    """Return the rows as intervals in which PyTorch counts an event at the very end as inside."""
    return intervals.intervals(table["start_ns"], table["end_ns"] + 1)


def _duration(table: pd.DataFrame) -> NDArray[np.int64]:
    return (table["end_ns"] - table["start_ns"]).to_numpy(np.int64)


def _rewritten(texts: "pd.Series[str]", rewrite: Callable[[str], str]) -> "pd.Categorical[str]":
    """Return the categorical `texts` with `rewrite` applied to each distinct one."""
    new = [rewrite(str(text)) for text in texts.cat.categories]
    categories: pd.Index[str] = pd.Index(sorted(set(new)), dtype="str")
    codes = categories.get_indexer(pd.Index(new, dtype="str"))[texts.cat.codes.to_numpy()]
    return pd.Categorical.from_codes(codes, categories)


def _without_number(name: str) -> str:
    return "ProfilerStep*" if name.startswith("ProfilerStep#") else name


def _without_lists(shapes: str) -> str:
    """Return `shapes` as PyTorch groups and prints them: a list of tensors is ``[]``."""
    inputs = json.loads(shapes) if shapes else []
    flat = [
        [] if isinstance(shape, list) and any(isinstance(dim, list) for dim in shape) else shape
        for shape in inputs
    ]
    return json.dumps(flat) if flat else ""
