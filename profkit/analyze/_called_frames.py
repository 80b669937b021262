"""Stacks of what one rank ran in its periods: modules, operators and kernels, or Python frames."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.division import charges
from profkit.analyze.division.partition import alone, innermost_time, spans_of
from profkit.analyze.division.recorded_rank import RecordedRank
from profkit.analyze.shared import calltree, intervals
from profkit.analyze.shared.frame_kinds import Frame, of_call
from profkit.analyze.shared.frame_tree import Stack
from profkit.analyze.shared.step_windows import filtered
from profkit.analyze.tracks.of_rank import PHASES, thread_names
from profkit.tables.tree_paths import SEPARATOR, Numbers, Paths, paths

MAIN = "main thread"
_MARKS = ("ProfilerStep#", "step#")
_KEYS = ["thread", "phase", "module", "node", "kernel"]


def step_stacks(rank: RecordedRank) -> Iterator[Stack]:
    """Yield thread and phase, frames, and ns on the GPU and on the CPU by themselves.

    Of an instant in which several kernels run, the one that began first has the time.
    """
    ops, parent = rank.ops, rank.op_parents
    codes, names = pd.factorize(ops["name"])
    inside = _inside(ops, parent)
    is_range = (ops["kind"] == "annotation").to_numpy()
    marks = np.array([_is_mark(str(name)) for name in names], dtype=np.bool_)[codes]
    found = paths(np.where(inside, parent, -1), np.asarray(codes), ~(is_range & marks))
    ranges = set(ops["name"][is_range].unique())
    called = _frames(found, [("range" if name in ranges else "operator", name) for name in names])
    sums = _sums(rank, found.node, _top(parent, inside))
    yield from _below_modules(sums, called)


def _inside(ops: pd.DataFrame, parent: Numbers) -> NDArray[np.bool_]:
    """Tell which operators are drawn in the one around them.

    One of another module or phase is not: it is below its own module.
    """
    inside = parent >= 0
    for name in ("phase", "module"):
        place = np.append(ops[name].astype(object).to_numpy(), "")
        inside &= (place[:-1] == "") | (place[parent] == place[:-1])
    return inside


def _top(parent: Numbers, inside: NDArray[np.bool_]) -> Numbers:
    """Return the row around each operator that is drawn in no other one."""
    top = np.arange(len(parent))
    while inside[top].any():
        top = np.where(inside[top], parent[top], top)
    return top


def _sums(rank: RecordedRank, node: Numbers, top: Numbers) -> pd.DataFrame:
    """Return GPU and CPU time by `_KEYS`, and when in a period the first of each began.

    Phase and module of an operator are those of the row `top`.
    """
    ops, kernels = rank.ops, rank.kernels
    windows = intervals.union(rank.windows)
    known, wanted = (rows["op"].to_numpy(np.int64) for rows in (ops, kernels))
    launcher = np.where(wanted >= 0, calltree.positions(known, wanted), -1)
    threads = thread_titles(rank)
    of_ops = pd.DataFrame(
        {
            "thread": _titles(rank.op_threads, threads),
            "phase": ops["phase"].astype(object).to_numpy()[top],
            "module": ops["module"].astype(object).to_numpy()[top],
            "node": node,
            "kernel": "",
            "gpu": 0,
            "cpu": innermost_time(rank.op_spans, rank.op_parents, windows),
            "start": _since_start(rank, rank.op_spans[:, 0]),
        }
    )
    of_kernels = of_ops.reindex(launcher).reset_index(drop=True)
    for name in ("phase", "module"):
        alone_there = kernels[name].astype(object)
        of_kernels[name] = of_kernels[name].where(launcher >= 0, alone_there.to_numpy())
    of_kernels = of_kernels.fillna({"thread": "unknown thread", "node": -1}).assign(
        kernel=kernels["name"].astype(object).to_numpy(),
        gpu=intervals.overlap(alone(spans_of(kernels)), windows),
        cpu=0,
        start=_since_start(rank, kernels["start_ns"].to_numpy(np.int64)),
    )
    # Apart: no kernel has the key of an operator.
    return pd.concat([_by_keys(of_ops), _by_keys(of_kernels.astype({"node": np.int64}))])


def _by_keys(rows: pd.DataFrame) -> pd.DataFrame:
    rows = filtered(rows, (rows["gpu"] > 0) | (rows["cpu"] > 0))
    grouped = rows.groupby(_KEYS, sort=False, observed=True)
    return grouped.agg(gpu=("gpu", "sum"), cpu=("cpu", "sum"), start=("start", "min"))


def _below_modules(sums: pd.DataFrame, called: Sequence[list[Frame]]) -> Iterator[Stack]:
    for key, gpu, cpu, _ in sums.sort_values("start", kind="stable").itertuples():
        thread, phase, module, node, kernel = key
        modules = [("module", name) for name in module.split(SEPARATOR)] if module else []
        frames = [*modules, *(called[node] if node >= 0 else ())]
        if kernel:
            frames.append(("kernel", kernel))
        yield (thread, phase), frames or [("range", "(between operators)")], (gpu, cpu)


def python_stacks(rank: RecordedRank) -> Iterator[Stack]:
    """Yield thread, frames and ns by themselves in Python, without what profkit itself is."""
    calls = rank.python
    numbers = (calls[name].to_numpy(np.int64) for name in ("call", "caller"))
    caller = calltree.positions(*numbers)
    codes, names = pd.factorize(calls["name"])
    frames = [of_call(str(name)) for name in names]
    known = np.array([frame is not None for frame in frames], dtype=np.bool_)
    is_function = (calls["kind"] == "function").to_numpy()
    found = paths(caller, np.asarray(codes), known[codes] & is_function)
    called = _frames(found, [frame or ("", "") for frame in frames])
    thread, start = (calls[name].to_numpy(np.int64) for name in ("tid", "start_ns"))
    spent = charges.of_python(rank, intervals.union(rank.windows))
    parts = []
    for rows in intervals.blocks(len(calls)):
        times = {"ns": spent[rows], "start": _since_start(rank, start[rows])}
        part = pd.DataFrame({"thread": thread[rows], "node": found.node[rows], **times})
        parts.append(_by_node(filtered(part, (part["ns"] > 0) & (part["node"] >= 0))))
    threads = thread_titles(rank)
    sums = _by_node(pd.concat(parts, ignore_index=True)).sort_values("start", kind="stable")
    for tid, node, ns, _ in sums.itertuples(index=False):
        yield (threads.get(tid, f"thread {tid}"),), called[node], (ns,)


def _by_node(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the sums of `python_stacks` by thread and node, in the order of their first rows."""
    grouped = rows.groupby(["thread", "node"], sort=False)
    return grouped.agg(ns=("ns", "sum"), start=("start", "min")).reset_index()


def _titles(threads: Numbers, known: Mapping[int, str]) -> NDArray[np.object_]:
    """Return what the thread of each row is called."""
    codes, found = pd.factorize(threads)
    return np.array([known[tid] for tid in found.tolist()], dtype=object)[codes]


def thread_titles(rank: RecordedRank) -> dict[int, str]:
    """Return what each thread with operators or calls is called."""
    return {
        tid: MAIN if role == "main" else f"{role} thread {tid}".strip()
        for tid, role in thread_names(rank).items()
    }


def _is_mark(name: str) -> bool:
    """Tell whether a range marks a step or a phase, and says nothing of what ran."""
    return name.startswith(_MARKS) or name in PHASES


def _frames(found: Paths, names: Sequence[Frame]) -> list[list[Frame]]:
    """Return the frames of each node, from the root."""
    made: list[list[Frame]] = []
    for above, name in zip(found.above.tolist(), found.name.tolist(), strict=True):
        made.append([*(made[above] if above >= 0 else ()), names[name]])
    return made


def _since_start(rank: RecordedRank, start_ns: Numbers) -> NDArray[np.int64]:
    """Return how long after the beginning of its period each instant is."""
    begins = np.sort(rank.windows[:, 0])
    return start_ns - begins[np.maximum(np.searchsorted(begins, start_ns, "right") - 1, 0)]
