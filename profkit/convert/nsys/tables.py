"""The tables of one report: from the linker that all traces share, and what only nsys has."""

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from profkit.convert.linking.doubtful import doubtful
from profkit.convert.linking.impossible import of_devices
from profkit.convert.linking.linker import Linker
from profkit.convert.linking.origin import Origin
from profkit.convert.linking.steps import StepSpans
from profkit.convert.nsys.callchains import sampled_stacks
from profkit.convert.nsys.gathered import Rows
from profkit.convert.nsys.messages import with_messages
from profkit.convert.nsys.names import LIBRARIES
from profkit.convert.nsys.ranks import ranks
from profkit.convert.nsys.report import Report, pid_of, tid_of
from profkit.convert.nsys.steps import steps
from profkit.convert.nsys.store import UNKNOWN, Ints
from profkit.core.formatting import agreeing

LINKED = (
    "steps",
    "cpu_ops",
    "kernels",
    "runtime_calls",
    "annotations",
    "python_calls",
    "collectives",
    "memory_events",
    "synchronisations",
)
"""Tables that reports and PyTorch's traces have alike."""

PRODUCED = (*LINKED, "os_calls", "samples", "sampled_stacks", "devices")
"""All tables of a report."""

_DEVICE = (1 << 8) - 1
_UNITS = (("%", "percent"), ("[mhz]", "mhz"), ("bytes/s", "bytes_per_s"))


def tables(report: Report, rank: int, repeat: int, folder: Path) -> dict[str, pa.Table]:
    """Return all tables; `rank` is that of the report, or of its first process.

    `folder` is where the report lies: the harness may have left steps beside it.
    """
    report.check()
    every = ranks(report, rank)
    parts: dict[str, list[pa.Table]] = defaultdict(list)
    for own in sorted(set(every.values())) or [rank]:
        rows = Rows(report=report, rank=own, ranks=every)
        origin = Origin(rank=own, repeat=repeat, base_ns=report.base_ns)
        for name, table in _OfRank(rows=rows, origin=origin, folder=folder).tables().items():
            parts[name].append(table)
    return {name: pa.concat_tables(parts[name]) for name in PRODUCED}


@dataclass(frozen=True, kw_only=True)
class _OfRank:
    """The tables of one rank."""

    rows: Rows
    origin: Origin
    folder: Path

    def tables(self) -> dict[str, pa.Table]:
        """Return all of them."""
        report = self.rows.report
        found = steps(self.rows, self.folder)
        linker = Linker(gathered=self.rows.gathered(), origin=self.origin, given_steps=found)
        linked = linker.tables()
        if crossing := linker.operators.tree.crossing:
            report.notes.append(
                agreeing(
                    crossing,
                    f"{{}} range[s] of rank {self.rows.rank} end[s|] after the range around"
                    " [it|them]: asynchronous, without self time.",
                )
            )
        described = self._devices()
        report.notes.extend(of_devices(described, linker.work, alike=True))
        report.notes.extend(doubtful(linker.work))
        collectives = with_messages(linked["collectives"], linker.operators, self.rows)
        return {
            **{name: linked[name] for name in LINKED},
            "collectives": collectives,
            "os_calls": self._os_calls(found),
            "samples": self._samples(found),
            "sampled_stacks": self._stacks(),
            "devices": described,
        }

    def _os_calls(self, found: StepSpans) -> pa.Table:
        """Return the calls of all libraries, in order of time.

        They lie around calls of CUDA and inside operators, and so are neither.
        """
        report, rows = self.rows.report, self.rows.library_calls()
        # A call that the recording cut off ends with it.
        end = np.where(rows["end"] == UNKNOWN, report.last_ns, rows["end"])
        names = report.named(rows["name"])
        report.faults.note(names.count(""), "call[s] of libraries [has|have] no name: blank.")
        return self.origin.table(
            "os_calls",
            len(end),
            {
                "library": [LIBRARIES[table][0] for table in rows["table"].tolist()],
                "pid": pid_of(rows["globalTid"]),
                "tid": tid_of(rows["globalTid"]),
                "name": names,
                "start_ns": rows["start"] + report.base_ns,
                "end_ns": np.maximum(end, rows["start"]) + report.base_ns,
                "step": found.at(rows["start"]),
            },
        )

    def _stacks(self) -> pa.Table:
        columns = sampled_stacks(self.rows)
        return self.origin.table("sampled_stacks", len(columns["stack"]), columns)

    def _samples(self, found: StepSpans) -> pa.Table:
        """Return the counters of GPUs; those that a rank works on, or all if that is unknown."""
        report = self.rows.report
        read = report.columns("GPU_METRICS", "timestamp", "typeId", "metricId", "value")
        report.faults.repeated("GPU_METRICS", read)
        names = ("typeId", "metricId")
        known = report.store.ints("TARGET_INFO_GPU_METRICS", names)
        texts = report.store.texts("TARGET_INFO_GPU_METRICS", "metricName")
        keys = zip(*(known[name].tolist() for name in names), strict=True)
        metrics = dict(zip(keys, texts, strict=True))
        device = read["typeId"] & _DEVICE
        rows = np.flatnonzero(self._works_on(device))
        order = rows[np.argsort(read["timestamp"][rows], kind="stable")]
        chosen = zip(*(read[name][order].tolist() for name in names), strict=True)
        labels = [metrics.get(key) or f"metric {key[1]}" for key in chosen]
        recorded = set(zip(*(read[name].tolist() for name in names), strict=True))
        nameless = recorded - {key for key, name in metrics.items() if name}
        report.faults.note(len(nameless), "metric[s] of GPU_METRICS [has|have] no name: numbered.")
        report.faults.counted(read["value"][order], labels)
        gpus = report.store.ints("TARGET_INFO_GPU", ["id"])["id"]
        strange = ~np.isin(device, gpus) if len(gpus) else np.zeros(len(device), dtype=np.bool_)
        report.faults.note(
            int(strange.sum()),
            "counter[s] [is of a GPU that is|are of GPUs that are] not described.",
        )
        return self.origin.table(
            "samples",
            len(order),
            {
                "time_ns": read["timestamp"][order] + report.base_ns,
                "device": [f"gpu{number}" for number in device[order].tolist()],
                "metric": labels,
                "kind": ["level"] * len(order),
                "value": read["value"][order].astype(np.float64),
                "unit": [_unit(label) for label in labels],
                "step": found.at(read["timestamp"][order]),
            },
        )

    def _works_on(self, device: Ints) -> Any:
        """Return whether this rank works on each device, by the driver's numbers."""
        report = self.rows.report
        mapped = report.store.ints("TARGET_INFO_CUDA_DEVICE", ["gpuId", "pid"])
        pids = [pid for pid, rank in self.rows.ranks.items() if rank == self.rows.rank]
        own = mapped["gpuId"][np.isin(mapped["pid"], pids)]
        several = len(set(self.rows.ranks.values())) > 1
        return (
            np.isin(device, own) if several and len(own) else np.ones(len(device), dtype=np.bool_)
        )

    def _devices(self) -> pa.Table:
        store = self.rows.report.store
        names = ["id", "totalMemory", "smCount", "maxWarpsPerSm", "threadsPerWarp"]
        names += ["maxRegistersPerSm", "maxShmemPerSm", "computeMajor", "computeMinor"]
        gpus = self.rows.report.all_rows("TARGET_INFO_GPU", *names)
        wanted = self._device_numbers(gpus["id"])
        rows = np.array([row for row in range(len(gpus["id"])) if row in wanted], dtype=np.int64)
        text = store.texts("TARGET_INFO_GPU", "name")
        gpus = {name: column[rows] for name, column in gpus.items()}
        major, minor = gpus["computeMajor"].tolist(), gpus["computeMinor"].tolist()
        threads = np.where(
            (gpus["maxWarpsPerSm"] > 0) & (gpus["threadsPerWarp"] > 0),
            gpus["maxWarpsPerSm"] * gpus["threadsPerWarp"],
            -1,
        )
        return self.origin.table(
            "devices",
            len(rows),
            {
                "device": [wanted[row] for row in rows.tolist()],
                "name": [text[row] for row in rows.tolist()],
                "capability": [
                    f"{a}.{b}" if a >= 0 else "" for a, b in zip(major, minor, strict=True)
                ],
                "memory_bytes": gpus["totalMemory"],
                "processors": gpus["smCount"],
                "threads_per_processor": threads,
                "warp_threads": gpus["threadsPerWarp"],
                "registers_per_processor": gpus["maxRegistersPerSm"],
                "shared_memory_bytes": gpus["maxShmemPerSm"],
            },
        )

    def _device_numbers(self, gpu: Ints) -> dict[int, int]:
        """Return the number that CUDA gives the device in each row of ``TARGET_INFO_GPU``."""
        mapped = self.rows.report.all_rows("TARGET_INFO_CUDA_DEVICE", "gpuId", "cudaId", "pid")
        pids = [pid for pid, rank in self.rows.ranks.items() if rank == self.rows.rank]
        own = np.isin(mapped["pid"], pids) | (mapped["pid"] < 0)
        strange = int((~np.isin(mapped["gpuId"], gpu)).sum())
        self.rows.report.faults.note(
            strange, "device[s] of CUDA [is a GPU that is|are GPUs that are] not described."
        )
        numbers = dict(
            zip(mapped["gpuId"][own].tolist(), mapped["cudaId"][own].tolist(), strict=True)
        )
        found = {row: numbers.get(number, -1) for row, number in enumerate(gpu.tolist())}
        if not numbers:
            return dict(enumerate(gpu.tolist()))
        return {row: number for row, number in found.items() if number >= 0}


def _unit(metric: str) -> str:
    lower = metric.lower()
    return next((unit for word, unit in _UNITS if word in lower), "count")
