"""A selection as a sweep would leave it: six runs, every kind of chart, a failure, abstentions."""

import json
import math
import random
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from profkit.analyze.step_timeline import analyze
from profkit.core.drawing import Detail, Drawing
from profkit.core.job_record import NOTHING
from profkit.core.result import (
    Abstention,
    Chart,
    Document,
    Finding,
    Metric,
    Result,
    Severity,
    Table,
    write,
)
from profkit.testing import run
from tests.recorded_ranks import tables

HOSTILE = "</script><img src=x onerror=alert(1)>"
MARKUP = "<b>bold</b> <a href='https://example.org'>link</a> &amp; $x$ %{y}"
TOOLS = {"baseline": {}, "torch_profiler": {"active": 4}, "py_spy": {"rate_hz": 100}}
MACHINE = {
    "hostname": "bench-01",
    "os": "Linux 6.1",
    "python": "3.11.9",
    "cpu": "AMD EPYC 9354 32-Core Processor",
    "cpu_count": 16,
    "memory_bytes": 137438953472,
    "gpus": [{"name": "NVIDIA H100 80GB HBM3", "memory_bytes": 85520809984}],
    "driver": "570.86.15",
    "cuda": "12.8",
}
VERSIONS = {"profkit": "0.1.0", "torch": "2.13.0", "numpy": "2.3.1"}
OPERATORS = (
    "aten::addmm",
    "aten::mm",
    "aten::native_layer_norm",
    "aten::scaled_dot_product_attention",
    "aten::gelu",
    "aten::embedding_dense_backward",
    "Optimizer.step#AdamW.step",
    "c10d::allreduce_",
    "autograd::engine::evaluate_function: AddmmBackward0",
    "aten::copy_",
    "aten::add_",
    "aten::_softmax",
    HOSTILE,
    MARKUP,
)
KERNELS = (
    "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_segment_k_off__5x_cublas",
    "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl(Type)>(int)",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x256_16x3_nt_align4>(Params)",
    "Memcpy HtoD (Pageable -> Device)",
    HOSTILE,
)
SWEEP = [(model, batch) for model in ("gpt_tiny", "cnn_small") for batch in (1, 2, 4)]


def build(root: Path, *, count: int = len(SWEEP), rows: int = 5000, others: int = 60) -> Path:
    """Write `count` runs below `root` and return the selection.

    A table of the first run has `rows` rows, of the others `others`.
    """
    entries = []
    for index in range(count):
        model, batch = SWEEP[index % len(SWEEP)]
        name = f"train-{model}-b{batch}-{index:08x}"
        folder = root / "results" / "runs" / name
        _write_run(folder, model, batch, index, rows if index == 0 else others)
        differs = {"model": model, "batch": batch}
        if count > len(SWEEP):
            differs["seed"] = index // len(SWEEP)
        entries.append(_entry(name, model, batch, differs if count > 1 else {}))
    selection = {
        "title": "GPT and CNN against the batch size" if count > 1 else "gpt_tiny, batch 1",
        "overrides": ["model=gpt_tiny,cnn_small", "batch=1,2,4", "+tool=py_spy"],
        "command": "profkit run model=gpt_tiny,cnn_small batch=1,2,4 +tool=py_spy",
        "runs": entries,
        "notes": ["py_spy was asked for 2 ranks and sampled both."],
    }
    path = root / "results" / "selection.json"
    path.write_text(json.dumps(selection))
    return path


def _entry(name: str, model: str, batch: int, differs: dict[str, Any]) -> dict[str, Any]:
    return {
        "run": name,
        "folder": f"results/runs/{name}",
        "tools": TOOLS,
        "analyses": [
            "steps",
            "breakdown",
            "operators",
            "kernels",
            "memory",
            "observer_tax",
            "step_timeline",
            "step_costs",
        ],
        "behaviour": _behaviour(model, batch),
        "command": f"profkit run model={model} batch={batch} +tool=py_spy",
        "differs": differs,
    }


def _behaviour(model: str, batch: int) -> dict[str, Any]:
    return {
        "workload": {"name": "train"},
        "model": {"name": model, "family": "gpt", "layers": 4},
        "batch": batch,
        "world_size": 2,
        "steps": 12,
        "device": "auto",
    }


def _write_run(folder: Path, model: str, batch: int, index: int, rows: int) -> None:
    noise = random.Random(index)  # noqa: S311 - reproducible numbers, no secret
    failed = index == 4
    captures = [
        _capture(folder, tool, repeat, failed=failed and tool == "py_spy")
        for tool in TOOLS
        for repeat in range(2)
    ]
    manifest = {
        "schema_version": 1,
        "run": folder.name,
        "command": f"profkit run model={model} batch={batch}",
        "machine": MACHINE,
        "versions": VERSIONS,
        "git": {"profkit": {"commit": "4f2a9c1d", "dirty": False}, "cwd": {"commit": "77ab01fe"}},
        "captures": captures,
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    notes = [{"file": "rank0_dp0_tp0_pp0.pt.trace.json", "text": "2 overlapping slices repaired"}]
    _json(
        folder / "tables" / "torch_profiler" / "convert.json",
        {"tool": "torch_profiler", "notes": notes, "provenance": asdict(NOTHING)},
    )
    _text(folder / "convert" / "py_spy" / "rank0_dp0_tp0_pp0.rep0.svg", "<svg/>")
    _text(folder / "convert" / "py_spy" / "rank0_dp0_tp0_pp0.rep0.speedscope.json", "{}")
    step_ns = (9.1e6 if model == "gpt_tiny" else 14.3e6) * (0.55 + 0.45 * batch)
    for analysis, (title, summary, result) in _results(step_ns, batch, noise, rows, index).items():
        _document(folder / "analyze" / f"{analysis}.json", analysis, title, summary, result)


def _capture(folder: Path, tool: str, repeat: int, *, failed: bool) -> dict[str, Any]:
    target = folder / "capture" / tool / f"rep{repeat}"
    document = {
        "schema_version": 1,
        "tool": tool,
        "repeat": repeat,
        "attempt": 1,
        "status": "timeout" if failed else "ok",
        "reason": "no end after 1800 s" if failed else "",
        "command": ["py-spy", "record", "--", "python", "a b.py", HOSTILE],
        "settings": {},
        "workload": {},
        "started": "2026-11-20T19:58:07+00:00",
        "ended": "2026-11-20T20:03:21+00:00",
        "elapsed_s": 1800.2 if failed else 7.31,
        "exit_code": None if failed else 0,
        "warnings": ["the clock of rank 1 is 3 ms behind"] if tool == "torch_profiler" else [],
        "log_tail": [f"step {i}" for i in range(38)] + [f"Killed {HOSTILE}"] if failed else [],
        "machine": MACHINE,
        "versions": VERSIONS,
    }
    _json(target / "capture.json", document)
    _text(target / "capture.log", "log")
    _text(target / "rank0_dp0_tp0_pp0.pt.trace.json", "{}" * 4000)
    return {key: document[key] for key in ("tool", "repeat", "status", "elapsed_s", "exit_code")}


def _json(path: Path, value: object) -> None:
    _text(path, json.dumps(value))


def _text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _document(path: Path, analysis: str, title: str, summary: str, result: Result) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write(
        path,
        Document(
            analysis=analysis, title=title, summary=summary, result=result, provenance=NOTHING
        ),
    )


def _results(
    step_ns: float, batch: int, noise: random.Random, rows: int, index: int
) -> dict[str, tuple[str, str, Result]]:
    return {
        "steps": (
            "Step times",
            "Time of each step on the slowest rank.\n\nOutliers lie 3 deviations from the median.",
            _steps(step_ns, batch, noise),
        ),
        "breakdown": ("Where the time goes", "Share of each rank's step time.", _breakdown(noise)),
        "operators": (
            "Operators",
            "Calls and time of each operator, summed over all ranks and steps.",
            _operators(step_ns, noise),
        ),
        "kernels": ("Kernels", "Work on the device by kernel.", _kernels(step_ns, noise, rows)),
        "memory": ("Memory", "Allocated memory over one step.", _memory(batch, noise, index)),
        "observer_tax": ("Cost of profiling", "Slowdown of each tool.", _tax(noise, index)),
        "step_timeline": ("Timeline", "What ran when.", _timeline()),
        "step_costs": ("Costs of a step", "What a step is spent on.", _costs()),
    }


@cache
def _timeline() -> Result:
    return run(analyze, **tables(HOSTILE))


def _costs() -> Result:
    texts = ["", "GPU computing", HOSTILE, "aten::mm", "gemm", MARKUP]
    columns = {"cause": [1, 1], "module": [2, 0], "operator": [3, 2], "kernel": [4, 5]}
    columns |= {"library": [0, 0], "file": [0, 0]}
    first = columns | {"calls_per_step": [2, 1], "ms_per_step": [3, 1], "texts": texts}
    other = first | {"ms_per_step": [8, 2]}
    drawing = Drawing(
        kind="costs",
        title="Costs of a step",
        data={"ranks": [1, 0], "ranks_recorded": 2, "first": first},
        details=(Detail.of("rank 0", other),),
    )
    return Result(drawings={"step_costs": drawing})


def _steps(step_ns: float, batch: int, noise: random.Random) -> Result:
    rows = tuple(
        (rank, repeat, step, int(step_ns * noise.gauss(1, 0.04) * (1.5 if step == 7 else 1)))
        for rank in range(2)
        for repeat in range(3)
        for step in range(3, 12)
    )
    metrics = {
        "step_time_ns": Metric(value=step_ns, unit="ns", title="Median step time", better="lower"),
        "throughput_per_s": Metric(
            value=2 * batch * 1e9 / step_ns,
            unit="samples_per_s",
            title="Throughput",
            better="higher",
        ),
        "peak_memory_bytes": Metric(
            value=int(4.1e8 + 6.3e7 * batch), unit="bytes", title="Peak memory", better="lower"
        ),
        "spread_share": Metric(value=0.042, unit="share", title="Spread of steps", better="lower"),
    }
    finding = Finding(
        severity=Severity.INFO,
        message="Step 7 took 1.5 times the median on both ranks.",
        metric="outlier_ratio",
        value=1.5,
        unit="ratio",
        evidence={"rank": 1, "step": 7, "step_ns": int(step_ns * 1.5)},
    )
    return Result(
        findings=(finding,),
        metrics=metrics,
        tables={
            "steps": Table(title="Steps", columns=("rank", "repeat", "step", "step_ns"), rows=rows)
        },
        charts=(
            Chart(
                kind="scatter",
                title="Time of each step",
                table="steps",
                x="step",
                y=("step_ns",),
                color="rank",
            ),
            Chart(kind="box", title="Spread by rank", table="steps", x="rank", y=("step_ns",)),
        ),
        drawings={"steps_map": _map(rows)},
    )


def _map(rows: Sequence[tuple[int, int, int, int]]) -> Drawing:
    """Return two repeats as a matrix of four ranks, with a layer that is unpacked when chosen."""
    times = [time_ns for repeat in range(2) for _, own, _, time_ns in rows if own == repeat]
    layer = {"unit": "ns", "columns": 9}
    return Drawing(
        kind="matrix",
        title="Time of each step on each rank",
        data={
            "rows": {"of": "rank", "names": [0, 1, 2, 3]},
            "columns": {"of": "step", "names": list(range(3, 12))},
            "layers": [
                {"title": "Step time", "group": "Step", "values": times, "alike": [2, 0, 3, 1]}
                | layer,
                {"title": HOSTILE, "group": MARKUP, "values": [], "alike": []} | layer,
            ],
        },
        details=(Detail.of(HOSTILE, {"values": [1_500_000] * len(times), "alike": [3, 2, 1, 0]}),),
    )


def _breakdown(noise: random.Random) -> Result:
    columns = (
        "rank",
        "kernel_share",
        "copy_share",
        "runtime_share",
        "data_loading_share",
        "other_cpu_share",
        "idle_share",
    )
    rows = []
    for rank in range(2):
        parts = [0.46, 0.03, 0.11, 0.02 + 0.02 * noise.random(), 0.14]
        rows.append((rank, *parts, 1 - sum(parts)))
    idle = rows[0][-1]
    return Result(
        findings=(
            Finding(
                severity=Severity.BAD if idle > 0.23 else Severity.WARN,
                message=f"The device is idle for {idle:.0%} of the step on rank 0.",
                metric="idle_share",
                value=idle,
                unit="share",
                evidence={"rank": 0, "longest_gap_ns": 1_830_112, "table": "kernels"},
                advice="Launch more work at once: a larger batch, CUDA graphs, fewer syncs.",
            ),
        ),
        metrics={
            "idle_share": Metric(
                value=idle, unit="share", title="Idle share of the step", better="lower"
            )
        },
        tables={"parts": Table(title="Parts of the step", columns=columns, rows=tuple(rows))},
        charts=(
            Chart(
                kind="stacked_bar",
                title="Step time by what runs",
                table="parts",
                x="rank",
                y=columns[1:],
                horizontal=True,
            ),
        ),
    )


def _operators(step_ns: float, noise: random.Random) -> Result:
    columns = ("name", "calls", "self_cpu_ns", "total_cpu_ns", "self_share", "input_bytes", "flops")
    rows = []
    for index, name in enumerate(OPERATORS):
        share = 0.31 / (index + 1)
        own = int(step_ns * share)
        flops = int(2e9 * noise.random()) if "mm" in name else None
        rows.append((name, 24 * (index + 1), own, int(own * 1.7), share, 4096 * (index + 3), flops))
    rows.append(("aten::quiet", 3, None, None, None, 0, None))
    return Result(
        findings=(
            Finding(
                severity=Severity.WARN,
                message=f"{HOSTILE} takes 31% of the CPU time of all operators.",
                metric="top_self_share",
                value=0.31,
                unit="share",
                evidence={"operator": HOSTILE, "calls": 24},
                advice="Fuse it, or call it less often.",
            ),
        ),
        metrics={"operator_count": Metric(value=len(rows), unit="count", title="Operators")},
        tables={
            "by_name": Table(
                title="Operators by name",
                columns=columns,
                rows=tuple(rows),
                note="Self time leaves out what the operator called.",
            )
        },
        charts=(
            Chart(
                kind="bar",
                title="Self CPU time by operator",
                table="by_name",
                x="name",
                y=("self_cpu_ns",),
                horizontal=True,
            ),
        ),
    )


def _kernels(step_ns: float, noise: random.Random, rows: int) -> Result:
    columns = ("kernel", "kind", "calls", "device_ns", "device_share", "occupancy_percent")
    every = []
    for index in range(rows):
        name = KERNELS[index] if index < len(KERNELS) else f"triton_poi_fused_add_{index}"
        kind = "communication" if "nccl" in name else "copy" if "Memcpy" in name else "compute"
        time_ns = int(step_ns * 0.3 / (index + 1))
        every.append((name, kind, 12 + index, time_ns, 0.3 / (index + 1), 100 * noise.random()))
    return Result(
        drawings={"frames": _frames()},
        tables={"kernels": Table(title="Kernels by name", columns=columns, rows=tuple(every))},
        charts=(
            Chart(
                kind="bar",
                title="GPU time by kernel",
                table="kernels",
                x="kernel",
                y=("device_ns",),
                color="kind",
                horizontal=True,
            ),
        ),
        abstentions=(
            Abstention(
                what="achieved occupancy",
                reason="no tool of this run reads hardware counters; add +tool=ncu",
            ),
        ),
    )


def _frames() -> Drawing:
    """Return a flame graph of two ranks: modules, operators, a library and a kernel."""
    tree = {
        "names": ["Net", HOSTILE, MARKUP, "gemm", "softmax"],
        "kinds": ["module", "operator", "library:torch", "kernel"],
        "kind": [0, 1, 2, 3, 3],
        "above": [-1, 0, 1, 2, 0, -1],
        "name": [0, 1, 2, 3, 4, 3],
        "own": [[0, 0, 0, 3_000_000, 1_000_000, 6_000_000], [10, 20, 30, 0, 0, 0]],
        "groups": [["main thread", "forward"], ["main thread", "backward"]],
        "group": [0, 0, 0, 0, 0, 1],
        "of": 3,
    }
    measures = [{"title": "GPU time", "column": 0}, {"title": "CPU time", "column": 1}]
    look = {"unit": "ns", "of": "Rank", "total": 2, "groups": ["Thread", "Phase"]}
    return Drawing(
        kind="flame",
        title="A step by module, operator and kernel",
        data=look | {"measures": measures},
        details=(
            Detail.of("rank 0", tree),
            Detail.of("rank 1", tree | {"own": [[0, 0, 0, 1000, 0, 0], [0] * 6]}),
        ),
    )


def _held() -> Drawing:
    """Return memory over time of two devices, the second packed, and a request that failed."""
    stack = {"frames": ["linear (f.py:9)", f"{HOSTILE} (model.py:3)"], "own": [1]}
    failed = {"asked_bytes": 2**30, "free_bytes": 2**20, "reserved_bytes": 2**22}
    track = {
        "event": [-1, 0, 4],
        "time_ns": [0, 2_000_000, 3_000_000],
        "reserved_bytes": [4096, 4096, 8192],
        "origins": ["optimizer", MARKUP],
        "origin": [0, 1],
        "stack": [-1, 0],
        "live_bytes": [[1024, 1024, 1024], [0, 2048, 0]],
        "lines": [f"{HOSTILE} (model.py:3)"],
        "stacks": [stack],
        "peak": 1,
        "steps": {"step": [3], "at": [1]},
        "out_of_memory": [failed | {"at": 2, "allocated_bytes": 1024, "step": 3, "stack": stack}],
        "closed_form_bytes": 3000,
        "fits_with": "",
    }
    columns = ("size_bytes", "start_event", "end_event", "start_ns", "end_ns", "step")
    single = dict(zip(columns, ([2048], [0], [4], [10], [20], [3]), strict=True))
    single |= {"total": 1, "line": [0], "lines": track["lines"], "origin": [0], "origins": [MARKUP]}
    other = track | {"out_of_memory": [], "live_bytes": [[1024] * 3, [0, 512, 0]]}
    return Drawing(
        kind="memory",
        title="Allocated and reserved over time",
        data={"devices": ["rank 0, cuda:0", "rank 1, cuda:0"], "total": 3, "first": track},
        details=(
            Detail.of("allocations, one by one", single),
            Detail.of("rank 1, cuda:0", other),
        ),
    )


def _memory(batch: int, noise: random.Random, index: int) -> Result:
    if index == 2:
        return Result.abstain("allocated memory", "profile_memory was off in this capture")
    rows = []
    for instant in range(200):
        level = 2e8 + 1.2e8 * batch * max(0.0, math.sin(instant / 200 * math.pi))
        rows.append((instant * 55_000, "cuda:0", int(level * noise.gauss(1, 0.01))))
        rows.append((instant * 55_000, "cpu", int(9e7 + 1e5 * instant)))
    return Result(
        drawings={"held": _held()},
        tables={
            "timeline": Table(
                title="Allocated memory",
                columns=("time_ns", "device", "allocated_bytes"),
                rows=tuple(rows),
            ),
            "modules": _modules(batch),
            "instants": Table(
                title="Held at each instant",
                columns=("instant", "held_bytes"),
                rows=tuple(
                    (f"step {step}, {point}", 10**3 * batch * 10 ** (2 * step))
                    for step in range(3)
                    for point in ("forward", "backward", "optimizer")
                ),
            ),
        },
        charts=(
            Chart(
                kind="stacked_bar",
                title="Held at each instant",
                table="instants",
                x="instant",
                y=("held_bytes",),
            ),
            Chart(
                kind="line",
                title="Held at each instant, on a logarithmic axis",
                table="instants",
                x="instant",
                y=("held_bytes",),
                log=("y",),
            ),
            Chart(
                kind="line",
                title="Allocated memory over a step",
                table="timeline",
                x="time_ns",
                y=("allocated_bytes",),
                color="device",
            ),
            Chart(
                kind="sunburst",
                title="Memory by module, as a sunburst",
                table="modules",
                x="module",
                y=("size_bytes",),
            ),
        ),
    )


def _modules(batch: int) -> Table:
    layers = [
        (f"model;layers;{layer};{part}", size * batch)
        for layer in range(4)
        for part, size in (("attention;qkv", 3 << 20), ("attention;out", 1 << 20), ("mlp", 8 << 20))
    ]
    rows = (("model;embedding", 40 << 20), *layers, (f"model;{HOSTILE}", 1 << 20))
    return Table(title="Memory by module", columns=("module", "size_bytes"), rows=rows)


def _tax(noise: random.Random, index: int) -> Result:
    if index == 4:
        return Result.abstain("the slowdown by py_spy", "its captures failed")
    rows = (
        ("torch_profiler", 1.21 + 0.1 * noise.random(), 8_100_000),
        ("py_spy", 1.02 + 0.03 * noise.random(), 410_000),
    )
    return Result(
        tables={
            "tax": Table(
                title="Slowdown against baseline",
                columns=("tool", "slowdown_ratio", "added_ns"),
                rows=rows,
            )
        },
        charts=(
            Chart(
                kind="bar",
                title="Slowdown against baseline",
                table="tax",
                x="tool",
                y=("slowdown_ratio",),
            ),
        ),
    )
