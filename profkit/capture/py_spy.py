"""py-spy: samples Python (and native) call stacks from outside the process."""

import argparse
import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar, Literal, NoReturn, Self

from profkit.capture.base import Problem, Rank, Wrapper, executable
from profkit.capture.harness.machine import permissions
from profkit.core.bounds import PositiveFloat, PositiveInt
from profkit.process import bounded_command

_SUFFIX = ".speedscope.json"
_PROCESS = re.compile(r"Process (\d+) Thread ")
_NUMBER_BYTES = 20
# The status of a shell for a program that cannot be started.
_NOT_STARTED = 127
_DUMP_TIMEOUT_S = 60
_DUMP_BYTES = 64 << 20
_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
# <linux/prctl.h>: "Yama" in ASCII, and any process.
_PR_SET_PTRACER = 0x59616D61
_PR_SET_PTRACER_ANY = -1
_FORWARDED = (signal.SIGTERM, signal.SIGHUP)

Dump = list[dict[str, Any]]
"""The threads of one dump, as py-spy describes them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Capture(Wrapper):
    """Look at each rank with ``py-spy record``, or now and then with ``py-spy dump``."""

    binary: ClassVar = "py-spy"
    install_hint: ClassVar = "pip install py-spy"
    outputs: ClassVar = (f"*{_SUFFIX}",)

    mode: Literal["record", "dump"] = "record"
    """Sample all the time, or dump all threads every `dump_period_s`, which costs next to nothing
    and shows where long runs wait."""

    rate: PositiveInt = 100
    """Samples per second of a recording; the process stands still for each one."""

    dump_period_s: PositiveFloat = 5.0
    """Seconds from dump to dump; each stops the process for some milliseconds."""

    native: bool = False
    """Show the C and C++ frames below Python's; each sample then costs several times more."""

    subprocesses: bool = False
    """Sample the processes that a rank starts as well, such as the workers of a DataLoader."""

    nonblocking: bool = False
    """Do not stop the process for a sample: cheaper, but a stack read while it changes is wrong."""

    gil: bool = False
    """Count only threads that hold the GIL."""

    idle: bool = False
    """Count threads that wait as well."""

    threads: bool = False
    """Tell threads apart in the output."""

    function: bool = False
    """Sum samples by function instead of by line."""

    full_filenames: bool = False
    """Show whole paths of source files."""

    extra: tuple[str, ...] = ()
    """Flags for ``py-spy record`` or ``dump``, passed through unread."""

    @classmethod
    def problems(cls) -> Iterator[Problem]:
        """See `Tool.problems`."""
        yield from super(Capture, cls).problems()
        yield from permissions.tracing()
        if sys.platform == "darwin" and os.geteuid() != 0:
            what = "py-spy needs root on macOS"
            yield Problem(kind="forbidden", what=what, advice="run profkit with sudo")

    def command(self, workload: Sequence[str], out: Path, rank: Rank) -> list[str]:
        """See `Wrapper.command`."""
        options = self._dump_options if self.mode == "dump" else self._record_flags
        return [sys.executable, "-m", __name__, self.mode, *options(out, rank), "--", *workload]

    def later_commands(self, out: Path, rank: Rank) -> list[list[str]]:
        """See `Wrapper.later_commands`."""
        if self.mode == "record":
            return [[self.binary, *_record_arguments(self._record_flags(out, rank), "PID")]]
        return [[self.binary, *_dump_arguments(self._dump_flags, "PID")]]

    def around_command(self) -> Self:
        """See `Wrapper.around_command`."""
        return replace(self, subprocesses=True)

    def share_out(self, out: Path, first: Rank, processes: Mapping[int, Rank]) -> list[Rank]:
        """See `Wrapper.share_out`."""
        path = out / f"{first.label}{_SUFFIX}"
        if not path.is_file():
            return [first]
        document = json.loads(path.read_bytes())
        parts = document["profiles"]
        for number, rank in processes.items():
            own = [part for part in parts if _process_of(part["name"]) == number]
            if own:
                text = json.dumps({**document, "profiles": own})
                (out / f"{rank.label}{_SUFFIX}").write_text(text)
        return list(processes.values())

    @property
    def _dump_flags(self) -> list[str]:
        switches = ("native", "subprocesses", "nonblocking")
        return [*(f"--{name}" for name in switches if getattr(self, name)), *self.extra]

    def _record_flags(self, out: Path, rank: Rank) -> list[str]:
        output = out / f"{rank.label}{_SUFFIX}"
        flags = ["--format=speedscope", f"--output={output}", f"--rate={self.rate}"]
        switches = ("native", "subprocesses", "nonblocking", "gil", "idle", "threads", "function")
        chosen = [name for name in (*switches, "full_filenames") if getattr(self, name)]
        return [*flags, *(f"--{name.replace('_', '-')}" for name in chosen), *self.extra]

    def _dump_options(self, out: Path, rank: Rank) -> list[str]:
        only = [*([] if self.idle else ["active"]), *(["owns_gil"] if self.gil else [])]
        own = [f"--out={out / rank.label}", f"--period-s={self.dump_period_s:g}"]
        own += [f"--flag={flag}" for flag in self._dump_flags]
        own += [f"--only={condition}" for condition in only]
        return own + (["--filename=filename"] if self.full_filenames else [])


def _process_of(name: str) -> int:
    """Return the number of the process whose samples are called `name`; -1 if it is not in it."""
    found = _PROCESS.match(name)
    return int(found[1]) if found else -1


def main(argv: Sequence[str]) -> int:
    """Run the workload that `argv` ends with and look at it; return its exit status.

    `argv` begins with ``record`` or ``dump``; their options and ``--`` follow.
    """
    mode, *words = argv
    end = words.index("--")
    options, workload = words[:end], words[end + 1 :]
    status = record(options, workload) if mode == "record" else dump(options, workload)
    # The status of a shell for a process that a signal has ended.
    return status if status >= 0 else 128 - status


def record(flags: Sequence[str], workload: Sequence[str]) -> int:
    """Run the workload below ``py-spy record``; return its exit status, negative for a signal.

    ``py-spy record -- workload`` exits with 0 however the workload ended, and kills one that
    outlasts the recording. So it gets the number of a process instead, of which another one is the
    parent; it is above both, as Yama wants it of a process that looks at others.
    """
    # Late: tools are imported in programs of users, which may have no psutil.
    from profkit.process import process_tree

    reading, writing = os.pipe()
    # A signal waits until it is known which process to forward it to.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED)
    py_spy = os.fork()
    if not py_spy:
        process_tree.die_with_parent()
        number, numbering = os.pipe()
        if not os.fork():
            _hold(workload, numbering, writing, mask)
        os.close(numbering)
        if not (pid := os.read(number, _NUMBER_BYTES).decode()):
            os._exit(_NOT_STARTED)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        arguments = _record_arguments(flags, pid)
        os.execv(executable("py-spy"), ["py-spy", *arguments])  # noqa: S606 - no shell
    os.close(writing)
    # The terminal sends it to all of them.
    signal.signal(signal.SIGINT, _disregard)
    with os.fdopen(reading) as lines:
        if not (line := lines.readline()):
            return _NOT_STARTED
        program = int(line)
        for signum in _FORWARDED:
            signal.signal(signum, lambda number, _: os.kill(program, number))
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        # Nothing comes from a parent that was killed, and the workload ended with it.
        status = int(lines.readline() or -signal.SIGKILL)
    return status or os.waitstatus_to_exitcode(os.waitpid(py_spy, 0)[1])


def _hold(
    workload: Sequence[str], numbering: int, writing: int, mask: set[int | signal.Signals]
) -> NoReturn:
    """Start the workload, with signals blocked as in `mask`, and wait for it, as a fork.

    Its number is written to both pipes, and its exit status to the second.
    """
    for signum in (signal.SIGINT, *_FORWARDED):
        signal.signal(signum, _disregard)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    try:
        process = subprocess.Popen(workload)
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        os._exit(_NOT_STARTED)
    os.write(numbering, str(process.pid).encode())
    os.write(writing, f"{process.pid}\n".encode())
    os.write(writing, f"{process.wait()}\n".encode())
    os._exit(0)


def _disregard(number: int, frame: FrameType | None) -> None:
    """Go on after a signal; a handler, which programs that are started do not inherit."""
    del number, frame


def dump(options: Sequence[str], workload: Sequence[str]) -> int:
    """Run the workload and dump it now and then; return its status, negative for a signal.

    Every dump is a line of ``<label>.dumps.jsonl`` at once, with all threads; at the end they
    become one file for speedscope.app.
    """
    chosen = _parser().parse_args(options)
    signals = (signal.SIGINT, *_FORWARDED)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    process = subprocess.Popen(workload, preexec_fn=_allow_tracing(mask))  # noqa: PLW1509
    for signum in signals:
        signal.signal(signum, lambda number, _: process.send_signal(number))
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    taken: list[tuple[float, Dump]] = []
    last_s = time.monotonic()
    with chosen.out.with_suffix(".dumps.jsonl").open("w", buffering=1) as file:
        while (status := _wait(process, chosen.period_s)) is None:
            threads = _dump(process.pid, chosen.flag)
            now_s = time.monotonic()
            if threads is not None:
                file.write(json.dumps({"time_ns": time.time_ns(), "threads": threads}) + "\n")
                taken.append((now_s - last_s, threads))
            last_s = now_s
    document = speedscope(taken, chosen.filename, chosen.only)
    chosen.out.with_suffix(".speedscope.json").write_text(json.dumps(document))
    return status


def _wait(process: "subprocess.Popen[bytes]", period_s: float) -> int | None:
    """Return the exit status of `process`, or None if it still runs after `period_s`."""
    try:
        return process.wait(period_s)
    except subprocess.TimeoutExpired:
        return None


def _record_arguments(flags: Sequence[str], pid: str) -> list[str]:
    return ["record", *flags, "--pid", pid]


def _dump_arguments(flags: Sequence[str], pid: str) -> list[str]:
    return ["dump", "--json", *flags, "--pid", pid]


def _dump(pid: int, flags: Sequence[str]) -> Dump | None:
    """Return the threads of process `pid` now; None, and why in the log, if that fails."""
    command = [executable("py-spy"), *_dump_arguments(flags, str(pid))]
    answer = bounded_command.ask(command, timeout_s=_DUMP_TIMEOUT_S, most_bytes=_DUMP_BYTES)
    try:
        threads: Dump | None = None if answer.reason else json.loads(answer.output)
    except ValueError:
        threads = None
    if threads is None:
        sys.stderr.write(f"py-spy dump: {answer.reason or answer.said}\n")
    return threads


def _allow_tracing(mask: set[int | signal.Signals]) -> Callable[[], None]:
    """Return a function that sets `mask` and lets any process trace this one despite Yama."""
    library = ctypes.CDLL(None) if sys.platform == "linux" else None

    def allow() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        # Kernels without Yama have no such call, and need none.
        if library is not None:
            library.prctl(_PR_SET_PTRACER, ctypes.c_ulong(_PR_SET_PTRACER_ANY), 0, 0, 0)

    return allow


def speedscope(
    taken: Sequence[tuple[float, Dump]], filename: str, only: Sequence[str]
) -> dict[str, Any]:
    """Return dumps, with the seconds since the one before, as a file for speedscope.app.

    Each dump stands for those seconds. `filename` is the key of a frame's file, and a thread
    counts where all its flags in `only` are set.
    """
    frames: dict[tuple[str, str, int], int] = {}
    samples: dict[str, list[list[int]]] = defaultdict(list)
    weights: dict[str, list[float]] = defaultdict(list)
    for seconds, threads in taken:
        for thread in threads:
            # A process that begins or ends has threads without Python in them.
            if not thread["frames"] or not all(thread[flag] for flag in only):
                continue
            name = f"Process {thread['pid']} Thread {thread['os_thread_id']}"
            name = f'{name} "{thread["thread_name"]}"' if thread["thread_name"] else name
            keys = [
                (frame["name"], frame.get(filename) or frame["filename"], frame["line"])
                for frame in reversed(thread["frames"])
            ]
            samples[name].append([frames.setdefault(key, len(frames)) for key in keys])
            weights[name].append(seconds)
    common = {"type": "sampled", "unit": "seconds", "startValue": 0}
    return {
        "$schema": _SCHEMA,
        "exporter": "profkit, from dumps of py-spy",
        "shared": {"frames": [{"name": n, "file": f, "line": at} for n, f, at in frames]},
        "profiles": [
            {
                **common,
                "name": name,
                "endValue": sum(weights[name]),
                "samples": samples[name],
                "weights": weights[name],
            }
            for name in samples
        ],
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Dump a workload with py-spy now and then.")
    parser.add_argument("--out", type=Path, required=True, help="the files, without their endings")
    parser.add_argument("--period-s", type=float, required=True, help="seconds between dumps")
    parser.add_argument("--flag", action="append", default=[], help="a flag for py-spy dump")
    parser.add_argument("--only", action="append", default=[], help="threads that are active...")
    parser.add_argument("--filename", default="short_filename", help="which name files go by")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
