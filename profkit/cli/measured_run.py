"""What a comparison needs of a run: its numbers in each repeat, and under what they were taken."""

import os
import re
from collections import ChainMap
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from profkit.analyze.shared.repeat_order import beginnings
from profkit.analyze.shared.step_times import BETWEEN_STEPS
from profkit.cli.run_folders import RunFolder
from profkit.core import result
from profkit.core.atomic_write import write_atomically
from profkit.core.capture_record import FAILED_AFTER
from profkit.core.errors import InputError
from profkit.core.result import Metric, Result
from profkit.core.saved_results import BASELINES, saved_results
from profkit.core.settings import nearest
from profkit.core.step_time import BASELINE, is_mean_of_uneven, unprofiled_mean
from profkit.tables.loaded_run import LoadedRun

METRICS = {
    "step_time": "step_time_ns",
    "throughput": "throughput_per_s",
    "peak_memory": "peak_memory_bytes",
    "energy": "per_step_j",
}
"""Metrics that runs are compared by, by the names that users type."""

_ANALYSES = ("steps", "energy")
"""Analyses that have them."""

EXPLAINING = {
    "causes": ("parts", "ranks", "by_step", "matches"),
    "memory_peak": ("parts", "stacks"),
}
"""Analyses that say why runs differ, and the tables that do."""

_STEP_TIME_MEAN = "step_time_mean_ns"

_NAME = re.compile(r"\w[\w.+-]*")
_SCHEMA_VERSION = 1
_HASH_LETTERS = 12
_CUT_OFF = "cut off"
_GPUS = "devices"
# Other numbers for the same machine, or for the same setting.
_VARYING = ("uuid", "pcie_generation", "pcie_width", "os")
# What makes numbers those of something else.
_DECISIVE = re.compile(r"machine\.(cpu|cpu_count|gpus(\.\d+\.name)?)|recorded_gpu|tool")


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredRun:
    """The numbers of one run, or of a saved baseline."""

    name: str
    """Name of the run."""

    began: dict[int, str]
    """When each repeat began, as text that sorts."""

    metrics: dict[str, Metric]
    """Metrics of `METRICS` that were measured, with the value of each repeat, and beside them the
    mean step, and the share of the time between steps where that is much."""

    facts: dict[str, str]
    """Tool that took the times, machine, versions, configuration and sources, by dotted key."""

    disturbed: tuple[int, ...] = ()
    """Repeats during which the machine was not quiet, or not as in the others."""

    failed: tuple[str, ...] = ()
    """Why its program failed after what was recorded, and that a recording is cut off."""

    conditions: dict[int, dict[str, float]] = field(default_factory=dict)
    """Means of clocks, temperatures and power during each repeat, and the load of the machine."""

    reasons: dict[str, Result] = field(default_factory=dict)
    """Results of `EXPLAINING` that say why it differs from another: those tables of them alone."""

    schema_version: int = _SCHEMA_VERSION


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """One fact in which two runs differ."""

    key: str
    before: str
    after: str

    @property
    def is_decisive(self) -> bool:
        """Whether a comparison in spite of it would mean nothing."""
        return bool(_DECISIVE.fullmatch(self.key) and self.before and self.after)

    def __str__(self) -> str:
        return f"{self.key} {self.before or 'unset'} -> {self.after or 'unset'}"


def measured(run: RunFolder, *, needs_steps: bool = True) -> MeasuredRun:
    """Return the numbers of a run; raises `InputError` if it has no step times but needs them."""
    hint = "profkit run makes them, with steps among its analyses"
    results = {name: found for name in _ANALYSES if (found := result_of(run, name)) is not None}
    if needs_steps and "steps" not in results:
        raise InputError(f"{run.name}: no step times", hint=hint)
    steps = results.get("steps", Result())
    known = ChainMap(*(found.metrics for found in results.values()))
    metrics = {
        name: known[name] for name in METRICS.values() if name in known and known[name].by_repeat
    }
    if (mean := unprofiled_mean(steps)) is not None:
        metrics[_STEP_TIME_MEAN] = mean
    if (between := steps.metrics.get(BETWEEN_STEPS)) is not None:
        metrics[BETWEEN_STEPS] = between
    records = _records(run)
    failures = (text for record in records for text in _failures(record))
    failed = tuple(dict.fromkeys((*failures, *_cut_off(result_of(run, "causes")))))
    if needs_steps and METRICS["step_time"] not in metrics:
        reasons = "; ".join([*failed, *(missing.reason for missing in steps.abstentions)])
        raise InputError(f"{run.name}: no step times: {reasons}", hint=hint)
    facts = [dict(_facts(record, run.unread)) for record in records]
    keys = dict.fromkeys(key for record in facts for key in record)
    return MeasuredRun(
        name=run.name,
        began=beginnings(steps),
        metrics=metrics,
        facts={
            key: " or ".join(dict.fromkeys(record.get(key, "unset") for record in facts))
            for key in keys
        }
        | _recorded_gpus(run),
        disturbed=tuple(
            record["repeat"] for record in records if record.get("conditions", {}).get("warnings")
        ),
        failed=failed,
        conditions={
            record["repeat"]: dict(_conditions(record.get("conditions", {}))) for record in records
        },
        reasons={
            name: _reason(found, tables)
            for name, tables in EXPLAINING.items()
            if (found := result_of(run, name)) is not None
        },
    )


def timed_alike(before: MeasuredRun, after: MeasuredRun) -> tuple[MeasuredRun, MeasuredRun]:
    """Return two runs, with their mean steps by repeat where steps of one of them are uneven.

    The value of the step time remains what was measured of each alone.
    """
    name, runs = METRICS["step_time"], (before, after)
    if not all({name, _STEP_TIME_MEAN} <= {*run.metrics} for run in runs):
        return runs
    means = [run.metrics[_STEP_TIME_MEAN] for run in runs]
    if not any(map(is_mean_of_uneven, means)):
        return runs
    first, second = (
        replace(run, metrics={**run.metrics, name: replace(mean, value=run.metrics[name].value)})
        for run, mean in zip(runs, means, strict=True)
    )
    return first, second


def step_times_ns(runs: Sequence[MeasuredRun]) -> list[float | None]:
    """Return the step time of each run: the means of all where steps of one are uneven."""
    name = METRICS["step_time"]
    means = [run.metrics.get(_STEP_TIME_MEAN) for run in runs]
    found = means if any(map(is_mean_of_uneven, means)) and all(means) else []
    found = found or [run.metrics.get(name) for run in runs]
    return [metric.value if metric and metric.value > 0 else None for metric in found]


def result_of(run: RunFolder, analysis: str) -> Result | None:
    """Return what an analysis left of a run, None if it was not made."""
    path = run.path / "analyze" / f"{analysis}.json"
    return result.read(path).result if path.is_file() else None


def _reason(found: Result, tables: Iterable[str]) -> Result:
    """Return the part of a result that says why runs differ."""
    return Result(
        metrics=found.metrics,
        tables={name: found.tables[name] for name in tables if name in found.tables},
    )


def _records(run: RunFolder) -> list[dict[str, Any]]:
    """Return the good captures of the tool that took the times: the baseline, or the first."""
    good = [record for record in run.captures if record["status"] == "ok"]
    tools = [record.get("tool", "") for record in good]
    timed = BASELINE if BASELINE in tools else next(iter(tools), "")
    return [record for record in good if record.get("tool", "") == timed]


def _failures(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield of what the program of a capture failed after what was recorded."""
    for text in record.get("warnings", ()):
        if text.startswith(FAILED_AFTER):
            yield text


def _cut_off(causes: Result | None) -> Iterator[str]:
    """Yield the failed check of a recording that is cut off, if it is."""
    checks = causes.tables["trust"].records() if causes and "trust" in causes.tables else []
    for check in checks:
        if check["check"] == _CUT_OFF and check["passed"] == "false":
            yield check["message"]


def _facts(record: Mapping[str, Any], unread: Container[str]) -> Iterator[tuple[str, str]]:
    """Yield what the numbers of one capture depend on; no setting that is `unread`."""
    yield "tool", str(record.get("tool", ""))
    for part in ("machine", "versions"):
        yield from _flat(record.get(part) or {}, part)
    settings = record.get("workload") or {}
    yield from _flat({key: settings[key] for key in settings if key not in unread}, "")
    folder = record.get("workload", {}).get("launcher", {}).get("cwd") or "."
    for source in record.get("sources") or ():
        # Two folders of the same project have the same files.
        path = Path(os.path.relpath(source["path"], folder))
        name = source["path"] if ".." in path.parts else path
        yield f"sources.{name}", source["sha256"][:_HASH_LETTERS]
    for name, state in (record.get("git") or {}).items():
        changes = " with changes" if state.get("dirty") else ""
        yield f"git.{name}", f"{state.get('commit', '')[:_HASH_LETTERS]}{changes}"


def _conditions(recorded: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield the load of the machine, and the mean of each reading during a capture."""
    cpu = recorded.get("cpu", {})
    for name in ("load_before", "other_work_share"):
        if name in cpu:
            yield name, cpu[name]
    parts = {"cpu": cpu}
    parts |= {f"gpu{i}": gpu["at_work"] for i, gpu in enumerate(recorded.get("gpus", ()))}
    for part, readings in parts.items():
        for name, values in readings.items():
            if isinstance(values, dict) and "mean" in values:
                yield f"{part}.{name}", values["mean"]


def _flat(value: Any, key: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for name, inner in items:
            if name not in _VARYING:
                yield from _flat(inner, f"{key}.{name}".removeprefix("."))
    else:
        yield key, str(value)


def _recorded_gpus(run: RunFolder) -> dict[str, str]:
    """Return the GPUs that recordings of the run name: all that is known of an imported one's."""
    loaded = LoadedRun(run.path)
    tables = (loaded.table(_GPUS, tool)["name"] for tool in loaded.tables.get(_GPUS, ()))
    names = sorted({str(name) for table in tables for name in table if str(name)})
    return {"recorded_gpu": " and ".join(names)} if names else {}


def differences(one: MeasuredRun, other: MeasuredRun) -> list[Difference]:
    """Return the facts in which two runs differ, the decisive ones first."""
    found = [
        Difference(key=key, before=one.facts.get(key, ""), after=other.facts.get(key, ""))
        for key in dict.fromkeys([*one.facts, *other.facts])
        if one.facts.get(key, "") != other.facts.get(key, "")
    ]
    return sorted(found, key=lambda difference: not difference.is_decisive)


def save_baseline(name: str, run: MeasuredRun) -> Path:
    """Keep the numbers of a run under a name, and return the file; raises `InputError`."""
    if not _NAME.fullmatch(name):
        raise InputError(f"{name!r}: not a name", hint="letters, digits, and . + - after the first")
    path = BASELINES / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, msgspec.json.format(msgspec.json.encode(run), indent=1) + b"\n")
    return path


def is_baseline(name: str) -> bool:
    """Say whether a baseline has that name."""
    return (BASELINES / f"{name}.json").is_file()


def read_baseline(name: str) -> MeasuredRun:
    """Return the baseline with a name, or in a file; raises `InputError`."""
    path = next((path for path in (BASELINES / f"{name}.json", Path(name)) if path.is_file()), None)
    if path is None:
        saved = [known.stem for known in saved_results()]
        hint = nearest(name, saved) if saved else "profkit baseline save NAME makes one"
        raise InputError(f"no baseline is called {name!r}", hint=hint)
    try:
        baseline = msgspec.json.decode(path.read_bytes(), type=MeasuredRun)
    except msgspec.MsgspecError as error:
        raise InputError(f"{path}: no baseline: {error}", hint="save it again") from None
    if baseline.schema_version != _SCHEMA_VERSION:
        raise InputError(
            f"{path}: baseline of schema version {baseline.schema_version}, not {_SCHEMA_VERSION}",
            hint="save it again",
        )
    return baseline
