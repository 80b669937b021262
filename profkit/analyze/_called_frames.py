"""Stacks of what one rank ran in its periods: modules, operators and kernels, or Python frames."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.division.partition import alone, spans_of, without_inner
from profkit.analyze.division.recorded_rank import RecordedRank
from profkit.analyze.division.thread_roles import ThreadRoles
from profkit.analyze.shared import calltree, intervals
from profkit.analyze.shared.frame_kinds import Frame, of_call
from profkit.analyze.shared.frame_tree import Stack
from profkit.analyze.shared.glob_match import named
from profkit.analyze.shared.intervals import Intervals
from profkit.analyze.shared.step_windows import MARKS, filtered
from profkit.analyze.tracks.of_rank import PHASES
from profkit.tables.tree_paths import SEPARATOR, Numbers, PathBuilder, Paths, depths, paths

MAIN = "main thread"
_KEYS = ["thread", "phase", "module", "node", "kernel"]
_NO_THREAD = "unknown thread"
_MOST_NAMES = 1 << 30

Codes = NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True)
class _Coded:
    """A column of operators, and of kernels where no operator launched them, as numbers."""

    ops: Codes
    kernels: Codes
    texts: Sequence[str] = ()
    """What the numbers stand for; the last one for -1 as well."""

    @classmethod
    def of(cls, ops: "pd.Series[str]", kernels: "pd.Series[str]") -> "_Coded":
        """Return the column of both tables; a text that is missing is empty."""
        known: dict[str, int] = {}
        codes = []
        for column in (ops, kernels):
            own = cast("pd.Categorical", column.array)
            texts = [*map(str, own.categories), ""]
            numbers = [known.setdefault(text, len(known)) for text in texts]
            codes.append(np.array(numbers, dtype=np.int32)[own.codes])
        return cls(codes[0], codes[1], [*known])

    def below(self, top: Codes) -> "_Coded":
        """Return the column with the number of the row `top` for each operator."""
        return replace(self, ops=self.ops[top])

    def of_kernels(self, launcher: Numbers, rows: slice) -> Codes:
        """Return the numbers of kernels, that of the operator in row `launcher` if there is one."""
        return np.where(launcher >= 0, np.append(self.ops, -1)[launcher], self.kernels[rows])


class StepTimes:
    """Time of the modules, operators and kernels of one rank and repeat, as it comes in parts.

    Of an instant in which several kernels run, the one that began first has the time.
    """

    def __init__(self) -> None:
        """Count what is in the periods of the rank."""
        self.roles = ThreadRoles()
        self._called: dict[tuple[Frame, ...], int] = {}
        self._sums: pd.DataFrame | None = None

    def add(self, rank: RecordedRank) -> None:
        """Count a part of what was recorded, or all of it: no stack is in two of them."""
        keys, called = _keys(rank)
        sums = _sums(rank, keys)
        numbers = [self._called.setdefault(tuple(one), len(self._called)) for one in called]
        sums["node"] = np.array([*numbers, -1], dtype=np.int64)[sums["node"]]
        self._sums = _by_keys(pd.concat([self._sums, sums], ignore_index=True))
        self.roles.add(rank.ops, rank.calls)

    def stacks(self) -> Iterator[Stack]:
        """Yield thread and phase, frames, and ns on the GPU and on the CPU by themselves."""
        if self._sums is None:
            return
        titles = {str(tid): title for tid, title in thread_titles(self.roles).items()}
        called = [*self._called]
        ordered = self._sums.sort_values("start", kind="stable")[[*_KEYS, "gpu", "cpu"]]
        for thread, phase, module, node, kernel, gpu, cpu in ordered.itertuples(index=False):
            modules = [("module", name) for name in module.split(SEPARATOR)] if module else []
            frames = [*modules, *(called[node] if node >= 0 else ())]
            if kernel:
                frames.append(("kernel", kernel))
            group = titles.get(thread, _NO_THREAD), phase
            yield group, frames or [("range", "(between operators)")], (gpu, cpu)


def _keys(rank: RecordedRank) -> tuple[dict[str, _Coded], list[list[Frame]]]:
    """Return the first of `_KEYS`, and the frames of each node."""
    ops, parent = rank.ops, rank.op_parents
    places = [_Coded.of(ops[name], rank.kernels[name]) for name in ("phase", "module")]
    inside = _inside(parent, places)
    names = cast("pd.Categorical", ops["name"].array)
    is_range = (ops["kind"] == "annotation").to_numpy()
    marks = named(ops["name"], _is_mark)
    found = paths(np.where(inside, parent, -1), names.codes, ~(is_range & marks))
    ranges = set(names.codes[is_range].tolist())
    kinds = ["range" if code in ranges else "operator" for code in range(len(names.categories))]
    called = _frames(found, [*zip(kinds, names.categories, strict=True)])
    top = _top(parent, inside)
    phase, module = (place.below(top) for place in places)
    nothing = np.full(len(rank.kernels), -1, dtype=np.int32)
    thread, tids = pd.factorize(rank.op_threads)
    keys = {
        "thread": _Coded(thread.astype(np.int32), nothing, [*map(str, tids.tolist()), ""]),
        "phase": phase,
        "module": module,
        "node": _Coded(found.node, nothing),
    }
    return keys, called


def _inside(parent: Numbers, places: Iterable[_Coded]) -> NDArray[np.bool_]:
    """Tell which operators are drawn in the one around them.

    One of another module or phase is not: it is below its own module.
    """
    inside = parent >= 0
    for place in places:
        is_unknown = np.array([not text for text in place.texts], dtype=np.bool_)
        inside &= is_unknown[place.ops] | (place.ops[parent] == place.ops)
    return inside


def _top(parent: Numbers, inside: NDArray[np.bool_]) -> Codes:
    """Return the row around each operator that is drawn in no other one."""
    top = np.arange(len(parent), dtype=np.int32)
    while (is_inside := inside[top]).any():
        top[is_inside] = parent[top[is_inside]]
    return top


def _sums(rank: RecordedRank, keys: Mapping[str, _Coded]) -> pd.DataFrame:
    """Return GPU and CPU time by `_KEYS`, and when in a period the first of each began."""
    windows = intervals.union(rank.windows)
    start_ns = rank.ops["start_ns"].to_numpy(np.int64)
    cpu = np.empty(len(rank.ops), dtype=np.int64)
    for rows in intervals.blocks(len(cpu)):
        cpu[rows] = intervals.overlap(spans_of(rank.ops.iloc[rows]), windows)
    cpu = without_inner(cpu, rank.op_parents)
    parts = []
    for rows in intervals.blocks(len(rank.ops)):
        columns = {name: coded.ops[rows] for name, coded in keys.items()} | {"kernel": -1}
        start = _since_start(rank.windows, start_ns[rows])
        parts.append(_by_keys(columns | {"gpu": 0, "cpu": cpu[rows], "start": start}))
    kernel, names = pd.factorize(rank.kernels["name"])
    gpu = intervals.overlap(alone(rank.kernel_spans), windows)
    for rows in intervals.blocks(len(rank.kernels)):
        op = rank.kernel_ops[rows]
        columns = {name: coded.of_kernels(op, rows) for name, coded in keys.items()}
        start = _since_start(rank.windows, rank.kernel_spans[rows, 0])
        columns |= {"kernel": kernel[rows], "gpu": gpu[rows], "cpu": 0, "start": start}
        parts.append(_by_keys(columns))
    sums = _by_keys(pd.concat(parts, ignore_index=True))
    texts = {name: coded.texts for name, coded in keys.items()} | {"kernel": [*names, ""]}
    found = {name: np.array(of, dtype=object)[sums[name]] for name, of in texts.items() if of}
    return sums.assign(**found)


def _by_keys(columns: Any) -> pd.DataFrame:
    """Return the sums of some rows, in the order of the first of each."""
    rows = pd.DataFrame(columns)
    grouped = filtered(rows, (rows["gpu"] > 0) | (rows["cpu"] > 0)).groupby(_KEYS, sort=False)
    return grouped.agg(gpu=("gpu", "sum"), cpu=("cpu", "sum"), start=("start", "min")).reset_index()


class PythonTimes:
    """Time of the Python stacks of one rank and repeat, as its calls come in portions.

    A call begins while its caller lasts, as in all tables of traces: what has ended before the last
    call of its thread in a portion is done with.
    """

    def __init__(self, windows: Intervals) -> None:
        """Count what is in `windows`."""
        self.count = 0
        self._windows = windows
        self._within = intervals.union(windows)
        self._names: dict[str, int] = {}
        self._paths = PathBuilder(_MOST_NAMES)
        self._lasting: pd.DataFrame | None = None
        self._sums: pd.DataFrame | None = None

    def add(self, calls: pd.DataFrame) -> None:
        """Count the next rows of ``python_calls``, at least one."""
        name, counted = self._named(calls)
        numbers = calls[["call", "caller", "tid", "start_ns", "end_ns"]]
        own = intervals.overlap(spans_of(calls), self._within)
        row = np.arange(self.count, self.count + len(calls))
        rows = numbers.assign(name=name, counted=counted, node=-1, row=row, ns=own)
        rows = pd.concat([self._lasting, rows], ignore_index=True)
        known = len(rows) - len(calls)
        caller = calltree.positions(*(rows[one].to_numpy(np.int64) for one in ("call", "caller")))
        # Damaged tables have calls that call themselves, or one another.
        caller = np.where(caller < np.arange(len(rows)), caller, -1)
        node = self._paths.add(
            caller,
            depths(caller),
            rows["name"].to_numpy(),
            rows["counted"].to_numpy(),
            rows["node"].to_numpy()[:known],
        )
        inner = calltree.sums(caller, rows["ns"].to_numpy(), len(rows))
        rows = rows.assign(node=node, ns=rows["ns"] - inner, caller=-1)
        self.count += len(calls)
        last = calls.iloc[-1]
        lasts = (rows["tid"] == last["tid"]) & (rows["end_ns"] >= last["start_ns"])
        self._lasting = rows[lasts]
        self._sums = _by_node(pd.concat([self._sums, self._sum(rows[~lasts])]))

    def _named(self, calls: pd.DataFrame) -> tuple[Numbers, NDArray[np.bool_]]:
        """Return the number of each call's name, and whether it is a frame of its own."""
        codes, names = pd.factorize(calls["name"])
        texts = [str(name) for name in names]
        number = np.array([self._names.setdefault(text, len(self._names)) for text in texts])
        is_frame = np.array([of_call(text) is not None for text in texts], dtype=np.bool_)
        return number[codes], is_frame[codes] & (calls["kind"] == "function").to_numpy()

    def _sum(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the sums of `rows` by thread and node, and when the first of each began."""
        rows = filtered(rows, rows["ns"] > 0)
        start = _since_start(self._windows, rows["start_ns"].to_numpy(np.int64))
        return rows[["tid", "node", "ns", "row"]].assign(start=start)

    def stacks(self, threads: Mapping[int, str]) -> Iterator[Stack]:
        """Yield thread, frames and ns by themselves in Python, without what profkit itself is."""
        if self._lasting is None:
            return
        _, found = self._paths.whole()
        called = _frames(found, [of_call(name) or ("", "") for name in self._names])
        sums = pd.concat([self._sums, self._sum(self._lasting)], ignore_index=True)
        sums["node"] = found.node[sums["node"].to_numpy()]
        sums = _by_node(filtered(sums, sums["node"] >= 0)).sort_values(["start", "row"])
        for tid, node, ns, _, _ in sums.itertuples(index=False):
            yield (threads.get(tid, f"thread {tid}"),), called[node], (ns,)


def _by_node(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the sums of `rows` by thread and node; the first of equal starts comes first."""
    grouped = rows.groupby(["tid", "node"], sort=False)
    return grouped.agg(ns=("ns", "sum"), start=("start", "min"), row=("row", "min")).reset_index()


def thread_titles(roles: ThreadRoles) -> dict[int, str]:
    """Return what each thread with operators or calls is called."""
    return {
        tid: MAIN if role == "main" else f"{role} thread {tid}".strip()
        for tid, role in roles.names().items()
    }


def _is_mark(name: str) -> bool:
    """Tell whether a range marks a step or a phase, and says nothing of what ran."""
    return name.startswith(MARKS) or name in PHASES


def _frames(found: Paths, names: Sequence[Frame]) -> list[list[Frame]]:
    """Return the frames of each node, from the root."""
    made: list[list[Frame]] = []
    for above, name in zip(found.above.tolist(), found.name.tolist(), strict=True):
        made.append([*(made[above] if above >= 0 else ()), names[name]])
    return made


def _since_start(windows: Intervals, start_ns: Numbers) -> NDArray[np.int64]:
    """Return how long after the beginning of its period each instant is."""
    begins = np.sort(windows[:, 0])
    return start_ns - begins[np.maximum(np.searchsorted(begins, start_ns, "right") - 1, 0)]
