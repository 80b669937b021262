"""Nsight Compute: runs chosen kernels again and again to read hardware counters of each."""

import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self

import msgspec

from profkit.capture._profiled_steps import ProfiledSteps
from profkit.capture.base import NullRecorder, Problem, Rank, Recorder, Wrapper
from profkit.capture.harness.machine import nvml, permissions
from profkit.capture.harness.ranks import module_ranges
from profkit.core.bounds import NonNegativeInt, PositiveFloat
from profkit.core.errors import InputError
from profkit.core.parallel_layout import Ranks

TARGETS = "ncu_targets"
"""The analysis that ranks the kernels that are worth measuring."""

_LOCK = "nsight-compute-lock"
# Collectives wait for other ranks: replayed on one rank alone, they wait forever.
_NO_COMMUNICATION = (
    "regex:^(?!.*(nccl|rccl|msccl|shmem|multimem|_shot_all_reduce|cross_device_reduce|quickreduce))"
)
# ncu ends with 9 for a program that signal 9 killed, as for one that exited so; a shell with 137.
_IN_SHELL = ("sh", "-c", 'trap : INT TERM HUP; "$@"; exit $?', "sh")
# Sections of ncu's default set, whose name is not the same in all versions.
_BASIC = ("LaunchStats", "Occupancy", "SpeedOfLight")
# Releases whose documentation has the filter mode per-launch-config.
_PER_SHAPE_SINCE = (2023, 2)


class _Table(msgspec.Struct):
    columns: list[str]
    rows: list[list[Any]]


class _Metric(msgspec.Struct):
    value: float


class Targets(msgspec.Struct):
    """The needed parts of a result of `TARGETS`; `profkit.core.result` would import pandas."""

    metrics: dict[str, _Metric] = msgspec.field(default_factory=dict)
    tables: dict[str, _Table] = msgspec.field(default_factory=dict)


class _Document(msgspec.Struct):
    result: Targets


@dataclass(frozen=True, kw_only=True, slots=True)
class Capture(Wrapper):
    """Measure kernels of one step with ``ncu``."""

    binary: ClassVar = "ncu"
    install_hint: ClassVar = "install Nsight Compute (with the CUDA toolkit), or add it to PATH"
    outputs: ClassVar = ("*.ncu-rep",)
    is_repeated: ClassVar = False
    exclusive_resources: ClassVar = ("CUPTI",)
    # Else it copies its section files into the user's ~/Documents, and reads them from there.
    environment_variables: ClassVar = MappingProxyType(
        {"NV_COMPUTE_PROFILER_DISABLE_STOCK_FILE_DEPLOYMENT": "1"}
    )

    ranks: Ranks = (0,)
    """Ranks that are measured; the others wait for them in every collective, so one is enough."""

    targets: Literal["auto", "all"] = "auto"
    """auto: kernels worth it by what torch.profiler saw, each shape once; all: what filters let
    through. A filter by `kernel` comes before it."""

    budget_s: PositiveFloat = 300.0
    """Seconds that measuring may take with targets=auto, at `launch_s` for each launch."""

    launch_s: PositiveFloat = 2.0
    """Seconds to reckon with for one launch, which runs some dozen times and saves its memory."""

    set: Literal["none", "basic", "detailed", "full", "roofline", "source"] = "detailed"
    """Set of sections; each larger one runs every kernel more often."""

    sections: tuple[str, ...] = (
        "ComputeWorkloadAnalysis",
        "SchedulerStats",
        "WarpStateStats",
        "MemoryWorkloadAnalysis_Tables",
        "SpeedOfLight_HierarchicalSingleRooflineChart",
        "SpeedOfLight_HierarchicalHalfRooflineChart",
        "SpeedOfLight_HierarchicalTensorRooflineChart",
    )
    """Sections besides those of the set, which has not the same in all releases."""

    metrics: tuple[str, ...] = ()
    """Metrics besides those of the sections; regex:, group: and breakdown: are ncu's."""

    steps: tuple[NonNegativeInt, ...] = ()
    """Steps whose kernels are measured; none is the whole run, and with targets=auto one step."""

    kernel: str = ""
    """Name of the kernels that are measured, or ``regex:`` and an expression; empty is any."""

    kernel_id: str = ""
    """The same as ``context:stream:[regex:]name:invocation``."""

    kernel_name_base: Literal["function", "demangled", "mangled"] = "function"
    """Which form of their name `kernel` and `kernel_id` are about."""

    filter_mode: Literal["global", "per-gpu", "per-launch-config"] = "global"
    """Whether skip and count go for all launches together, or for each GPU or shape."""

    launch_skip: NonNegativeInt = 0
    """Launches left out at first, of those that the filters let through."""

    launch_count: NonNegativeInt = 0
    """Launches after which no more is measured; 0 is no limit."""

    nvtx_include: tuple[str, ...] = ()
    """NVTX ranges in which kernels are measured; a range holds for the thread that opened it.
    profkit's own, around steps and phases, are ``profkit@step#3/`` and ``profkit@forward/``."""

    nvtx_exclude: tuple[str, ...] = ()
    """NVTX ranges in which none is."""

    module_ranges: bool = False
    """Open an NVTX range around the forward of each nn.Module, for the filters above and for the
    column of ranges in which a kernel was launched."""

    replay_mode: Literal["kernel", "application", "range", "app-range"] = "kernel"
    """What is run again to read more counters than fit at once."""

    clock_control: Literal["base", "none"] = "base"
    """base locks the clocks, for numbers that can be compared; none leaves them as in real life."""

    cache_control: Literal["all", "none"] = "all"
    """all empties the caches before each run of a kernel; none leaves what was there."""

    target_processes: Literal["application-only", "all"] = "all"
    """Whether processes that a rank starts are measured as well."""

    import_source: bool = False
    """Take source files into the report; they hold the program's text."""

    csv: bool = False
    """Leave the raw page as CSV as well."""

    extra: tuple[str, ...] = ()
    """Flags passed through unread, for what the settings above leave out."""

    @classmethod
    def problems(cls) -> Iterator[Problem]:
        """See `Tool.problems`."""
        yield from super(Capture, cls).problems()
        with nvml.opened() as library:
            if not (library and nvml.devices(library)):
                what = "no NVIDIA GPU is there, whose counters it could read"
                yield Problem(
                    kind="incompatible", what=what, advice="run it on a machine that has one"
                )
        yield from permissions.gpu_counters()
        lock = Path(tempfile.gettempdir()) / _LOCK
        if lock.exists() and not os.access(lock, os.W_OK):
            what = f"{lock} belongs to somebody else, and keeps all others from measuring"
            advice = "have its owner delete it, or set TMPDIR to a folder of your own"
            yield Problem(kind="forbidden", what=what, advice=advice)

    def check(self, steps: int) -> str:
        """See `Tool.check`."""
        late = [step for step in self.steps if step >= steps]
        if self.measures_ranges and (self.kernel or self.kernel_id):
            return f"kernel: replay_mode={self.replay_mode} measures ranges, not kernels of a name"
        return f"steps: there is no step {late[0]} of {steps}, counted from 0" if late else ""

    @property
    def needs_exclusive_machine(self) -> bool:
        """See `Tool.needs_exclusive_machine`: it locks clocks of GPUs, and repeats kernels."""
        return True

    def input_analyses(self) -> tuple[str, ...]:
        """See `Tool.input_analyses`."""
        return (TARGETS,) if self.chooses_kernels else ()

    @property
    def chooses_kernels(self) -> bool:
        """Whether profkit chooses the kernels, by the results of `TARGETS`."""
        is_open = not (self.kernel or self.kernel_id or self.measures_ranges)
        return self.targets == "auto" and is_open

    @property
    def measures_ranges(self) -> bool:
        """Whether ranges with all their kernels are measured, instead of single kernels."""
        return self.replay_mode in ("range", "app-range")

    def with_results(self, results: Mapping[str, Path]) -> Self:
        """See `Tool.with_results`: choose kernels, and the step in which they are measured."""
        if not self.chooses_kernels:
            return self
        path = results.get(TARGETS)
        return self.restricted_to(_read(path) if path else Targets(), self.version())

    def restricted_to(self, targets: Targets, version: str) -> Self:
        """Return these settings for the kernels of `targets` that fit into the budget.

        Without targets, for as many launches of the second step as fit into it.
        """
        most = max(int(self.budget_s / self.launch_s), 1)
        step = int(targets.metrics["step"].value) if "step" in targets.metrics else 1
        steps = self.steps or (step,)
        if "targets" not in targets.tables:
            return replace(self, steps=steps, launch_count=self.launch_count or most)
        table = targets.tables["targets"]
        rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
        mode = "by_shape" if _release(version) >= _PER_SHAPE_SINCE else "in_order"
        fits = sum(int(row[f"measured_{mode}"] or 0) <= most for row in rows) or 1
        functions = dict.fromkeys(re.escape(str(row["function"])) for row in rows[:fits])
        return replace(
            self,
            steps=steps,
            kernel=f"regex:^({'|'.join(functions)})$",
            kernel_name_base="function",
            filter_mode="per-launch-config" if mode == "by_shape" else "global",
            launch_count=int(rows[fits - 1][f"count_{mode}"] or 1),
        )

    def command(self, workload: Sequence[str], out: Path, rank: Rank) -> list[str]:
        """See `Wrapper.command`."""
        # ncu appends ".ncu-rep" itself, and takes % in paths for placeholders.
        report = str(out / rank.label).replace("%", "%%")
        flags = [f"--export={report}", "--force-overwrite", "--nvtx"]
        flags += [f"--target-processes={self.target_processes}", *self._collected()]
        flags += [f"--replay-mode={self.replay_mode}", f"--clock-control={self.clock_control}"]
        flags += [f"--cache-control={self.cache_control}", *self._filters()]
        if self.import_source:
            flags.append("--import-source=yes")
        if self.csv:
            flags += ["--csv", "--page=raw", f"--log-file={report}.ncu.csv"]
        shell = _IN_SHELL if self.target_processes == "all" else ()
        return [self.binary, *flags, *self.extra, *shell, *workload]

    def _collected(self) -> list[str]:
        sections = self.sections
        if self.set == "basic" and (self.sections or self.metrics):
            sections = (*_BASIC, *self.sections)
        named = [] if self.set in ("none", "basic") else [f"--set={self.set}"]
        metrics = [f"--metrics={','.join(self.metrics)}"] if self.metrics else []
        return [*named, *(f"--section={section}" for section in sections), *metrics]

    def _filters(self) -> list[str]:
        flags = ["--profile-from-start=no"] if self.steps else []
        # ncu refuses filters of kernels where it measures ranges.
        flags += [] if self.measures_ranges else self._kernels()
        flags += [f"--launch-skip={self.launch_skip}"] if self.launch_skip else []
        flags += [f"--launch-count={self.launch_count}"] if self.launch_count else []
        flags += [f"--nvtx-include={name}" for name in self.nvtx_include]
        return [*flags, *(f"--nvtx-exclude={name}" for name in self.nvtx_exclude)]

    def _kernels(self) -> list[str]:
        kernel = self.kernel or ("" if self.kernel_id else _NO_COMMUNICATION)
        named = [f"--kernel-name={kernel}"] if kernel else []
        named += [f"--kernel-id={self.kernel_id}"] if self.kernel_id else []
        named.append(f"--kernel-name-base={self.kernel_name_base}")
        return [*named, f"--filter-mode={self.filter_mode}"]

    @contextmanager
    def inside_workload(self, out: Path, rank: Rank) -> Iterator[Recorder]:
        """See `Wrapper.inside_workload`: profile the chosen steps, with module ranges if wanted."""
        del out, rank
        with module_ranges.recorded() if self.module_ranges else nullcontext():
            yield ProfiledSteps(self.steps) if self.steps else NullRecorder()


def _read(path: Path) -> Targets:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Document).result
    except (OSError, msgspec.MsgspecError) as error:
        what = f"{path}: the Nsight Compute candidates cannot be read: {error}"
        raise InputError(what, hint="delete it and run again") from None


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split(".")[:2] if number.isdigit())
