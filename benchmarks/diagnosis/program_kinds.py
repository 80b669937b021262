"""The faults of real programs on the CPU, and what `profkit profile` must say of them."""

import json
import os
import shlex
from pathlib import Path

import numpy as np
import pandas as pd

from profkit.analyze.shared import intervals
from profkit.analyze.shared.intervals import Intervals
from profkit.cli import profile as profile_command
from profkit.core import result
from tests import stages
from tests.warm_ranks import warm_rank_python

from .expected import Kind

_CPU, _INPUT, _STRAGGLER = "CPU-bound", "input-bound", "straggler"
_WAITS = "waiting"
_COMMUNICATION = "communication-bound"
_OPERATORS, _PYTHON, _LOADING = "cpu_operators", "python", "loading_data"
_WAITING, _TRANSFER = "exposed_communication.waiting", "exposed_communication.transfer"
_EITHER = (_PYTHON, _OPERATORS)
"""Python that calls operators: which of the two takes longer depends on the size."""

_PROGRAM = Path(__file__).parent / "programs/train.py"


def _kind(
    name: str, limiter: str, causes: str | tuple[str, ...], words: str, *, has_size: bool = True
) -> Kind:
    world = 2 if limiter in (_STRAGGLER, _COMMUNICATION) else 1
    return Kind(
        name=name,
        limiters=(limiter,),
        causes=(causes,) if isinstance(causes, str) else causes,
        words=words,
        sizes=tuple({"size": size, "world": world} for size in range(3)),
        has_size=has_size,
    )


KINDS = (
    _kind("SlowDecode", _INPUT, _LOADING, "decode|load"),
    _kind("FewWorkers", _INPUT, _LOADING, "num_workers|worker"),
    _kind("ExtraMatmul", _CPU, _OPERATORS, "regularize|aten::mm"),
    _kind("Copies", _CPU, _OPERATORS, "rearrange|copy_|contiguous"),
    _kind("DeepCopy", _CPU, _EITHER, "keep_weights|deepcopy"),
    _kind("LogToDisk", _CPU, _PYTHON, "log_metrics"),
    _kind("Checkpoint", _CPU, _PYTHON, "save_checkpoint|torch.save"),
    _kind("GarbagePressure", _CPU, "garbage_collection", "gc.|garbage"),
    _kind("GrowingHistory", _CPU, _OPERATORS, "remember|aten::cat"),
    _kind("UnfusedOptimizer", _CPU, _EITHER, "foreach|fused"),
    _kind("DoublePrecision", _CPU, _OPERATORS, "float64|fp64|double"),
    _kind("Conversions", _CPU, _OPERATORS, "normalize|conver|float64|_to_copy|copy_"),
    _kind("Oversubscribed", _CPU, (*_EITHER, "waiting_for_thread"), "thread", has_size=False),
    _kind("SlowRank", _STRAGGLER, (_WAITING, _PYTHON), "rank 1|augment"),
    _kind("LateRank", _STRAGGLER, (_WAITING, _PYTHON), "rank 1|augment"),
    _kind("UnevenData", _STRAGGLER, (_WAITING, _OPERATORS), "rank 1|pad|aten::mm"),
    _kind("SmallMessages", _COMMUNICATION, _TRANSFER, "average_metrics|bucket|coalesce|all_reduce"),
    _kind("LargeTransfer", _COMMUNICATION, _TRANSFER, "share_table|all_reduce|compress|overlap"),
    _kind("HeldLock", _WAITS, "waiting_for_thread", "flush|lock"),
    _kind("BusyThread", _CPU, (_PYTHON, _OPERATORS, "waiting_for_thread"), "gil|count|thread",
          has_size=False),
    _kind("Recompiles", _CPU, "compiler", "recompil|dynamic"),
    _kind("PythonLoop", _CPU, _EITHER, "accuracy"),
    _kind("EvaluateEachStep", _CPU, _EITHER, "evaluate"),
    _kind("PythonMetrics", _CPU, _PYTHON, "confusion"),
    _kind("OneHot", _CPU, _OPERATORS, "embed|one_hot"),
    _kind("Anomaly", _CPU, _EITHER, "anomaly", has_size=False),
    _kind("HugeTable", _CPU, _EITHER, "sparse|embedding"),
    _kind("PaddedTexts", _CPU, _OPERATORS, "padding"),
    _kind("Sleeping", _WAITS, "waiting_in_call", "report_progress|sleep"),
)  # fmt: skip

CLEAN = Kind(
    name="clean",
    limiters=(_CPU, "unstable"),
    sizes=({"size": 0, "world": 1},),
    has_size=False,
)


def profile(kind: Kind, size: int) -> float:
    """Profile one case in this folder; return what its fault cost per step, in ms.

    The captures are those of `profkit profile`, but their ranks are forks of a process that has
    loaded torch, and the stages run in this process.
    """
    options = kind.sizes[size]
    command = f"{_PROGRAM} {kind.name} {options['size']}"
    launcher = "torchrun" if options["world"] > 1 else "python"
    overrides = profile_command.overrides(
        [f"launcher={launcher}", f"launcher.python={warm_rank_python()}"],
        shlex.split(command),
        is_whole=False,
        is_thorough=False,
    )
    overrides += [f"world_size={options['world']}", "analysis=[verdict]"]
    times = Path("injected.jsonl")
    os.environ["DIAGNOSIS_INJECTED"] = str(times.absolute())
    stages.capture(*overrides)  # type: ignore[no-untyped-call]
    stages.report_of(*overrides)  # type: ignore[no-untyped-call]
    return _injected_ms(times) if times.is_file() else 0.0


def _injected_ms(path: Path) -> float:
    """Return what the fault took per step that the verdict is about, on the rank that has it."""
    capture = path.parent / "results/runs"
    steps = pd.concat(map(pd.read_parquet, capture.glob("*/tables/torch_profiler/steps.parquet")))
    (causes,) = capture.glob("*/analyze/causes.json")
    divided = result.read(causes).result.tables
    if "by_step" not in divided:
        # A capture that failed, as on a machine without memory, has no steps.
        return 0.0
    by_step = divided["by_step"]
    kept = {row[by_step.columns.index("step")] for row in by_step.rows}
    # The last of the lines is the process with the profiler; the baseline came before it.
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    spans = {line["rank"]: np.array(line["spans"]).reshape(-1, 2) for line in lines}
    return max(
        _inside_ms(spans[rank], rows[rows["step"].isin(kept)])
        for rank, rows in steps.groupby("rank", observed=True)
    )


def _inside_ms(spans: Intervals, steps: pd.DataFrame) -> float:
    """Return the time of `spans` from the first to the last of the `steps`, by step."""
    window = np.array([[steps["start_ns"].min(), steps["end_ns"].max()]])
    return int(intervals.overlap(window, intervals.union(spans)).sum()) / len(steps) / 1e6
