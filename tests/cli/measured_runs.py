"""Runs with step times in each repeat, as compared and gated."""

import json

import numpy as np

from profkit.core import result
from profkit.core.job_record import NOTHING
from profkit.core.result import Metric, Result, Table

STEADY = 1 + np.array([0.0, 0.002, -0.001, 0.001, -0.002, 0.0])
"""Factors of six repeats on a quiet machine."""

MACHINE = {"cpu": "one", "cpu_count": 2, "gpus": [{"name": "H100", "uuid": "a"}]}


def leave_run(  # noqa: PLR0913 - what a run may be
    folder,
    name,
    times,
    *,
    peaks=(),
    machine=MACHINE,
    day=1,
    batch=2,
    noisy=(),
    second=0,
    script="a",
    causes=None,
    warnings=(),
):
    """Leave a run with these step times in ms, captured in turn with others of the same day.

    `causes` are the times of causes in ms by id, of each repeat as well. `warnings` are those
    of each capture.
    """
    run = folder / "results/runs" / name
    for repeat in range(len(times)):
        path = run / f"capture/baseline/rep{repeat}/capture.json"
        path.parent.mkdir(parents=True)
        record = {"tool": "baseline", "repeat": repeat, "attempt": 1, "status": "ok", "reason": ""}
        conditions = {"warnings": ["other processes took the CPUs"] if repeat in noisy else []}
        record |= {"settings": {}, "workload": {"batch": batch, "model": {"name": "gpt"}}}
        record |= {"machine": machine, "versions": {"torch": "2.9"}, "conditions": conditions}
        record["sources"] = [{"path": "train.py", "sha256": script * 64}]
        record["git"] = {"project": {"commit": "c" * 40, "dirty": script != "a"}}
        record["warnings"] = list(warnings)
        path.write_text(json.dumps(record))
    began = tuple(
        (repeat, f"2026-01-{day:02} 10:{repeat:02}:{second:02}") for repeat in range(len(times))
    )
    values = {"step_time_ns": (times, 1e6, "ns"), "peak_memory_bytes": (peaks, 2**20, "bytes")}
    metrics = {
        name: Metric(
            value=float(np.median(of_repeat)) * factor,
            unit=unit,
            title=name,
            by_repeat={repeat: float(value) * factor for repeat, value in enumerate(of_repeat)},
        )
        for name, (of_repeat, factor, unit) in values.items()
        if len(of_repeat)
    }
    table = Table(title="Repeats", columns=("repeat", "began"), rows=began)
    leave_result(run, "steps", Result(metrics=metrics, tables={"per_repeat": table}))
    if causes:
        keys = ("rank", "repeat", "cause", "module", "operator", "kernel")
        columns = (*keys, "calls_per_step", "ms_per_step", "first_use_ms_per_step")
        ranks = ("rank", "launching_least_ns", "launching_most_ns", "decisive")
        parts = tuple(
            (0, repeat, cause, "", "", "", 1.0, float(ms), 0.0)
            for cause, times in causes.items()
            for repeat, ms in enumerate(times)
        )
        tables = {
            "parts": Table(title="", columns=columns, rows=parts),
            "ranks": Table(title="", columns=ranks, rows=((0, 0.0, 0.0, "true"),)),
        }
        leave_result(run, "causes", Result(tables=tables))


def leave_peak(run, **sizes):
    """Leave what filled the peak of a run: MiB by part of it."""
    parts = tuple((0, path, size * 2**20) for path, size in sizes.items())
    tables = {
        "parts": Table(title="", columns=("rank", "part", "size_bytes"), rows=parts),
        "stacks": Table(title="", columns=("rank", "stack", "size_bytes"), rows=()),
    }
    peak = Metric(value=sum(sizes.values()) * 2**20, unit="bytes", title="")
    leave_result(run, "memory_peak", Result(metrics={"peak_bytes": peak}, tables=tables))


def leave_result(run, analysis, found):
    """Leave what an analysis found of a run."""
    document = result.Document(
        analysis=analysis, title="", summary="", result=found, provenance=NOTHING
    )
    (run / "analyze").mkdir(parents=True, exist_ok=True)
    result.write(run / f"analyze/{analysis}.json", document)
