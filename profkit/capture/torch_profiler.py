"""torch.profiler: operators, kernels, memory and stacks, as seen by PyTorch itself."""

import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from profkit import marks
from profkit.capture import _averages as averages
from profkit.capture._first_steps import FirstSteps
from profkit.capture._profiler_recording import ProfilerRecording
from profkit.capture._profiler_schedule import PRESETS, BoundedSchedule, Schedule
from profkit.capture._python_samples import PythonSamples
from profkit.capture._single_recording import single_recording
from profkit.capture._trace_export import export, export_compressed, exported_bytes
from profkit.capture._worker_samples import workers_sampled
from profkit.capture.base import Problem, Rank, Recorder, Session
from profkit.capture.harness.machine import permissions
from profkit.capture.harness.ranks.bytes_bound import BytesBound
from profkit.core.bounds import NonNegativeFloat, NonNegativeInt, PositiveInt
from profkit.core.errors import ProfkitError
from profkit.core.formatting import counted
from profkit.core.settings import ADDED_LATER, Settings

if TYPE_CHECKING:
    from torch._C._profiler import _ExperimentalConfig
    from torch.profiler import ExecutionTraceObserver, ProfilerAction, ProfilerActivity, profile

Activity = Literal["cpu", "cuda", "xpu", "mtia", "hpu", "privateuse1"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Experimental(Settings):
    """Options that PyTorch calls experimental; they may change from version to version."""

    profiler_metrics: tuple[str, ...] = ()
    """CUPTI metrics to measure per kernel; kernels then run one by one, and slowly."""

    profiler_measure_per_kernel: bool = False
    """Measure the metrics for each kernel instead of for the whole recording."""

    verbose: bool = False
    """Write the call stack of every event into the trace; needs `with_stack`."""

    performance_events: tuple[str, ...] = ()
    """Events of the CPU's performance counters to count per operator."""

    enable_cuda_sync_events: bool = False
    """Record CUDA's synchronisations of device, streams and events."""

    adjust_profiler_step: bool = False
    """Stretch each ProfilerStep to the Python event that it stands for."""

    disable_external_correlation: bool = False
    """Leave out what ties kernels to operators; smaller traces."""

    profile_all_threads: bool = False
    """Record operators on threads that PyTorch did not start as well."""

    capture_overload_names: bool = False
    """Name the overload of each operator, such as ``aten::add.Tensor``."""

    record_python_gc_info: bool = False
    """Record the runs of Python's garbage collector."""

    expose_kineto_event_metadata: bool = False
    """Keep Kineto's own metadata with each event."""

    custom_profiler_config: str = ""
    """Text handed to a custom backend."""

    adjust_timestamps: bool = False
    """Move timestamps so that children lie within their parents; for Vulkan."""

    trace_only: bool = False
    """Write the trace without building PyTorch's own events; leaves no table of averages."""

    def chosen(self) -> dict[str, Any]:
        """Return the options that differ from PyTorch's default, which older versions may lack."""
        values = {option.name: getattr(self, option.name) for option in fields(self)}
        default = Experimental()
        changed = {key: value for key, value in values.items() if value != getattr(default, key)}
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in changed.items()
        }

    def of_all_threads(self) -> "_ExperimentalConfig":
        """Return these options for PyTorch, with the operators of all threads."""
        from torch._C._profiler import _ExperimentalConfig

        return _ExperimentalConfig(**replace(self, profile_all_threads=True).chosen())


@dataclass(frozen=True, kw_only=True, slots=True)
class Capture(Session):
    """Record with ``torch.profiler.profile``; one trace for each rank and cycle of the schedule."""

    outputs: ClassVar = ("*.pt.trace.json*",)
    exclusive_resources: ClassVar = ("CUPTI",)
    holds_steps: ClassVar = True

    activities: tuple[Activity, ...] = ()
    """What is recorded; empty takes the CPU, and the accelerator where there is one."""

    schedule: Literal["early", "stable", "periodic"] = "stable"
    """Which steps: early (the first 3, with all start-up costs), stable (3 after 5), periodic (one
    of 3, three times, after 3)."""

    skip_first: NonNegativeInt | None = None
    """Steps before the first cycle; null takes the schedule's, like the four that follow."""

    wait: NonNegativeInt | None = None
    """Steps of each cycle that are not looked at."""

    warmup: NonNegativeInt | None = None
    """Steps of each cycle that are recorded and thrown away, as starting to record costs time."""

    active: PositiveInt | None = None
    """Steps of each cycle that are recorded; traces grow with them."""

    repeat: NonNegativeInt | None = None
    """Number of cycles, each with a trace of its own; 0 goes on to the last step."""

    least_s: NonNegativeFloat = field(default=0.3, metadata=ADDED_LATER)
    """Seconds of steps at least that the only cycle of schedule stable records of the only rank of
    a script, unless `active` is set, as a few short ones say little; a third of that are enough of
    20 steps."""

    skip_first_wait: bool = False
    """Leave out the wait of the first cycle."""

    record_shapes: bool = True
    """Record the shapes of inputs, to distinguish operators by them."""

    profile_memory: bool = True
    """Record each allocation and free; a few percent slower."""

    with_stack: bool = False
    """Record source lines; slows Python code several times over and makes large traces."""

    with_flops: bool = True
    """Estimate the FLOPs of matrix products and convolutions from their shapes."""

    with_modules: bool = False
    """Record the hierarchy of modules; only for TorchScript models."""

    acc_events: bool = False
    """Keep the events of all cycles, not only of the last, for the table of averages."""

    execution_trace: bool = False
    """Write every operator with its inputs as ``<label>.execution_trace.json``, for replaying."""

    post_processing_timeout_s: float | None = None
    """Seconds after which PyTorch gives up reading its events; null waits for the end."""

    gzip: bool = True
    """Compress traces, to about a twentieth."""

    key_averages_rows: NonNegativeInt = 200
    """Rows of PyTorch's own tables of averages; 0 leaves them out."""

    experimental: Experimental = field(default_factory=Experimental)
    """Options that PyTorch calls experimental."""

    @property
    def cycles(self) -> Schedule:
        """The preset of `schedule`, overridden by the settings that are not null."""
        preset = PRESETS[self.schedule]
        names = [setting.name for setting in fields(Schedule)]
        given = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        return Schedule(**{name: getattr(preset, name) for name in names} | given)

    @property
    def traced_steps(self) -> tuple[int, int]:
        """See `Tool.traced_steps`."""
        return self.cycles.first, self.cycles.steps

    def after(self, steps: int) -> Self:
        """See `Tool.after`."""
        is_free = self.schedule == "stable" and self.skip_first is None
        return replace(self, skip_first=steps) if steps and is_free else self

    @property
    def _schedule(self) -> "Callable[[int], ProfilerAction]":
        return self.cycles.function(skip_first_wait=self.skip_first_wait)

    @classmethod
    def problems(cls) -> Iterator[Problem]:
        """See `Tool.problems`."""
        yield from super(Capture, cls).problems()
        yield from permissions.gpu_counters(needed_by="experimental.profiler_metrics")

    def check(self, steps: int) -> str:
        """See `Tool.check`."""
        cycles = self.cycles
        if cycles.steps <= steps:
            return ""
        return (
            f"schedule {self.schedule!r} needs {counted(cycles.steps, 'step')}"
            f" (skip_first={cycles.skip_first} and {max(cycles.repeat, 1)} x (wait={cycles.wait} +"
            f" warmup={cycles.warmup} + active={cycles.active})), and the workload runs {steps};"
            " run more steps or lower one of these"
        )

    @contextmanager
    def record(self, out: Path, rank: Rank) -> Iterator[Recorder]:
        """See `Session.record`."""
        # Launchers that start several ranks on one of several hosts say how many.
        samples = PythonSamples(int(os.environ.get("LOCAL_WORLD_SIZE", rank.world_size)))
        marks.take_inputs(samples.inputs)
        bound, cycles = BytesBound(rank), self.cycles
        is_preset = self.schedule == "stable" and self.active is None and cycles.repeat == 1
        is_alone = rank.world_size == 1 and not marks.expected_steps()
        least_s = self.least_s if is_preset and is_alone else 0.0
        schedule = BoundedSchedule(self._schedule, least_s)
        writer = _Writer(settings=self, out=out, label=rank.label, samples=samples)
        profiler = self.profiler(out, rank, writer, schedule)

        def predict(first: "profile") -> None:
            steps = cycles.active * cycles.repeat or -1
            taken = exported_bytes(first, out, is_packed=self.gzip)
            schedule.most = bound.most(taken / cycles.first_steps, steps)

        first_steps = self._first_steps(out, rank, predict if bound.is_close else None)
        recording = ProfilerRecording(
            profiler, first_steps, cycles.first, schedule, samples, self.experimental.of_all_threads
        )
        workers = workers_sampled(out, rank.label)
        with workers, single_recording(profiler, "torch_profiler", recording.yield_to):
            try:
                yield recording
            finally:
                first = recording.end()
                if first is not None:
                    writer(first)
        # Only workloads whose number of steps is not known before get this far.
        if recording.failure is not None:
            raise recording.failure
        if recording.is_full:
            return
        if first is not None:
            if recording.note_on_first_steps:
                marks.note(recording.note_on_first_steps)
            marks.note(
                f"The program made {counted(recording.steps, 'step')}, and the schedule begins with"
                f" number {self.cycles.first + 1}: its first steps were recorded instead, with all"
                " that happens only once."
            )
        elif recording.steps <= self.cycles.first:
            raise ProfkitError(
                f"the workload made {counted(recording.steps, 'step')}, and the first that is"
                f" recorded is number {self.cycles.first + 1}",
                hint="lower tools.torch_profiler.skip_first, wait or warmup, or let it run longer",
            )
        elif reason := self.check(recording.steps):
            marks.note(f"Less was recorded than asked for: {reason}.")

    def _first_steps(
        self, out: Path, rank: Rank, measure: "Callable[[profile], None] | None"
    ) -> FirstSteps:
        """Return the recording of the steps before the schedule has anything to record.

        `measure` is called when it ends.
        """
        steps = self.cycles.first_steps
        early = replace(
            self, skip_first=0, wait=0, warmup=0, active=max(steps, 1), repeat=1, acc_events=False
        )
        early = replace(early, skip_first_wait=False, execution_trace=False)
        with warnings.catch_warnings():
            # That there is no warm-up is the point of it.
            warnings.simplefilter("ignore", UserWarning)
            profiler = early.profiler(out, rank, measure)
        return FirstSteps(profiler, steps, is_needed=measure is not None)

    def profiler(
        self,
        out: Path,
        rank: Rank,
        on_trace_ready: "Callable[[profile], None] | None" = None,
        schedule: "Callable[[int], ProfilerAction] | None" = None,
    ) -> "profile":
        """Return PyTorch's profiler, not started."""
        from torch import profiler
        from torch._C._profiler import _ExperimentalConfig

        return profiler.profile(
            activities=self._activities(profiler.ProfilerActivity.__members__),
            schedule=schedule or self._schedule,
            on_trace_ready=on_trace_ready,
            record_shapes=self.record_shapes,
            profile_memory=self.profile_memory,
            with_stack=self.with_stack,
            with_flops=self.with_flops,
            with_modules=self.with_modules,
            acc_events=self.acc_events,
            execution_trace_observer=self._observer(out, rank),
            experimental_config=_ExperimentalConfig(**self.experimental.chosen()),
            **self._recent(),
        )

    def _recent(self) -> dict[str, Any]:
        """Return the configured arguments that older versions of PyTorch lack."""
        timeout = self.post_processing_timeout_s
        return {} if timeout is None else {"post_processing_timeout_s": timeout}

    def _observer(self, out: Path, rank: Rank) -> "ExecutionTraceObserver | None":
        from torch.profiler import ExecutionTraceObserver

        if not self.execution_trace:
            return None
        path = out / f"{rank.label}.execution_trace.json"
        return ExecutionTraceObserver().register_callback(str(path))

    def _activities(
        self, known: "Mapping[str, ProfilerActivity]"
    ) -> "list[ProfilerActivity] | None":
        """Return PyTorch's activities, or None for all that this machine supports."""
        by_name = {name.lower(): activity for name, activity in known.items()}
        return [by_name[name] for name in self.activities] or None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Writer:
    """Writes one cycle of the schedule when PyTorch's profiler has finished it."""

    settings: Capture
    out: Path
    label: str
    samples: PythonSamples

    def __call__(self, profiler: "profile") -> None:
        """Write the trace, under the name that TensorBoard looks for, and the tables."""
        with self.samples.paused():
            self._write(profiler)

    def _write(self, profiler: "profile") -> None:
        name = f"{self.label}.{time.time_ns()}"
        path = self.out / f"{name}.pt.trace.json"
        self.samples.write(self.out / f"{name}.python.json")
        if self.settings.gzip:
            export_compressed(profiler, path.with_name(f"{path.name}.gz"))
        else:
            export(profiler, path)
        if self.settings.key_averages_rows and not self.settings.experimental.trace_only:
            with (self.out / f"{self.label}.key_averages.txt").open("a") as file:
                try:
                    file.writelines(averages.tables(profiler, self.settings))
                    averages.export_stacks(profiler, self.settings, self.out / self.label)
                except UnicodeDecodeError as error:
                    # PyTorch fails on names that are not UTF-8; the trace is written by then.
                    file.write(f"PyTorch could not make this table: {error}\n")
