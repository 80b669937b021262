"""Where the program's threads are in Python, looked at every few ms from inside the process."""

import dis
import gc
import itertools
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from os.path import normpath
from pathlib import Path
from types import CodeType, FrameType

from profkit.capture._core_usage import CoreUsage, Queues
from profkit.capture._model_inputs import ModelInputs
from profkit.core.atomic_write import write_atomically

_PERIOD_S = 0.004
_MOST_COST = 0.01
"""Share of the time that sampling may take: where a look takes long, it looks less often."""

_TURN_S = 0.00005
"""How long a look waits for the interpreter where no other thread runs: in more time the program
comes to a call that lets go of it, and is seen there."""

_BUSY = 0.1
_HANDOVER_S = 0.00002
_GROWTH = 1.5
_DEEPEST = 128
_MOST = 200_000
_MOST_THREADS = 8
_NEVER = (0, -1, -1, -1)
_OWN = "profkit "
"""Of the names of threads that are not the program's."""


_OLDEST = 2
"""Generation of the collector that holds all objects, which `gc.collect()` looks through."""

Position = tuple[int, int]
"""The `id` of the code that a frame runs, and the instruction: quicker to look up than a line."""


@dataclass(kw_only=True, slots=True)
class _Sampled:
    """What was seen until a trace ended, or after the last one."""

    samples: list[tuple[int, int, int, int]] = field(default_factory=list)
    others: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    pauses: list[tuple[int, int]] = field(default_factory=list)
    ends: list[tuple[int, int]] = field(default_factory=list)
    """When steps ended, and the thread that ended each, since one did that is not followed."""

    usage: dict[str, int] | None = None

    def add(self, after: "_Sampled") -> None:
        """Add what was seen `after` this."""
        self.samples += after.samples
        self.others += after.others
        self.pauses += after.pauses
        self.ends += after.ends


class PythonSamples:
    """Samples the stack of the thread that begins it, and notes the runs of the garbage collector.

    Times are Unix ns, as those of PyTorch's traces. What the thread does in C shows as the line
    that called it, and the name of what it called. What other Python threads do at the same
    instants is noted as well, as the program may wait for them. Steps after a trace are looked at
    as well: short ones are seen a few times each, and they are like those that were traced.
    """

    def __init__(self, ranks_on_host: int = 1) -> None:
        self._usage = CoreUsage(ranks_on_host)
        self.inputs = ModelInputs()
        self._follow_this_thread()
        self._is_done = self._is_paused = False
        self._cost_s = 0.0
        self._switch_s = 0.0
        self._is_turn_short = False
        self._before: dict[int, tuple[int, int, int, int]] = {}
        self._queues = Queues()
        self._stacks: dict[tuple[Position, ...], int] = {}
        # Two threads look, and what was counted before the other one added is no number.
        self._numbers = itertools.count()
        self._codes: dict[int, CodeType] = {}
        self._callees: dict[int, dict[int, str]] = {}
        self._sampled, self._all = _Sampled(), _Sampled()
        self._written: tuple[Path, _Sampled] | None = None
        self._looks = 0
        self._collecting_since = 0
        self._sampler = threading.Thread(target=self._sample, name="profkit samples", daemon=True)

    def _follow_this_thread(self) -> None:
        self._thread = threading.get_ident()
        self._known = {self._thread}
        self._enders: set[int] = set()
        self._tid = threading.get_native_id()

    def begin(self) -> None:
        """Start to sample."""
        self._follow_this_thread()
        self._usage.begin()
        gc.callbacks.append(self._collected)
        self._switch_s = sys.getswitchinterval()
        if sum(not one.name.startswith(_OWN) for one in threading.enumerate()) == 1:
            self._take_turns(are_others_busy=False)
        self._sampler.start()

    def step(self) -> None:
        """Note that this thread ended a step: it is not the same one in each, as of a server."""
        tid = threading.get_native_id()
        if tid != self._tid or self._enders:
            self._enders.add(tid)
            self._sampled.ends.append((time.time_ns(), tid))

    def end(self) -> None:
        """Sample no more; nothing is left running. What came after the last trace goes with it."""
        if self._sampler.is_alive():
            self._is_done = True
            self._sampler.join()
            self._queues.close()
            self._take_turns(are_others_busy=True)
        if self._collected in gc.callbacks:
            gc.callbacks.remove(self._collected)
        if self._written is not None:
            path, written = self._written
            written.add(self._sampled)
            self._save(written, path)
            self._written = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Look at nothing meanwhile: what is recorded is written, which is none of the program."""
        self._is_paused = True
        try:
            yield
        finally:
            self._is_paused = False

    def write(self, path: Path) -> None:
        """Write what was sampled since the last time, as JSON, and begin anew."""
        sampled, self._sampled = self._sampled, _Sampled()
        sampled.usage = self._usage.end() if sampled.samples else None
        self._save(sampled, path)
        self._written = path, sampled

    def write_all(self, path: Path) -> None:
        """Write all that was sampled so far, as JSON."""
        sampled, self._sampled = self._sampled, _Sampled()
        self._all.add(sampled)
        self._save(self._all, path)

    def _save(self, sampled: _Sampled, path: Path) -> None:
        # A look may add one meanwhile; a copy is made at once.
        stacks = {number: stack for stack, number in self._stacks.copy().items()}
        # A collection may begin while the sampler looks, and then has its row first.
        sampled.samples.sort()
        used = sorted({row[-1] for row in (*sampled.samples, *sampled.others)})
        position = {number: index for index, number in enumerate(used)}
        document = {
            "tid": self._tid,
            "cost_ns": round(self._cost_s * 1e9),
            "stacks": [self._labels(stacks[number]) for number in used],
            "samples": [[when, position[number]] for when, *_, number in sampled.samples],
            "cpu_ns": [row[1] for row in sampled.samples],
            "queued_ns": [row[2] for row in sampled.samples],
            "threads": [[*row[:3], position[row[-1]]] for row in sampled.others],
            "threads_queued_ns": [row[3] for row in sampled.others],
            "pauses": sampled.pauses,
            "ends": sampled.ends,
            "usage": sampled.usage,
            "inputs": self.inputs.padded.found,
            "labels": self.inputs.padded.labels,
            "repeated": self.inputs.repeated.counts(),
        }
        write_atomically(path, json.dumps(document).encode(), synced=False)

    def _sample(self) -> None:
        usual = _PERIOD_S * _MOST_COST
        while not self._is_done and self._looks < _MOST:
            if self._is_paused:
                time.sleep(_PERIOD_S)
                continue
            # From here to the sleep the program's threads can hardly run Python.
            began = time.thread_time()
            self._look(_current_frames())
            self._looks += 1
            cost = time.thread_time() - began + _HANDOVER_S
            self._cost_s += cost
            # One that happens to collect garbage is a thousand times as dear as the next.
            usual = min(cost, _GROWTH * usual)
            time.sleep(max(_PERIOD_S, usual / _MOST_COST))

    def _look(self, frames: dict[int, FrameType]) -> None:
        """Note where the program's thread is, and where other threads are that Python knows."""
        if frames.keys() <= self._known:
            self._look_at(frames.get(self._thread))
            self._take_turns(are_others_busy=False)
            return
        threads = []
        for thread in threading.enumerate():
            if thread.name.startswith(_OWN):
                self._known.add(thread.ident or 0)
            elif (tid := _native_id(thread)) is not None:
                threads.append((tid, thread.ident))
        # Once one has ended, another one may have its `ident`.
        threads.sort(key=lambda one: (one[0] == self._tid, one[0] in self._enders))
        most = _MOST_THREADS + 1
        now = time.time_ns()
        # Before where they are: one that runs meanwhile is looked at anew the next time.
        ran_ns = [_cpu_ns(tid) for tid, _ in threads[-most:]]
        frames = _current_frames()
        seen = [
            (tid, cpu_ns, self._stack(tid, cpu_ns, frames[ident]))
            for (tid, ident), cpu_ns in zip(threads[-most:], ran_ns, strict=True)
            if ident in frames
        ]
        # Since then no call let them go on: they are seen at one time.
        are_busy = len(threads) > most
        for tid, cpu_ns, number in seen:
            are_busy |= self._note(tid, now, cpu_ns, number)
        self._take_turns(are_others_busy=are_busy)

    def _look_at(self, frame: FrameType | None) -> None:
        """Note where the program's thread is."""
        number = self._number(frame)
        now = time.time_ns()
        # No call stands between finding the list and adding to it: it may be replaced there.
        row = now, _cpu_ns(self._tid), self._queues.waited_ns(self._tid), number
        self._sampled.samples.append(row)

    def _stack(self, tid: int, cpu_ns: int, frame: FrameType) -> int:
        """Return the number of a thread's stack.

        One that has not run is where it was: of many threads most wait, and a look costs more.
        """
        _, ran_ns, _, number = self._before.get(tid, _NEVER)
        return number if cpu_ns == ran_ns >= 0 else self._number(frame)

    def _note(self, tid: int, now: int, cpu_ns: int, number: int) -> bool:
        """Note where a thread was; say whether it is another one that had a core, or is new."""
        when, ran_ns, queued_ns, _ = self._before.get(tid, _NEVER)
        if ran_ns < 0 or cpu_ns != ran_ns:
            queued_ns = self._queues.waited_ns(tid)
        self._before[tid] = now, cpu_ns, queued_ns, number
        if tid == self._tid:
            self._sampled.samples.append((now, cpu_ns, queued_ns, number))
            return False
        self._sampled.others.append((tid, now, cpu_ns, queued_ns, number))
        return ran_ns < 0 or cpu_ns - ran_ns > _BUSY * (now - when)

    def _take_turns(self, *, are_others_busy: bool) -> None:
        """Let threads take turns as the program has it, or more often where no other one runs.

        Else a look waits for up to 5 ms, and sees where the program lets go of the interpreter.
        Of threads that do compete it would change what they wait for.
        """
        if self._is_turn_short == are_others_busy:
            self._is_turn_short = not are_others_busy
            sys.setswitchinterval(self._switch_s if are_others_busy else _TURN_S)

    def _number(self, frame: FrameType | None) -> int:
        """Return the number of a stack."""
        return self._stacks.setdefault(self._positions(frame), next(self._numbers))

    def _positions(self, frame: FrameType | None) -> tuple[Position, ...]:
        """Return where the frames are, from the innermost, of which the outermost may lack."""
        found: list[Position] = []
        with _no_collection():
            if frame is not None and frame.f_code is PythonSamples._collected.__code__:
                frame = frame.f_back
            while frame is not None and len(found) < _DEEPEST:
                code = frame.f_code
                # A code that lives cannot lend its `id` to another one.
                self._codes[id(code)] = code
                found.append((id(code), frame.f_lasti))
                frame = frame.f_back
        return tuple(found)

    def _labels(self, stack: tuple[Position, ...]) -> list[str]:
        """Return a stack from what the innermost frame called in C, if it did."""
        called = self._called(*stack[0]) if stack else ""
        return [*([called] if called else []), *(self._label(*position) for position in stack)]

    def _label(self, code_id: int, instruction: int) -> str:
        """Return the frame as PyTorch's traces write one: file, line and function."""
        code = self._codes[code_id]
        return f"{_short(code.co_filename)}({_line(code, instruction)}): {code.co_name}"

    def _called(self, code_id: int, instruction: int) -> str:
        """Return the function that an instruction calls, as PyTorch's traces have one in C."""
        if code_id not in self._callees:
            self._callees[code_id] = _callees(self._codes[code_id])
        name = self._callees[code_id].get(instruction, "")
        return f"<built-in function {name}>" if name else ""

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        # Those of young objects are short and many: looks at them would be most of all.
        is_full = info["generation"] == _OLDEST
        if is_full and threading.get_ident() == self._thread and self._looks < _MOST:
            # The sampler cannot look meanwhile: who asked for the collection is seen from here.
            self._look_at(sys._getframe())  # noqa: SLF001 - documented
        now = time.time_ns()
        if phase == "start":
            self._collecting_since = now
        elif self._collecting_since and len(self._sampled.pauses) < _MOST:
            self._sampled.pauses.append((self._collecting_since, now))
            self._collecting_since = 0


def _native_id(thread: threading.Thread) -> int | None:
    """Return the number that the system has for a thread; of one that has not begun None.

    In a fork, older versions of Python give the main thread the number that it has in the parent.
    """
    is_main = sys.platform == "linux" and thread is threading.main_thread()
    return os.getpid() if is_main else thread.native_id


@contextmanager
def _no_collection() -> Iterator[None]:
    """Let no collection of garbage begin meanwhile.

    Python 3.11 makes a frame object when it is asked for, which may begin a collection. Callbacks
    of that let other threads run: a frame that ends meanwhile is still read, and the process dies.
    """
    is_collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_collecting:
            gc.enable()


def _current_frames() -> dict[int, FrameType]:
    with _no_collection():
        return sys._current_frames()  # noqa: SLF001 - documented


def _line(code: CodeType, instruction: int) -> int:
    """Return the line of the program that an instruction belongs to."""
    lines = (line for start, end, line in code.co_lines() if start <= instruction < end)
    return next(lines, None) or code.co_firstlineno


def _short(path: str) -> str:
    """Return a path from the folder of packages that it lies in, as PyTorch's traces have it."""
    # A script that is started as ../train.py has these dots in its path, and in that of its folder.
    path = normpath(path)
    folders = [normpath(folder) for folder in sys.path if folder]
    parents = [folder for folder in folders if path.startswith(f"{folder}/")]
    return path[len(max(parents, key=len)) + 1 :] if parents else path


def _callees(code: CodeType) -> dict[int, str]:
    """Return by instruction what it calls, where that has a name; a ``with`` calls ``__enter__``.

    What is called is the name that was loaded last of those that begin where the call begins.
    """
    named: dict[tuple[int | None, int | None], str] = {}
    found: dict[int, str] = {}
    for instruction in dis.get_instructions(code):
        where = instruction.positions
        begins = (where.lineno, where.col_offset) if where else (None, None)
        if instruction.opname == "BEFORE_WITH":
            found[instruction.offset] = "__enter__"
        elif instruction.opname.startswith(("CALL", "PRECALL")):
            found[instruction.offset] = named.get(begins, "")
        elif instruction.opname.startswith("LOAD_"):
            named[begins] = str(instruction.argval)
    return found


def _cpu_ns(tid: int) -> int:
    """Return how long a thread of this process had a core so far, -1 if that is unknown."""
    if sys.platform != "linux":
        return -1
    try:
        # What `pthread_getcpuclockid` makes of a thread, which must not have ended for that.
        return time.clock_gettime_ns((~tid << 3) | 6)
    except OSError:
        return -1
