"""The largest gaps of GPUs: the kernels around them, and the work of the CPU meanwhile."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze import _cpu_work
from profkit.analyze._gaps import Gaps, launched_late
from profkit.analyze.shared import calltree, glob_match, intervals
from profkit.analyze.shared.intervals import Intervals
from profkit.analyze.shared.large_table import LargeTable
from profkit.analyze.shared.step_windows import WHERE, by_repeat, of_repeat, runs
from profkit.tables.frame_files import is_library
from profkit.tables.tree_paths import SEPARATOR


def gap_rows(
    where: dict[str, int], found: Gaps, windows: pd.DataFrame, blocked: Intervals
) -> dict[str, NDArray[Any]]:
    """Return the columns of the gaps of one GPU, and how much of each is in its `windows`."""
    frame = windows.sort_values("start_ns")
    inside = intervals.union(intervals.intervals(frame["start_ns"], frame["end_ns"]))
    begun = np.searchsorted(frame["start_ns"].to_numpy(np.int64), found.spans[:, 0], side="right")
    count = len(found.spans)
    return {
        **{name: np.full(count, number) for name, number in where.items()},
        "step": frame["step"].to_numpy()[(begun - 1).clip(min=0)],
        "at_ns": found.spans[:, 0] - frame["start_ns"].iloc[0],
        "gap_ns": intervals.overlap(found.spans, inside),
        "start_ns": found.spans[:, 0],
        "end_ns": found.spans[:, 1],
        "before": found.before,
        "after": found.after,
        "drained": intervals.contains(blocked, found.spans[:, 0]),
    }


def joined(parts: Sequence[Mapping[str, NDArray[Any]]]) -> pd.DataFrame:
    """Return the columns of all `parts` as one table: a table of each takes as long as its rows."""
    return pd.DataFrame({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})


def largest(
    rows: pd.DataFrame,
    kernels: pd.DataFrame,
    launched: pd.DataFrame,
    short_ns: int,
    count: int,
) -> pd.DataFrame:
    """Return the `count` largest of the gaps in `rows`, with cause, launch and neighbours.

    `launched` is what `launch_calls.launches` returns. The columns before and after, rows of
    `kernels` at first, become their names.
    """
    kept = rows.nlargest(count, "gap_ns").reset_index(drop=True)
    before, after = (kept[name].to_numpy(np.int64) for name in ("before", "after"))
    found = Gaps(
        spans=intervals.intervals(kept["start_ns"], kept["end_ns"]), before=before, after=after
    )
    is_late = launched_late(found, launched["start_ns"].to_numpy(np.int64))
    launch_start = np.append(launched["start_ns"].to_numpy(np.int64), -1)[after]
    short = (kept["end_ns"] - kept["start_ns"]).to_numpy() < short_ns
    names = np.append(kernels["name"].astype(object).to_numpy(), "")
    calls = np.append(launched["name"].to_numpy(), "")
    return kept.assign(
        cause=np.where(is_late, "host", np.where(short, "between", "other")),
        before=names[before],
        after=names[after],
        launched_by=calls[after],
        launched_after_ns=(launch_start - kept["start_ns"]).where(is_late & (after >= 0)),
    )


def with_cpu_work(
    rows: pd.DataFrame,
    cpu_ops: LargeTable,
    python_calls: LargeTable,
    annotations: pd.DataFrame,
    threads: pd.DataFrame,
) -> pd.DataFrame:
    """Return gaps with operator, Python line and annotation during each, the largest first.

    `threads` are those that launch work (rank, repeat, tid): the GPU does not wait for others.
    Where none is known all threads count.
    """
    parts = []
    during = intervals.union(intervals.intervals(rows["start_ns"], rows["end_ns"]))
    near_calls = python_calls.where(lambda calls: _of_use(calls, during))
    calls_of, ranges_of, threads_of = map(by_repeat, (near_calls, annotations, threads))
    found: dict[Any, pd.DataFrame] = dict(iter(rows.groupby(WHERE, observed=True)))
    for where, of_rank in found.items():
        launching, calls = threads_of(where)["tid"], calls_of(where)
        ops = of_repeat(cpu_ops.of_ranks({where[0]}), where)
        spans = intervals.intervals(of_rank["start_ns"], of_rank["end_ns"])
        longest = _cpu_work.longest_in(ops, _cpu_work.parents(ops), _on(ops, launching), spans)
        positions = [position for position, _ in longest]
        ranges = ranges_of(where)
        ranges = ranges[(ranges["kind"] == "host").to_numpy()]
        parts.append(
            of_rank.assign(
                host=_cpu_work.names_at(ops, positions),
                host_share=np.array([time for _, time in longest]) / (spans[:, 1] - spans[:, 0]),
                line=_lines(ops, positions, calls, _on(calls, launching), spans),
                annotation=_cpu_work.innermost(ranges, spans),
            )
        )
    every = pd.concat(parts) if parts else rows
    order = every.sort_values("gap_ns", ascending=False, ignore_index=True)
    return order.drop(columns=["start_ns", "end_ns"])


def _of_use(calls: pd.DataFrame, during: Intervals) -> NDArray[np.bool_]:
    """Tell which calls ran `during` the union, and one of each thread that has any."""
    found = _cpu_work.ran_in(calls, during)
    found[runs(calls, [*WHERE, "tid"])] = True
    return found


def _lines(
    ops: pd.DataFrame,
    positions: list[int],
    calls: pd.DataFrame,
    counted: NDArray[np.bool_],
    spans: Intervals,
) -> list[str]:
    """Return the line of the program during each gap: from its calls, else from the operator."""
    if counted.any():
        return _lines_during(calls, counted, spans)
    stacks = ops["stack"].astype(object).to_numpy()
    return [_line_of(str(stacks[row])) if row >= 0 else "" for row in positions]


def _lines_during(
    python_calls: pd.DataFrame, counted: NDArray[np.bool_], spans: Intervals
) -> list[str]:
    """Return for each of `spans` the frame of the program in which most of it was spent.

    `python_calls` are those of one rank and repeat, of which those `counted` matter. Where all
    frames are PyTorch's, it is the innermost of these; "" where less of the span was in any than
    in none.
    """
    call, caller = (python_calls[name].to_numpy(np.int64) for name in ("call", "caller"))
    parent = calltree.positions(call, caller)
    longest = _cpu_work.longest_in(python_calls, parent, counted, spans)
    found = np.array([row for row, _ in longest], dtype=np.int64)
    names = python_calls["name"]
    foreign = glob_match.named(names, lambda name: is_library(_file(name)))
    foreign |= (python_calls["kind"] == "module").to_numpy()
    own = calltree.nearest(found, parent, foreign)
    return [
        "" if row < 0 else str(names.iloc[line if line >= 0 else row])
        for row, line in zip(found.tolist(), own.tolist(), strict=True)
    ]


def _line_of(stack: str) -> str:
    """Return the innermost frame of a recorded stack that is the program's own; "" if none is."""
    frames = stack.split(SEPARATOR)
    return next((frame for frame in frames[::-1] if not is_library(_file(frame))), "")


def _file(frame: str) -> str:
    """Return the file of a frame as PyTorch writes it: ``folder/file.py(12): function``."""
    return frame.partition("(")[0]


def _on(rows: pd.DataFrame, threads: "pd.Series[int]") -> NDArray[np.bool_]:
    """Tell which `rows` are on `threads`: all where none is known."""
    return rows["tid"].isin(threads).to_numpy() | threads.empty
