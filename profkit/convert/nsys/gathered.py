"""The rows of one rank, as the columns that traces of PyTorch are gathered into.

So one linker serves both: launches, steps, operators and modules are tied together the same way
for both recorders.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profkit.convert.columns.numbering import Column
from profkit.convert.linking.gathered import ANNOTATION, COPY, KERNEL, OPERATOR, SET, Gathered
from profkit.convert.nsys.names import (
    LIBRARIES,
    MEMORY_KINDS,
    SYNCHRONISATIONS,
    direction,
    frame,
    function,
    nvtx_range,
)
from profkit.convert.nsys.ranks import belongs
from profkit.convert.nsys.report import Report, pid_of, tid_of, work_table
from profkit.convert.nsys.store import UNKNOWN, Ints
from profkit.core.formatting import agreeing

MODULE = "nn.Module: "
"""What the ranges of profkit around modules begin with."""

OWN_DOMAIN = "profkit"
"""Domain of the ranges of profkit, but not in captures of its first versions."""

_FUNCTIONS_DOMAIN = "nvtx.py"
_CUDA = 1
_FREED = 1
_GRAPH_LIMIT = 1 << 31


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The rows of one rank in a report."""

    report: Report
    rank: int
    ranks: dict[int, int]
    """Rank of each process that is one."""

    def gathered(self) -> Gathered:
        """Return its rows as the columns that `profkit.convert.linking` ties together."""
        into = Gathered()
        for kind in (KERNEL, COPY, SET):
            self._work(into, kind)
        self._graphs(into)
        self._calls(into)
        self._ranges(into)
        self._waits(into)
        self._memory(into)
        return into

    def mine(self, global_id: Ints) -> Ints:
        """Return the rows, by their ``globalPid`` or ``globalTid``, that are of this rank."""
        return np.flatnonzero(belongs(pid_of(global_id), self.rank, self.ranks))

    def _own(self, table: str, *names: str, by: str = "globalPid") -> dict[str, Ints]:
        columns = self.report.columns(table, by, *names)
        if table in LIBRARIES:
            self.report.faults.repeated(table, columns)
        rows = self.mine(columns[by])
        return {name: column[rows] for name, column in columns.items()}

    def library_calls(self) -> dict[str, NDArray[Any]]:
        """Return calls of libraries: start, end, globalTid, number of the name, and their table."""
        parts = []
        for table, (_, naming) in LIBRARIES.items():
            read = self._own(table, "start", "end", naming, by="globalTid")
            read["name"] = read.pop(naming)
            parts.append(read | {"table": np.full(len(read["start"]), table)})
        joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        order = np.argsort(joined["start"], kind="stable")
        return {name: column[order] for name, column in joined.items()}

    def ranges_of_rank(self) -> Ints:
        """Return the rows of NVTX ranges of this rank but those that profkit steers nsys with."""
        nvtx = self.report.nvtx
        rows = nvtx.ranges
        rows = rows[belongs(pid_of(nvtx.columns["globalTid"][rows]), self.rank, self.ranks)]
        own = np.array([domain == OWN_DOMAIN for domain in nvtx.domains_of(rows)], dtype=np.bool_)
        # Steps, phases and modules all begin and end on one thread.
        return rows[~(own & nvtx.across_threads(rows))]

    def ends(self, rows: Ints) -> Ints:
        """Return the ends of NVTX ranges; what was never closed ends with the report."""
        start, end = (self.report.nvtx.columns[name][rows] for name in ("start", "end"))
        return np.maximum(np.where(end == UNKNOWN, self.report.last_ns, end), start)

    def _ranges(self, into: Gathered) -> None:
        nvtx, rows = self.report.nvtx, self.ranges_of_rank()
        texts = [nvtx.texts[row] for row in rows.tolist()]
        functions = [domain == _FUNCTIONS_DOMAIN for domain in nvtx.domains_of(rows)]
        texts = [
            frame(text) if is_frame else text
            for text, is_frame in zip(texts, functions, strict=True)
        ]
        is_call = np.array(functions, dtype=np.bool_)
        is_call |= np.array([text.startswith(MODULE) for text in texts], dtype=np.bool_)
        tid = nvtx.columns["globalTid"][rows]
        spans = {
            "start": nvtx.columns["start"][rows],
            "end": self.ends(rows),
            "name": into.names.codes(texts),
            "pid": pid_of(tid),
            "tid": tid_of(tid),
        }
        into.put("python_calls", {name: column[is_call] for name, column in spans.items()})
        kept = np.flatnonzero(~is_call)
        into.put(
            "cpu_ops",
            {name: column[kept] for name, column in spans.items()}
            | _operators(into, [texts[row] for row in kept.tolist()]),
        )

    def _calls(self, into: Gathered) -> None:
        table = work_table("RUNTIME")
        names = ("start", "end", "nameId", "correlationId")
        rows = self._own(table, *names, by="globalTid")
        into.put(
            "runtime_calls",
            {
                "start": rows["start"],
                "end": np.maximum(rows["end"], rows["start"]),
                "name": into.names.codes(map(function, self.report.named(rows["nameId"]))),
                "pid": pid_of(rows["globalTid"]),
                "tid": tid_of(rows["globalTid"]),
                "correlation": rows["correlationId"],
            },
        )

    def _work(self, into: Gathered, kind: int) -> None:
        table = work_table({KERNEL: "KERNEL", COPY: "MEMCPY", SET: "MEMSET"}[kind])
        names = ["start", "end", "deviceId", "streamId", "correlationId", "graphId", "graphNodeId"]
        names += ["demangledName", "shortName", "registersPerThread", "bytes", "copyKind"]
        names += ["srcKind", "dstKind", "memKind", "staticSharedMemory", "dynamicSharedMemory"]
        names += ["migrationCause"]
        names += [f"{what}{axis}" for what in ("grid", "block") for axis in "XYZ"]
        rows = self._own(table, *names)
        naming = {KERNEL: self._kernel_names, COPY: self._copy_names, SET: self._set_names}
        directions = [direction(*one) for one in _kinds_of_copies(rows)]
        if kind == COPY:
            blank = directions.count("")
            self.report.faults.note(
                blank, "[copy is|copies are] of no known kind: without a direction."
            )
            self.report.faults.copied(rows)
        shared = [rows[name].clip(min=0) for name in ("staticSharedMemory", "dynamicSharedMemory")]
        into.put(
            "kernels",
            _work_columns(rows, kind)
            | {
                "name": into.names.codes(naming[kind](rows)),
                "size_bytes": rows["bytes"],
                "what": into.texts.codes(directions),
                "grid": into.texts.codes(_triples(rows, "grid")),
                "block": into.texts.codes(_triples(rows, "block")),
                "registers": rows["registersPerThread"],
                **({"shared_memory_bytes": shared[0] + shared[1]} if kind == KERNEL else {}),
            },
        )

    def _graphs(self, into: Gathered) -> None:
        """Add executions of whole CUDA graphs, which hide the kernels in them."""
        names = ("start", "end", "deviceId", "streamId", "correlationId", "graphId", "graphNodeId")
        rows = self._own(work_table("GRAPH_TRACE"), *names)
        if not len(rows["start"]):
            return
        self.report.notes.append(
            agreeing(
                len(rows["start"]),
                "{} execution[s] of CUDA graphs [was|were] recorded as one block[| each]: the"
                " kernels inside are not here; capture with cuda_graph_trace=node.",
            )
        )
        graphs = [f"CUDA graph {graph}" for graph in rows["graphId"].tolist()]
        columns = _work_columns(rows, KERNEL)
        into.put("kernels", columns | {"name": into.names.codes(graphs)})

    def _kernel_names(self, rows: dict[str, Ints]) -> list[str]:
        long, short = (self.report.named(rows[name]) for name in ("demangledName", "shortName"))
        return [name or other for name, other in zip(long, short, strict=True)]

    def _memory_kinds(self) -> dict[int, str]:
        table = "ENUM_CUDA_MEM_KIND"
        numbers = self.report.store.ints(table, ["id"])["id"].tolist()
        labels = self.report.store.texts(table, "label")
        return {**MEMORY_KINDS, **dict(zip(numbers, labels, strict=True))}

    def _copy_names(self, rows: dict[str, Ints]) -> list[str]:
        """Return names as PyTorch's traces have them: ``Memcpy HtoD (Pinned -> Device)``."""
        kinds = self._memory_kinds()
        ends = (rows[name].tolist() for name in ("srcKind", "dstKind"))
        return [
            f"Memcpy {direction(*kind)}".rstrip()
            + f" ({kinds.get(source, 'Unknown')} -> {kinds.get(target, 'Unknown')})"
            for kind, source, target in zip(_kinds_of_copies(rows), *ends, strict=True)
        ]

    def _set_names(self, rows: dict[str, Ints]) -> list[str]:
        kinds = self._memory_kinds()
        return [f"Memset ({kinds.get(number, 'Unknown')})" for number in rows["memKind"].tolist()]

    def _waits(self, into: Gathered) -> None:
        names = ("start", "end", "deviceId", "streamId", "correlationId", "syncType")
        rows = self._own(work_table("SYNCHRONIZATION"), *names)
        what = [SYNCHRONISATIONS.get(number, "Sync") for number in rows["syncType"].tolist()]
        # CUPTI's number for all streams.
        stream = np.where(rows["streamId"] >= _GRAPH_LIMIT, -1, rows["streamId"])
        into.put(
            "synchronisations",
            {
                "start": rows["start"],
                "end": np.maximum(rows["end"], rows["start"]),
                "name": into.names.codes(what),
                "device": rows["deviceId"],
                "stream": stream,
                "correlation": rows["correlationId"],
            },
        )

    def _memory(self, into: Gathered) -> None:
        """Add allocations by the driver; what it has given out is what allocators have reserved."""
        names = ("start", "deviceId", "address", "bytes", "memoryOperationType")
        rows = self._own("CUDA_GPU_MEMORY_USAGE_EVENTS", *names)
        unknown = int((rows["memoryOperationType"] > _FREED).sum())
        self.report.faults.note(
            unknown, "memory event[s] [is|are] of no known kind and count[s|] as allocating."
        )
        size = np.where(rows["memoryOperationType"] == _FREED, -rows["bytes"], rows["bytes"])
        order = np.argsort(rows["start"], kind="stable")
        reserved = np.empty(len(size), dtype=np.int64)
        for device in np.unique(rows["deviceId"]):
            of_device = order[rows["deviceId"][order] == device]
            reserved[of_device] = np.cumsum(size[of_device])
        into.put(
            "memory_events",
            {
                "start": rows["start"],
                "pid": pid_of(rows["globalPid"]),
                "device_type": np.full(len(size), _CUDA, dtype=np.int64),
                "device_id": rows["deviceId"],
                "size_bytes": size,
                "address": rows["address"],
                "reserved_bytes": reserved,
            },
        )


def _kinds_of_copies(rows: dict[str, Ints]) -> Iterator[tuple[int, int]]:
    """Return the kind of each copy, and why its pages moved where they did by themselves."""
    return zip(rows["copyKind"].tolist(), rows["migrationCause"].tolist(), strict=True)


def _work_columns(rows: dict[str, Ints], kind: int) -> dict[str, Column]:
    """Return the columns that all work on devices has but its name."""
    return {
        "start": rows["start"],
        "end": np.maximum(rows["end"], rows["start"]),
        "kind": np.full(len(rows["start"]), kind, dtype=np.int8),
        "device": rows["deviceId"],
        "stream": rows["streamId"],
        "correlation": rows["correlationId"],
        "graph": np.where(rows["graphId"] > 0, rows["graphId"], -1),
        "graph_node": np.where(rows["graphNodeId"] > 0, rows["graphNodeId"], -1),
    }


def _triples(rows: dict[str, Ints], what: str) -> list[str]:
    """Return the sizes along three axes as JSON lists, "" where they are unknown."""
    axes = zip(*(rows[f"{what}{axis}"].tolist() for axis in "XYZ"), strict=True)
    return [f"[{x},{y},{z}]" if x >= 0 else "" for x, y, z in axes]


def _operators(into: Gathered, texts: list[str]) -> dict[str, Column]:
    """Return what the texts of ranges say of operators of PyTorch."""
    distinct = {text: nvtx_range(text) for text in dict.fromkeys(texts)}
    ranges = [distinct[text] for text in texts]
    operator = np.array([span.is_operator for span in ranges], dtype=np.bool_)
    backward = np.array([span.is_backward for span in ranges], dtype=np.bool_)
    return {
        "name": into.names.codes(span.name for span in ranges),
        "kind": np.where(operator, OPERATOR, ANNOTATION).astype(np.int8),
        "sequence": np.array([span.sequence for span in ranges], dtype=np.int64),
        # Ranges do not say on which thread the forward operator ran, only that there was one.
        "forward_tid": np.where(backward, 1, -1).astype(np.int64),
        "input_shapes": into.texts.codes(span.sizes for span in ranges),
    }
