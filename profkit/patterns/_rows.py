"""Rows that a pattern is about: by their text, by the operators around them, by their line."""

import re
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.patterns.base import CHARGED, charged
from profkit.tables.python_frames import own_line

_ROWS_AT_ONCE = 1 << 18
_OUTERMOST = re.compile(r"(.*?);torch/nn/modules/module\.py\(")
"""What stands before the first call of a module in a stack."""

_OF_TRAINING = r"[bB]ackward|^autograd::engine|^Optimizer\."
GIVES_WORK = r"Launch|Memcpy|Memset"
"""In names of calls that give a GPU something to do."""

Chosen: TypeAlias = NDArray[np.bool_]
"""One flag for each row of a table."""


def having(rows: pd.DataFrame, expression: str, column: str = "name") -> Chosen:
    """Choose the rows whose text in `column` contains the regular `expression`."""
    contains = re.compile(expression).search
    return fitting(rows, column, lambda text: contains(text) is not None)


def fitting(rows: pd.DataFrame, column: str, fits: Callable[[str], bool]) -> Chosen:
    """Choose the rows whose text in `column` is one that `fits`."""
    text = rows[column].astype("category").cat
    # A text is looked at once, however many rows have it.
    found = [fits(str(category)) for category in text.categories.astype(object)]
    return np.array([*found, False])[text.codes.to_numpy()]


def fitting_both(
    rows: pd.DataFrame, chosen: Chosen, columns: tuple[str, str], fits: Callable[[str, str], bool]
) -> Chosen:
    """Choose those of the `chosen` rows whose texts in both `columns` are such that `fits`."""
    first, second = (rows[column].astype("category").cat for column in columns)
    # A text that is missing has the code -1.
    codes = (one.codes.to_numpy(np.int64)[chosen] + 1 for one in (first, second))
    left, right = (["", *one.categories.astype(object)] for one in (first, second))
    pairs, number = np.unique(next(codes) * len(right) + next(codes), return_inverse=True)
    # A pair is looked at once, however many rows have it.
    distinct = zip(*np.divmod(pairs, len(right)), strict=True)
    found = np.array([fits(str(left[one]), str(right[other])) for one, other in distinct], bool)
    made = chosen.copy()
    made[chosen] = found[number]
    return made


def equal(rows: pd.DataFrame, column: str, text: str) -> Chosen:
    """Choose the rows whose text in `column` is this one."""
    return np.array(rows[column] == text, dtype=bool)


def within(rows: pd.DataFrame, calls: pd.DataFrame, *, whole: bool = False) -> Chosen:
    """Choose the `rows` of any table whose middle is in one of `calls` of the same thread.

    Where calls were sampled, an operator may begin a little before the call that it is made in.
    What lasts longer than the calls encloses them, wherever its middle is. With `whole` all of a
    row has to be in one.
    """
    chosen = np.zeros(len(rows), dtype=bool)
    if calls.empty:
        return chosen
    threads, start, end = (rows[name].to_numpy(np.int64) for name in ("tid", "start_ns", "end_ns"))
    for thread, theirs in calls.groupby("tid"):
        calls_sorted = theirs.sort_values("start_ns")
        first, last = (calls_sorted[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
        reach = np.maximum.accumulate(last)
        opens = np.flatnonzero(np.r_[True, first[1:] > reach[:-1]])
        begins, ends = first[opens], reach[np.r_[opens[1:], len(first)] - 1]
        # Some at a time: what is in between takes several times the memory of the rows.
        for first_row in range(0, len(rows), _ROWS_AT_ONCE):
            some = slice(first_row, first_row + _ROWS_AT_ONCE)
            length = end[some] - start[some]
            middle = start[some] + length // 2
            at = np.searchsorted(begins, middle, "right") - 1
            is_inside = (at >= 0) & (middle < ends[at]) & (length <= ends[at] - begins[at])
            if whole:
                is_inside &= (start[some] >= begins[at]) & (end[some] <= ends[at])
            chosen[some] |= (threads[some] == thread) & is_inside
    return chosen


def inside(cpu_ops: pd.DataFrame, roots: Chosen) -> Chosen:
    """Choose the operators `roots` and all that lie inside them on the same thread."""
    # Ranges that others mark may cut across each other: what lies in one of them is a child of two.
    # The last one of a recording ends with that, maybe long after the step that it is in.
    ranges = roots & equal(cpu_ops, "kind", "annotation")
    chosen = roots | within(cpu_ops, cpu_ops[ranges], whole=True)
    parent = _position(cpu_ops, cpu_ops, "parent")
    while True:
        more = np.append(chosen, False)[parent] & ~chosen
        if not more.any():
            return chosen
        chosen |= more


def called(cpu_ops: pd.DataFrame) -> Chosen:
    """Choose the operators of PyTorch that no other one calls."""
    of_torch = having(cpu_ops, "^aten::")
    return of_torch & ~cpu_ops["parent"].isin(cpu_ops["op"][of_torch]).to_numpy(bool)


def parents(cpu_ops: pd.DataFrame, chosen: Chosen) -> Chosen:
    """Choose the operators that directly enclose one of those `chosen`."""
    above = _position(cpu_ops, cpu_ops, "parent")[chosen]
    made = np.zeros(len(cpu_ops) + 1, dtype=bool)
    made[above] = True
    return made[:-1]


def calling_again(cpu_ops: pd.DataFrame, chosen: Chosen) -> Chosen:
    """Choose those of the `chosen` operators that directly enclose one of their own name."""
    names = np.append(cpu_ops["name"].astype("category").cat.codes.to_numpy(np.int64), -1)
    above = _position(cpu_ops, cpu_ops, "parent")
    again = np.append(chosen, False)[above] & (names[above] == names[:-1])
    made = np.zeros(len(cpu_ops), dtype=bool)
    made[above[again]] = True
    return made


def belonging(rows: pd.DataFrame, cpu_ops: pd.DataFrame, chosen: Chosen) -> Chosen:
    """Choose the rows of another table whose operator is one of those `chosen`."""
    return np.append(chosen, False)[_position(cpu_ops, rows, "op")]


def operators_of(rows: pd.DataFrame, cpu_ops: pd.DataFrame) -> Chosen:
    """Choose the operators that `rows` of another table belong to."""
    made = np.zeros(len(cpu_ops) + 1, dtype=bool)
    made[_position(cpu_ops, rows, "op")] = True
    made[-1] = False
    return made[:-1]


def _position(cpu_ops: pd.DataFrame, rows: pd.DataFrame, column: str) -> NDArray[np.int64]:
    """Return where in `cpu_ops` the operator is that `column` names; -1 if it is not there."""
    if cpu_ops.empty or rows.empty:
        return np.full(len(rows), -1, dtype=np.int64)
    if _is_numbered(cpu_ops) and not (rows["repeat"] != cpu_ops["repeat"].iloc[0]).any():
        at = rows[column].to_numpy(np.int64) - int(cpu_ops["op"].iloc[0])
        at[(at < 0) | (at >= len(cpu_ops))] = -1
        return at
    size = int(cpu_ops["op"].max()) + 1
    known = (cpu_ops["repeat"].to_numpy(np.int64) * size) + cpu_ops["op"].to_numpy(np.int64)
    wanted = rows[column].to_numpy(np.int64)
    inside_of = (wanted >= 0) & (wanted < size)
    wanted = np.where(inside_of, rows["repeat"].to_numpy(np.int64) * size + wanted, -1)
    order = np.argsort(known, kind="stable")
    at = order[np.searchsorted(known, wanted, sorter=order).clip(max=len(known) - 1)]
    return np.where(known[at] == wanted, at, -1)


def _is_numbered(cpu_ops: pd.DataFrame) -> bool:
    """Tell whether the numbers of operators are their places, but for a first one."""
    op, repeat = (cpu_ops[name].to_numpy() for name in ("op", "repeat"))
    is_sorted = bool((op[1:] > op[:-1]).all() and (repeat == repeat[0]).all())
    return is_sorted and int(op[-1]) - int(op[0]) == len(op) - 1


def time(cpu_ops: pd.DataFrame, chosen: Chosen, *others: pd.DataFrame) -> float:
    """Return what `chosen` operators, and what belongs to them in `others`, are charged, in ns."""
    own = charged(cpu_ops, chosen)
    return own + sum(charged(rows, belonging(rows, cpu_ops, chosen)) for rows in others)


def trains(cpu_ops: pd.DataFrame) -> bool:
    """Tell whether a backward pass or an optimizer was recorded."""
    return bool(having(cpu_ops, _OF_TRAINING).any())


def per_step(chosen: Chosen, steps: int) -> float:
    """Return how many rows are `chosen` in a step."""
    return round(int(chosen.sum()) / max(steps, 1), 1)


def cause(cpu_ops: pd.DataFrame, chosen: Chosen, kernels: pd.DataFrame) -> str:
    """Return the id of the cause with most of the time of the operators `chosen`."""
    if kernels.empty:
        return f"cpu_operators.{_most(cpu_ops['name'][chosen], cpu_ops[CHARGED][chosen])}"
    theirs = kernels[belonging(kernels, cpu_ops, chosen)]
    is_idle = charged(theirs) < charged(cpu_ops, chosen)
    return "gpu_idle.python" if is_idle else computing(theirs, cpu_ops)


def computing(kernels: pd.DataFrame, cpu_ops: pd.DataFrame) -> str:
    """Return the id of the operator with most of the time of `kernels`, of all if none is known."""
    at = _position(cpu_ops, kernels, "op")
    names = np.append(cpu_ops["name"].astype(object).to_numpy(), "")[at]
    most = _most(pd.Series(names), kernels[CHARGED])
    return f"gpu_computing.{most}" if most else "gpu_computing"


def _most(names: "pd.Series[str]", time_ns: "pd.Series[int]") -> str:
    """Return the name with most of `time_ns`, as ids have it; empty if there is none."""
    if not len(names):
        return ""
    time = time_ns.reset_index(drop=True)
    sums = time.groupby(names.reset_index(drop=True), observed=True).sum()
    ordered = sums.set_axis(sums.index.astype(object)).sort_index()
    return str(ordered.idxmax()).replace(".", "_")


def per_time(processes: pd.DataFrame, column: str) -> float:
    """Return how much of ``cpu_ns`` or ``queued_ns`` there is per time, 0 if that is not known."""
    lasted_ns = float((processes["end_ns"] - processes["start_ns"]).sum())
    return float(processes[column].clip(lower=0).sum()) / lasted_ns if lasted_ns else 0.0


def cores_of_a_rank(processes: pd.DataFrame) -> int:
    """Return the cores that there are for each rank, 0 if that is not known."""
    if processes.empty or (own := processes.iloc[-1])["cores"] < 1:
        return 0
    return max(int(own["cores"]) // max(int(own["ranks_on_host"]), 1), 1)


def place(cpu_ops: pd.DataFrame, chosen: Chosen, least: float = 0.0) -> str:
    """Return the user's line, else the module, else the operator of most time of those `chosen`.

    It has at `least` this share of their time. Lines that were sampled are sure of long operators
    alone: of short ones some are at other lines. Those of the forward pass count where there are
    any: the line of all others calls `backward`.
    """
    rows = cpu_ops[["phase", "stack", "module", "name", "start_ns", "end_ns"]][chosen]
    if rows.empty:
        return ""
    is_backward = equal(rows, "phase", "backward")
    rows = rows[~is_backward] if not is_backward.all() else rows
    stacks = rows["stack"].astype(object).map(own_line)
    lasted_ns = rows["end_ns"] - rows["start_ns"]
    for texts in (stacks, rows["module"].astype(object), rows["name"].astype(object)):
        known = texts[texts != ""]
        sums = lasted_ns[texts != ""].groupby(known.to_numpy(), sort=False).sum()
        if len(sums) and sums.max() >= least * sums.sum():
            return str(sums.idxmax())
    return ""


def calling_line(stacks: "pd.Series[str]") -> str:
    """Return the line of the program that most often calls the model, "" if no stack shows one."""
    counts = stacks.value_counts()
    around = [_OUTERMOST.match(stack) for stack in counts.index]
    lines = [own_line(found[1]) if found else "" for found in around]
    of_lines = counts.groupby(np.array(lines, dtype=object)).sum().drop("", errors="ignore")
    return str(of_lines.idxmax()) if len(of_lines) else ""
