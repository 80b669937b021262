"""Stacks that profkit sampled inside the process, beside a trace of its own captures."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from profkit.convert._harness_steps import step_of, steps_of
from profkit.convert.base import Raw
from profkit.convert.torch_profiler.turns import Look, Turns, turns
from profkit.core.errors import InputError
from profkit.tables import schema
from profkit.tables.python_frames import waits_in
from profkit.tables.tree_paths import joined

SUFFIX = ".python.json"
OF_WORKER = ".worker.json"
TABLES = (
    "python_samples",
    "between_steps",
    "python_threads",
    "python_pauses",
    "sampled_steps",
    "processes",
    "padded_inputs",
    "given_labels",
    "repeated_inputs",
    "worker_samples",
)
_OF_TRACE = ".pt.trace.json"


class _Usage(msgspec.Struct):
    """What the process had of the cores; the columns of ``processes``."""

    start_ns: int
    end_ns: int
    cores: int
    ranks_on_host: int
    operator_threads: int
    cpu_ns: int
    queued_ns: int
    involuntary_switches: int


class Sampled(msgspec.Struct):
    """What `profkit.capture._python_samples` writes; older captures lack some of the times."""

    tid: int
    stacks: list[list[str]]
    samples: list[tuple[int, int]]
    pauses: list[tuple[int, int]]
    cpu_ns: list[int] = []
    queued_ns: list[int] = []
    threads: list[tuple[int, int, int, int]] = []
    threads_queued_ns: list[int] = []
    ends: list[tuple[int, int]] = []
    usage: _Usage | None = None
    inputs: list[tuple[int, int, int, int]] = []
    labels: list[tuple[int, int]] = []
    repeated: list[tuple[int, int, int, int, int]] = []

    @property
    def own(self) -> list[Look]:
        """Looks at the thread that is followed."""
        unknown = [-1] * len(self.samples)
        rows = zip(self.samples, self.cpu_ns or unknown, self.queued_ns or unknown, strict=True)
        return [
            Look(self.tid, when, cpu_ns, queued_ns, stack)
            for (when, stack), cpu_ns, queued_ns in rows
        ]

    @property
    def others(self) -> list[Look]:
        """Looks at all other threads."""
        queued = self.threads_queued_ns or [-1] * len(self.threads)
        rows = zip(self.threads, queued, strict=True)
        return [Look(*row[:3], queued_ns, row[3]) for row, queued_ns in rows]

    @property
    def turns(self) -> Turns | None:
        """The threads that end steps by turns; None if it is always the one that is followed."""
        if not self.ends:
            return None
        waiting = [waits_in(frames[0] if frames else "") for frames in self.stacks]
        return turns(self.own + self.others, self.ends, self.tid, waiting.__getitem__)


def read(raw: Raw) -> Sampled | None:
    """Return the samples beside the trace `raw`; None where there are none."""
    path = raw.path.with_name(raw.path.name.partition(_OF_TRACE)[0] + SUFFIX)
    return _decoded(path) if path.is_file() else None


def _decoded(path: Path) -> Sampled:
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Sampled)
        for look in (*found.own, *found.others):
            found.stacks[look.stack]
    except (msgspec.MsgspecError, IndexError, ValueError) as error:
        raise InputError(f"{path}: not samples of profkit: {error}") from None
    return found


def tables(raw: Raw, read: Sampled | None, in_turns: Turns | None) -> dict[str, pa.Table]:
    """Return what was `read` as tables, empty ones of nothing."""
    if read is None:
        return {name: schema.empty(name) for name in TABLES}
    steps, usage = steps_of(raw), read.usage
    own, others = (in_turns.own, in_turns.others) if in_turns else (read.own, read.others)
    own = [look._replace(tid=read.tid) for look in own]
    times_ns = np.array([look.time_ns for look in own], dtype=np.int64)
    are_inside = _are_inside(times_ns, steps)
    rows: dict[str, Sequence[tuple[int, ...]]] = {
        "python_samples": [
            look for look, is_inside in zip(own, are_inside, strict=True) if is_inside
        ],
        "between_steps": [(read.tid, spent_ns, stack) for stack, spent_ns in _between(own, steps)],
        "python_threads": others,
        "python_pauses": [(read.tid, start, end) for start, end in read.pauses],
        # How long a step is that others run beside says nothing of what it does.
        "sampled_steps": [
            (step, start, end)
            for step, (start, end) in enumerate(steps.tolist())
            if not in_turns or in_turns.are_alone
        ],
        "processes": [msgspec.structs.astuple(usage)] if usage else [],
        "padded_inputs": read.inputs,
        "given_labels": read.labels,
        "repeated_inputs": read.repeated,
    }
    # Frames are written from the innermost.
    stacks = [joined(reversed(frames)) for frames in read.stacks]
    made = {name: _table(name, raw, rows[name], stacks) for name in rows}
    return made | {"worker_samples": _of_workers(raw)}


def _of_workers(raw: Raw) -> pa.Table:
    """Return where each worker that wrote beside the trace was, and how often."""
    rows: list[tuple[int, int, str]] = []
    for path in sorted(raw.path.parent.glob(f"{raw.label}.*{OF_WORKER}")):
        read, pid = _decoded(path), path.name.removesuffix(OF_WORKER).rpartition(".")[2]
        if not pid.isdigit():
            continue
        looks = Counter(stack for _, stack in read.samples)
        stacks = {number: joined(reversed(read.stacks[number])) for number in looks}
        rows += [(int(pid), count, stacks[number]) for number, count in looks.items()]
    columns = {name: [row[at] for row in rows] for at, name in enumerate(("pid", "looks", "stack"))}
    where = {"rank": [raw.rank] * len(rows), "repeat": [raw.repeat] * len(rows)}
    return schema.table("worker_samples", {**where, **columns})


def _are_inside(times_ns: NDArray[np.int64], steps: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell which instants are inside a step: none of an evaluation, nor of the program's exit."""
    if not len(steps):
        return np.ones(len(times_ns), dtype=np.bool_)
    return step_of(times_ns, steps) >= 0


def _between(own: Sequence[Look], steps: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return the stacks that were seen between steps, and the time in ns that each stands for.

    A look is dearer where much runs, so that the looks of one gap share its time.
    """
    gaps = np.column_stack((steps[:-1, 1], steps[1:, 0]))
    gap = step_of(np.array([look.time_ns for look in own], dtype=np.int64), gaps)
    seen = gap >= 0
    looks = np.bincount(gap[seen], minlength=len(gaps))
    stack = np.array([look.stack for look in own], dtype=np.int64)[seen]
    share_ns = ((gaps[:, 1] - gaps[:, 0]) / np.maximum(looks, 1))[gap[seen]]
    spent_ns = np.bincount(stack, weights=share_ns)
    return [(int(number), round(spent_ns[number])) for number in np.unique(stack)]


def _table(name: str, raw: Raw, rows: Sequence[tuple[int, ...]], stacks: list[str]) -> pa.Table:
    """Return `rows` as the table `name`, whose columns after rank and repeat they have."""
    names = [column for column in schema.TABLES[name].names if column not in {"rank", "repeat"}]
    columns: dict[str, list[int] | list[str]] = {
        column: [row[position] for row in rows] for position, column in enumerate(names)
    }
    if "stack" in columns:
        columns["stack"] = [stacks[row[-1]] for row in rows]
    where = {"rank": [raw.rank] * len(rows), "repeat": [raw.repeat] * len(rows)}
    return schema.table(name, {**where, **columns})
