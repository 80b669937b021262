"""nsys: Nsight Systems, a timeline of CUDA, NVTX and the operating system, seen from outside."""

import hashlib
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal, Self

from profkit.capture.base import (
    Problem,
    Rank,
    Recorder,
    Wrapper,
    distribution_version,
)
from profkit.capture.harness.machine import compatibility, permissions
from profkit.capture.harness.ranks import function_ranges, module_ranges, nvtx_ranges
from profkit.capture.nsys import importer, step_window
from profkit.capture.nsys.flags import Flag, KnownFlags, arguments, known_flags, unknown
from profkit.capture.nsys.step_window import CAPTURE_RANGE, LONG_S, StepWindow
from profkit.core.bounds import NonNegativeFloat, NonNegativeInt, PositiveInt
from profkit.core.formatting import counted
from profkit.core.parallel_layout import REPRESENTATIVE
from profkit.core.settings import ADDED_LATER


@dataclass(frozen=True, kw_only=True, slots=True)
class Capture(Wrapper):
    """Record one timeline of each rank, or of each host, with ``nsys``.

    Its tracing of CUDA and torch.profiler's cannot share a process: only one may subscribe to
    CUPTI. Each tool has a capture of its own, so this matters only to programs that start
    torch.profiler themselves.
    """

    binary: ClassVar = "nsys"
    install_hint: ClassVar = "install the package nsight-systems, or add its folder to PATH"
    # Of 600 starts of version 2022.4, 4 at a time on 2 cores, 10 ended early: "End of file",
    # "Local Endpoint is not available", "Connection reset by peer", "Connection to the Agent lost".
    may_fail_to_start: ClassVar = True
    outputs: ClassVar = ("*.nsys-rep",)
    exclusive_resources: ClassVar = ("CUPTI",)
    files_with_environment: ClassVar = ("*.nsys-rep", "*.qdstrm", "*.qdrep", "*.sqlite")

    mode: Literal["profile", "launch"] = "profile"
    """``profile`` starts the program and records it; ``launch`` only starts it, and profkit starts
    and stops the recording at the borders of steps with ``nsys start`` and ``nsys stop``."""

    per: Literal["rank", "host"] = "rank"
    """One nsys around each rank, or one around the launcher with all ranks of a host in a file."""

    trace: tuple[str, ...] = ("cuda", "nvtx", "osrt", "cudnn", "cublas")
    """APIs to trace; those that the installed version lacks are left out, with a warning."""

    capture_range: Literal["none", "nvtx", "cudaProfilerApi"] = "none"
    """What tells nsys which steps to record in mode profile: nothing (the whole run), or an NVTX
    range or CUDA's profiler calls, which profkit makes around the steps chosen below."""

    first_step: NonNegativeInt = 0
    """First step that is recorded, from 0; with a capture range or in mode launch."""

    steps: NonNegativeInt = 0
    """Number of steps that are recorded; 0 goes on to the last."""

    delay_s: NonNegativeFloat = 0
    """Seconds after the start of the program before recording begins; only in mode profile."""

    duration_s: NonNegativeFloat = 0
    """Seconds after which recording ends; 0 goes on to the end. Only in mode profile."""

    wait: Literal["primary", "all"] = "all"
    """Whether nsys waits for the program, or for all processes that it left as well."""

    sample: Literal["none", "process-tree", "system-wide"] = "none"
    """CPU stacks that are sampled; slows the launches of kernels."""

    sampling_frequency_hz: PositiveInt | None = None
    """Samples per second of each CPU; null takes the default of nsys."""

    backtrace: Literal["none", "fp", "lbr", "dwarf"] = "none"
    """How the stacks of those samples are unwound."""

    cpuctxsw: Literal["none", "process-tree", "system-wide"] = "none"
    """Threads whose context switches are recorded."""

    python_sampling: bool = False
    """Sample Python stacks."""

    python_sampling_frequency_hz: PositiveInt = 1000
    """Python stacks per second."""

    python_backtrace: Literal["none", "cuda"] = "none"
    """Whether calls of CUDA carry the Python stack that made them; expensive."""

    pytorch: Literal[
        "none", "autograd-nvtx", "autograd-shapes-nvtx", "functions-trace", "module-ranges"
    ] = "none"
    """Ranges around operators that nsys adds itself; module-ranges are profkit's own around each
    nn.Module, which also stand in where the version of nsys has no automatic ones."""

    function_ranges: Literal["none", "python", "all"] = "none"
    """Ranges of ``nvtx.Profile`` around each function that is called in the steps recorded: none,
    those in Python, or those in C as well. Slows every call; choose few steps."""

    cuda_graph_trace: Literal["node", "graph"] = "node"
    """Whether kernels in CUDA graphs are seen, or each graph as one block, which costs less."""

    cuda_memory_usage: bool = False
    """Record each allocation of device memory by the driver; slow where there are many."""

    cuda_backtrace: Literal["none", "all", "kernel", "memory", "sync", "other"] = "none"
    """Calls of CUDA whose stacks are recorded; needs `sample`."""

    cuda_flush_interval_ms: NonNegativeInt | None = None
    """Time between writes of CUDA's buffers; null takes the default of nsys."""

    gpu_metrics_devices: tuple[str, ...] = ()
    """Indices of GPUs, or all, whose counters are sampled; needs permission."""

    gpu_metrics_frequency_hz: PositiveInt = 10000
    """Samples of those counters per second."""

    gpu_metrics_set: str = ""
    """Set of counters, as ``nsys profile --gpu-metrics-set=help`` names it; empty is the first."""

    osrt_threshold_ns: PositiveInt = 1000
    """Calls of the operating system that are shorter are not recorded."""

    stats: bool = False
    """Print nsys' own statistics into the log; convert/ has them as CSV in any case."""

    reports: tuple[str, ...] = field(default=(), metadata=ADDED_LATER)
    """Reports of ``nsys stats`` that are left as text in convert/, such as ``cuda_gpu_kern_sum``;
    the usual ones are there as CSV in any case. With others the program is recorded again."""

    extra: tuple[str, ...] = ()
    """Flags passed through unread, to ``nsys profile`` or ``nsys launch``."""

    @classmethod
    def problems(cls) -> Iterator[Problem]:
        """See `Tool.problems`."""
        yield from super(Capture, cls).problems()
        yield from compatibility.nvtx_ranges(distribution_version("nvtx"), cls.version())
        yield from permissions.gpu_counters(needed_by="gpu_metrics_devices")

    def around_command(self) -> Self:
        """See `Wrapper.around_command`."""
        return replace(self, per="host")

    @property
    def wraps_launcher(self) -> bool:
        """See `Wrapper.wraps_launcher`."""
        return self.per == "host"

    @property
    def records_all_ranks(self) -> bool:
        """See `Tool.records_all_ranks`."""
        return self.per == "host" or self.ranks == "all"

    @property
    def may_exit_before_program(self) -> bool:
        """See `Wrapper.may_exit_before_program`."""
        return bool(self.duration_s)

    @property
    def needs_exclusive_machine(self) -> bool:
        """See `Tool.needs_exclusive_machine`."""
        return bool(self.gpu_metrics_devices)

    def check(self, steps: int) -> str:
        """See `Tool.check`."""
        chooses = self.mode == "launch" or self.capture_range != "none"
        last = self.first_step + max(self.steps, 1)
        reasons = {
            "capture_range is for mode=profile: in mode=launch profkit starts and stops nsys": (
                self.mode == "launch" and self.capture_range != "none"
            ),
            "delay_s and duration_s are for mode=profile": (
                self.mode == "launch" and bool(self.delay_s or self.duration_s)
            ),
            "duration_s is at least 1 for nsys; choose steps for less": 0 < self.duration_s < 1,
            "first_step and steps need capture_range=nvtx or cudaProfilerApi, or mode=launch": (
                not chooses and bool(self.first_step or self.steps)
            ),
            "capture_range=nvtx needs nvtx in trace": (
                self.capture_range == "nvtx" and "nvtx" not in self.trace
            ),
            "function_ranges needs nvtx in trace": (
                self.function_ranges != "none" and "nvtx" not in self.trace
            ),
            "capture_range=cudaProfilerApi needs cuda in trace": (
                self.capture_range == "cudaProfilerApi" and "cuda" not in self.trace
            ),
            "per=host records all ranks of a host; leave ranks=all, or set per=rank": (
                self.per == "host" and self.ranks not in ("all", REPRESENTATIVE)
            ),
            f"first_step={self.first_step} and steps={self.steps} need {counted(last, 'step')},"
            f" and the workload runs {steps}": last > steps,
        }
        return next((reason for reason, holds in reasons.items() if holds), "")

    def warnings(self) -> list[str]:
        """See `Tool.warnings`."""
        known = known_flags(self.binary)
        commands = ("profile",) if self.mode == "profile" else ("launch", "start")
        lacking = [f"{name} is left out" for name in unknown(self.flags(), commands, known)]
        lacking += [f"trace={api} is left out" for api in self.trace if api not in self.apis(known)]
        if self.needs_own_module_ranges(known):
            lacking.append("pytorch gets profkit's ranges around modules instead")
        texts = [f"this version of nsys lacks a flag or an API: {lack}" for lack in lacking]
        if self.duration_s > LONG_S:
            texts.append(
                f"tools.nsys.duration_s={self.duration_s:g}: recordings of more than {LONG_S:g} s"
                " make reports that are slow to open"
            )
        if self.function_ranges != "none":
            texts.append(
                f"tools.nsys.function_ranges={self.function_ranges} slows every call: read from"
                " this capture who calls what and how often, not how long a step takes"
            )
        return texts

    def apis(self, known: KnownFlags) -> list[str]:
        """Return the values of `trace` that a version knows."""
        return [api for api in self.trace if not known.apis or api in known.apis]

    def needs_own_module_ranges(self, known: KnownFlags) -> bool:
        """Say whether profkit's module ranges replace the ranges of nsys, which it lacks."""
        command = "profile" if self.mode == "profile" else "launch"
        automatic = self.pytorch not in ("none", "module-ranges")
        return automatic and not known.name(command, ("pytorch",))

    def flags(self) -> list[Flag]:
        """Return the flags behind the settings, of all commands and in no version's order."""
        values = [
            ("sampling-frequency", self.sampling_frequency_hz, "sampling_frequency_hz"),
            ("python-sampling", self.python_sampling or None, "python_sampling"),
            ("cuda-memory-usage", self.cuda_memory_usage or None, "cuda_memory_usage"),
            ("cuda-flush-interval", self.cuda_flush_interval_ms, "cuda_flush_interval_ms"),
            ("gpu-metrics-set", self.gpu_metrics_set or None, "gpu_metrics_set"),
            ("delay", self.delay_s or None, "delay_s"),
            ("duration", self.duration_s or None, "duration_s"),
            ("stats", self.stats or None, "stats"),
        ]
        if self.python_sampling:
            frequency = self.python_sampling_frequency_hz
            values.append(("python-sampling-frequency", frequency, "python_sampling_frequency_hz"))
        if self.python_backtrace != "none":
            values.append(("python-backtrace", self.python_backtrace, "python_backtrace"))
        if self.cuda_backtrace != "none":
            values.append(("cudabacktrace", self.cuda_backtrace, "cuda_backtrace"))
        if self.sample != "none":
            values.append(("backtrace", self.backtrace, "backtrace"))
        if "cuda" in self.trace:
            values.append(("cuda-graph-trace", self.cuda_graph_trace, "cuda_graph_trace"))
        if "osrt" in self.trace:
            values.append(("osrt-threshold", self.osrt_threshold_ns, "osrt_threshold_ns"))
        flags = [
            Flag(names=(name,), value=_text(value), setting=setting)
            for name, value, setting in values
            if value is not None
        ]
        return [*flags, *self._metrics(), *self._always()]

    def _metrics(self) -> list[Flag]:
        if not self.gpu_metrics_devices:
            return []
        devices = ",".join(self.gpu_metrics_devices)
        # Renamed in 2024.
        names = ("gpu-metrics-devices", "gpu-metrics-device")
        frequency = str(self.gpu_metrics_frequency_hz)
        return [
            Flag(names=names, value=devices, setting="gpu_metrics_devices"),
            Flag(
                names=("gpu-metrics-frequency",),
                value=frequency,
                setting="gpu_metrics_frequency_hz",
            ),
        ]

    def _always(self) -> list[Flag]:
        """Return flags whose defaults differ between versions and machines."""
        flags: dict[str, str] = {"sample": self.sample, "cpuctxsw": self.cpuctxsw}
        flags["wait"] = self.wait
        if self.pytorch not in ("none", "module-ranges"):
            flags["pytorch"] = self.pytorch
        if self.duration_s:
            # Else the program is killed when the recording ends.
            flags["kill"] = "none"
        if self.capture_range == "nvtx":
            flags["nvtx-capture"] = f"{CAPTURE_RANGE}@{nvtx_ranges.DOMAIN}"
        if self.capture_range != "none":
            flags["capture-range"] = self.capture_range
            # The default ends the program with the range.
            flags["capture-range-end"] = "stop"
        return [Flag(names=(name,), value=value, setting="") for name, value in flags.items()]

    def command(self, workload: Sequence[str], out: Path, rank: Rank) -> list[str]:
        """See `Wrapper.command`."""
        known = known_flags(self.binary)
        trace = f"--trace={','.join(self.apis(known)) or 'none'}"
        if self.mode == "launch":
            flags = [f"--session-new={_session(out, rank, self.per)}", trace]
            flags += arguments(self.flags(), "launch", known)
            return [self.binary, "launch", *flags, *self.extra, *workload]
        flags = [trace, f"--output={_output(out, rank)}", "--force-overwrite=true"]
        flags += arguments(self.flags(), "profile", known)
        return [self.binary, "profile", *flags, *self.extra, *workload]

    def later_commands(self, out: Path, rank: Rank) -> list[list[str]]:
        """See `Wrapper.later_commands`."""
        if self.mode == "profile":
            return []
        return [[self.binary, *self.start(out, rank)], [self.binary, *self.stop(out, rank)]]

    def stop(self, out: Path, rank: Rank) -> list[str]:
        """Return the arguments of nsys that end the recording in mode launch."""
        return ["stop", f"--session={_session(out, rank, self.per)}"]

    def start(self, out: Path, rank: Rank) -> list[str]:
        """Return the arguments of nsys that begin the recording in mode launch."""
        flags = [f"--session={_session(out, rank, self.per)}", f"--output={_output(out, rank)}"]
        known = known_flags(self.binary)
        others = [flag for flag in self.flags() if not known.name("launch", flag.names)]
        return ["start", *flags, "--force-overwrite=true", *arguments(others, "start", known)]

    @contextmanager
    def inside_workload(self, out: Path, rank: Rank) -> Iterator[Recorder]:
        """See `Wrapper.inside_workload`."""
        with ExitStack() as stack:
            if self.pytorch == "module-ranges" or self.needs_own_module_ranges(
                known_flags(self.binary)
            ):
                stack.enter_context(module_ranges.recorded())
            window = self._window(out, rank)
            stack.callback(window.close)
            yield window

    def _window(self, out: Path, rank: Rank) -> StepWindow:
        first = rank if self.per == "rank" else Rank(rank=rank.rank - rank.local_rank)
        start, stop = self.start(out, first), self.stop(out, rank)
        session = partial(step_window.open_session, self.binary, start, stop)
        # A collection ends with the first range that ends, so one rank of a host opens the range.
        is_idle = self.per == "host" and rank.local_rank > 0
        windows = {
            "none": nullcontext,
            "nvtx": step_window.open_nvtx_range,
            "cudaProfilerApi": step_window.open_cuda_profiler,
        }
        chosen = session if self.mode == "launch" else windows[self.capture_range]
        open_window = self._with_function_ranges(nullcontext if is_idle else chosen)
        return StepWindow(self.first_step, self.steps, open_window, rank.rank)

    def _with_function_ranges(
        self, open_window: Callable[[], AbstractContextManager[object]]
    ) -> Callable[[], AbstractContextManager[object]]:
        """Return `open_window`, with ranges of functions inside its window if they are wanted."""
        if self.function_ranges == "none":
            return open_window

        @contextmanager
        def both() -> Iterator[None]:
            with open_window(), function_ranges.recorded(of_c=self.function_ranges == "all"):
                yield

        return both

    def finish(self, out: Path) -> list[str]:
        """See `Tool.finish`."""
        return importer.import_left(out, self.binary)


def _output(out: Path, rank: Rank) -> str:
    """Return the path of the report without its suffix; nsys replaces %h by the host's name."""
    return f"{str(out).replace('%', '%%')}/{rank.label}.%h"


def _session(out: Path, rank: Rank, per: str) -> str:
    """Return the name of the session of a rank, or of the host."""
    folder = hashlib.sha256(str(out).encode()).hexdigest()[:10]
    owner = f"rank{rank.rank}" if per == "rank" else socket.gethostname()
    return f"profkit-{folder}-{owner}"


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
