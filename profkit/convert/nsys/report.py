"""The columns of one report, by what they are, whichever version exported them."""

import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from profkit.convert.columns.values import LATEST_NS
from profkit.convert.nsys.faults import Faults
from profkit.convert.nsys.store import Ints, Store
from profkit.core.errors import InputError
from profkit.core.formatting import agreeing, shortened

KNOWN_SCHEMA = 3
"""Newest generation of the export's layout that was seen; later ones are read all the same."""

_PUSH_POP, _START_END = (59, 70), (60, 71)
_MARKS, _DOMAIN = (34, 65), 75
# As nsys 2023.4 exports what --python-sampling recorded: a mark for each sample, without its stack.
_PYTHON_SAMPLES = "Python Backtrace"
_OF_PYTORCH = re.compile(
    r"\b(?:at|aten|c10|c10d)::|libtorch|torch/(?:lib|_C|csrc)|pt_main_thread|\btriton_"
)
_ASKING = tuple(f"cu{da}{what}" for da in ("da", "") for what in ("Launch", "Memcpy", "Memset"))
"""How calls begin that ask a GPU for work."""

_WARNINGS = (2, 3)
"""Severity of warnings and errors among what nsys says of a recording."""
_OF_CUDA = re.compile(r"CUDA|CUPTI|\bGPU")
_TOO_NEW = re.compile(r"driver version .* is not supported")
_LONGEST, _MOST_QUOTED = 200, 3

_LOW = (1 << 24) - 1
_MOST_PROCESSES = 1_000
_WORK = ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE")
_WITHOUT_TIME = "{path}: table {table} has no column {lacking}: its layout is of an unknown version"


def work_table(kind: str) -> str:
    """Return the name of CUPTI's table of one kind of activity."""
    return f"CUPTI_ACTIVITY_KIND_{kind}"


@dataclass(frozen=True, kw_only=True)
class Report:
    """One exported report; rows of a table are positions in its columns."""

    store: Store
    path: Path
    """What the user calls it."""
    notes: list[str] = field(default_factory=list)
    """What a reader of the tables should know."""
    faults: Faults = field(default_factory=Faults)
    """What is wrong with the report."""
    nameless: set[int] = field(default_factory=set)
    """Numbers of texts that were asked for and are not there."""

    @cached_property
    def strings(self) -> dict[int, str]:
        """Texts by their number."""
        numbers = self.store.ints("StringIds", ["id"])["id"]
        texts = self.store.texts("StringIds", "value")
        pairs = {*zip(numbers.tolist(), texts, strict=True)}
        found = dict(pairs)
        self.faults.note(
            len(pairs) - len(found), "id[s] of StringIds [has|have] another text as well."
        )
        return found

    @cached_property
    def base_ns(self) -> int:
        """Unix time of the moment that all times are relative to; 0 if it is not stated."""
        epoch = self.store.ints("TARGET_INFO_SESSION_START_TIME", ["utcEpochNs"])["utcEpochNs"]
        stated = int(epoch[0]) if len(epoch) else -1
        absurd = not 0 <= stated < LATEST_NS
        what = "absurd" if len(epoch) else "not stated"
        self.faults.note(int(absurd), f"start of the recording is {what}: times count from 0.")
        return 0 if absurd else stated

    @cached_property
    def metadata(self) -> dict[str, str]:
        """What the exporter says of itself."""
        table = next((n for n in ("META_DATA_EXPORT", "EXPORT_META_DATA") if self.has(n)), "")
        names, values = (self.store.texts(table, column) for column in ("name", "value"))
        return dict(zip(names, values, strict=True))

    def has(self, table: str) -> bool:
        """Return whether the report has this table."""
        return table in self.store.tables

    def columns(self, table: str, *names: str) -> dict[str, Ints]:
        """Return whole-number columns of the rows that have a time, if one is asked for.

        Raises `InputError` if that is absent.
        """
        read = self.all_rows(table, *names)
        rows = self.faults.timed(table, read, ends_late=not table.startswith("CUPTI"))
        return {name: column[rows] for name, column in read.items()}

    def all_rows(self, table: str, *names: str) -> dict[str, Ints]:
        """Return the same of all rows, so that their texts are in the same order."""
        needed = {"start", "end", "timestamp"} & set(names)
        if self.has(table) and (lacking := needed - self.store.tables[table]):
            raise InputError(
                _WITHOUT_TIME.format(path=self.path, table=table, lacking=min(lacking)),
                hint="update profkit, or export with an older nsys",
            )
        present = self.store.tables.get(table, frozenset())
        return self.faults.plausible(table, self.store.ints(table, names), present)

    def named(self, numbers: Ints) -> list[str]:
        """Return the texts with these numbers, "" for those that are not there."""
        unknown = set(numbers[numbers >= 0].tolist()) - self.strings.keys()
        self.nameless.update(unknown)
        return [self.strings.get(number, "") for number in numbers.tolist()]

    @cached_property
    def nvtx(self) -> "Nvtx":
        """Ranges, marks and domains."""
        return Nvtx(report=self)

    @cached_property
    def last_ns(self) -> int:
        """End of the last event, which ranges that were never closed end with."""
        spans = [*map(work_table, (*_WORK, "RUNTIME")), "OSRT_API", "NVTX_EVENTS"]
        read = [self.columns(table, "start", "end") for table in spans if self.has(table)]
        # Samples may be all that was recorded.
        read += [
            self.columns("COMPOSITE_EVENTS", "start"),
            self.columns("GPU_METRICS", "timestamp"),
        ]
        times = [column for columns in read for column in columns.values() if len(column)]
        return max((int(column.max()) for column in times), default=0)

    @cached_property
    def working_pids(self) -> Ints:
        """Processes with work on a device, by device and by their number."""
        pids, devices = [], []
        for kind in _WORK:
            table = work_table(kind)
            rows = self.store.ints(table, ["globalPid", "deviceId"])
            pids.append(pid_of(rows["globalPid"]))
            devices.append(rows["deviceId"])
        pid, device = np.concatenate(pids), np.concatenate(devices)
        own = np.unique(pid)
        if len(own) > _MOST_PROCESSES:
            raise InputError(
                f"{self.path}: refused: {len(own):,} processes work on devices in it",
                hint="the numbers of its processes are damaged; export it again",
            )
        first = {one: int(device[pid == one].min()) for one in own.tolist()}
        return np.array(sorted(first, key=lambda one: (first[one], one)), dtype=np.int64)

    def fault_notes(self) -> list[str]:
        """Return what was found to be wrong, once all is read."""
        notes = [
            agreeing(
                count,
                "{} value[s] of {column} [is no whole number|are no whole numbers]: unknown.",
                column=column,
            )
            for column, count in self.store.no_numbers.items()
        ]
        notes += [
            agreeing(
                count,
                "{} value[s] of {column} [is no text|are no texts] in UTF-8: shown in part.",
                column=column,
            )
            for column, count in self.store.no_texts.items()
        ]
        if self.nameless:
            where = "holds no such text" if self.has("StringIds") else "is missing"
            missing = f"{{}} name[s] [is|are] blank: the table StringIds {where}."
            notes.append(agreeing(len(self.nameless), missing))
        return notes + self.faults.notes()

    def check(self) -> None:
        """Note what is unusual about the whole report."""
        major = self.metadata.get("EXPORT_SCHEMA_VERSION_MAJOR", "")
        if major.isdecimal() and int(major) > KNOWN_SCHEMA:
            self.notes.append(
                f"Exported with layout {major}, newer than {KNOWN_SCHEMA}, which profkit knows:"
                " tables that were renamed are missing here."
            )
        # An export with --lazy=false has the tables of what was not recorded, without rows.
        columns = self.store.ints(work_table("RUNTIME"), ["correlationId", "nameId"])
        calls = columns["correlationId"]
        works = len(self.working_pids) > 0
        asks = any(name.startswith(_ASKING) for name in self.named(columns["nameId"]))
        if not works:
            why = "CUDA was not recorded"
            if asks:
                why = "CUDA calls were recorded, but not the work of the GPU"
            elif len(calls):
                why = "CUDA was traced, and either no GPU was used or the report was cut short"
            self.notes.append(f"The report holds no kernel, copy or set: {why}.")
            self.notes.extend(self._said_of_cuda())
        if (works or asks) and self.strings and not any(map(_is_of_pytorch, self.strings.values())):
            self.notes.append("PyTorch was not found in the report: advice on it is left out.")
        self._check_launches(calls)
        stated = self.store.ints("ANALYSIS_DETAILS", ["duration", "stopTime"])
        # Versions count the stop from the start of the recording, or of the machine.
        stop = max((int(column.max()) for column in stated.values() if len(column)), default=-1)
        if 0 < stop < self.last_ns:
            self.notes.append(
                f"Events end {(self.last_ns - stop) / 1e9:.3g} s after the recording did: the file"
                " is damaged, or was edited."
            )
        if count := self.nvtx.domains_of(self.nvtx.marks).count(_PYTHON_SAMPLES):
            self.notes.append(
                f"{count} Python stacks were sampled, which nsys shows in its window and does not"
                " export: for those in this report sample with +tool=py_spy."
            )

    def _said_of_cuda(self) -> list[str]:
        """Return what nsys itself says of why it recorded no work of a GPU, a sentence at most."""
        table = "DIAGNOSTIC_EVENT"
        severity = self.store.ints(table, ["severity"])["severity"].tolist()
        texts = self.store.texts(table, "text")
        said = [
            shortened(" ".join(text.split()), _LONGEST)
            for grade, text in zip(severity, texts, strict=True)
            if grade in _WARNINGS and _OF_CUDA.search(text) and not text.endswith("?")
        ]
        if not said:
            return []
        quoted = "; ".join(dict.fromkeys(said[:_MOST_QUOTED]))
        newer = ": record with a newer nsys" if _TOO_NEW.search(quoted) else ""
        return [f"nsys says of CUDA: {quoted.rstrip('.')}{newer}."]

    def _check_launches(self, calls: Ints) -> None:
        """Note it if no work on devices can be tied to the call that launched it.

        `calls` are the correlation ids of all calls.
        """
        read = [self.store.ints(work_table(kind), ["correlationId"]) for kind in _WORK]
        work = np.concatenate([columns["correlationId"] for columns in read])
        if len(work) and len(calls) and not np.isin(work[work > 0], calls).any():
            self.notes.append(
                "No kernel, copy or set has the correlationId of a call: what launched the work on"
                " devices, and in which step, is unknown."
            )


@dataclass(frozen=True, kw_only=True)
class Nvtx:
    """The table ``NVTX_EVENTS``."""

    report: Report

    @cached_property
    def columns(self) -> dict[str, Ints]:
        """Its whole-number columns."""
        names = ("start", "end", "eventType", "globalTid", "textId", "jsonTextId", "domainId")
        return self.report.all_rows("NVTX_EVENTS", *names)

    @cached_property
    def texts(self) -> list[str]:
        """Text of each row: its own, or the registered one."""
        own = self.report.store.texts("NVTX_EVENTS", "text")
        registered = self.report.named(self.columns["textId"])
        return [text or other for text, other in zip(own, registered, strict=True)]

    @cached_property
    def payloads(self) -> list[str]:
        """JSON of each row's payload; "" if it has none."""
        own = self.report.store.texts("NVTX_EVENTS", "jsonText")
        registered = self.report.named(self.columns["jsonTextId"])
        return [text or other for text, other in zip(own, registered, strict=True)]

    @cached_property
    def domains(self) -> dict[tuple[int, int], str]:
        """Names of domains by process and number."""
        rows = self._of((_DOMAIN,))
        pids = pid_of(self.columns["globalTid"][rows]).tolist()
        numbers = self.columns["domainId"][rows].tolist()
        return {
            key: self.texts[row]
            for key, row in zip(zip(pids, numbers, strict=True), rows.tolist(), strict=True)
        }

    @property
    def ranges(self) -> Ints:
        """Rows that are ranges."""
        return self._timed((*_PUSH_POP, *_START_END), "ranges in NVTX_EVENTS")

    @property
    def marks(self) -> Ints:
        """Rows that are marks."""
        return self._timed(_MARKS, "marks in NVTX_EVENTS")

    def _timed(self, kinds: tuple[int, ...], what: str) -> Ints:
        rows = self._of(kinds)
        times = {name: self.columns[name][rows] for name in ("start", "end")}
        return rows[self.report.faults.timed(what, times, ends_late=True)]

    def _of(self, kinds: tuple[int, ...]) -> Ints:
        return np.flatnonzero(np.isin(self.columns["eventType"], kinds))

    def domains_of(self, rows: Ints) -> list[str]:
        """Return the name of the domain of each of `rows`, "" for the default one."""
        pids = pid_of(self.columns["globalTid"][rows]).tolist()
        numbers = self.columns["domainId"][rows].tolist()
        return [self.domains.get(key, "") for key in zip(pids, numbers, strict=True)]

    def across_threads(self, rows: Ints) -> NDArray[np.bool_]:
        """Return whether each of `rows` is a range that may end on another thread."""
        return np.isin(self.columns["eventType"][rows], _START_END)


def pid_of(global_id: Ints) -> Ints:
    """Return the process in a ``globalPid`` or ``globalTid``; -1 if there is none."""
    return np.where(global_id < 0, -1, (global_id >> 24) & _LOW)


def tid_of(global_tid: Ints) -> Ints:
    """Return the thread in a ``globalTid``; -1 if there is none."""
    return np.where(global_tid < 0, -1, global_tid & _LOW)


def _is_of_pytorch(text: str) -> bool:
    """Tell whether only a program of PyTorch has this text: variables of a shell name much else."""
    return "\0" not in text and _OF_PYTORCH.search(text) is not None
