"""The faults of real programs on the CPU, and what `profkit profile` must say of them."""

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from .expected import Kind

_CPU, _INPUT, _STRAGGLER = "CPU-bound", "input-bound", "straggler"
_COMMUNICATION = "communication-bound"
_OPERATORS, _PYTHON, _LOADING = "cpu_operators", "python", "loading_data"
_WAITING, _TRANSFER = "exposed_communication.waiting", "exposed_communication.transfer"
_EITHER = (_PYTHON, _OPERATORS)
"""Python that calls operators: which of the two takes longer depends on the size."""

_PROGRAM = Path(__file__).parent / "programs/train.py"
_TIMEOUT_S = 600


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
    _kind("HeldLock", _CPU, "waiting_for_thread", "flush|lock"),
    _kind("BusyThread", _CPU, (_PYTHON, _OPERATORS, "waiting_for_thread"), "gil|count|thread",
          has_size=False),
    _kind("Recompiles", _CPU, "compiler", "recompil|dynamic"),
    _kind("PythonLoop", _CPU, _EITHER, "accuracy"),
    _kind("EvaluateEachStep", _CPU, _EITHER, "evaluate"),
    _kind("PythonMetrics", _CPU, _PYTHON, "confusion"),
    _kind("OneHot", _CPU, _OPERATORS, "embed|one_hot"),
    _kind("Anomaly", _CPU, _EITHER, "anomaly", has_size=False),
    _kind("HugeTable", _CPU, _EITHER, "sparse|embedding"),
    _kind("Sleeping", _CPU, _PYTHON, "report_progress|sleep"),
)  # fmt: skip

CLEAN = Kind(name="clean", limiters=(_CPU, "unstable"), sizes=({"size": 0, "world": 1},))


def profile(kind: Kind, size: int, folder: Path) -> float:
    """Profile one case in `folder`; return what its fault cost per step, in ms."""
    options = kind.sizes[size]
    program = [str(_PROGRAM), kind.name, str(options["size"])]
    launcher = ["torchrun", "--nproc-per-node", str(options["world"])]
    start = launcher if options["world"] > 1 else ["python"]
    times = folder / "injected.jsonl"
    here = {"DIAGNOSIS_INJECTED": str(times), "PYTHONPATH": str(Path(__file__).parents[2])}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = [sys.executable, "-m", "profkit", "profile", "--", *start, *program]
    ended = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | here | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=_TIMEOUT_S,
    )
    if ended.returncode:
        print(f"{kind.name} {size}: profkit ended with {ended.returncode}")
        print((ended.stdout + ended.stderr)[-2000:])
    return _injected_ms(times) if times.is_file() else 0.0


def _injected_ms(path: Path) -> float:
    """Return the mean of the steps that a profiler saw, of the rank with the fault."""
    found: dict[int, list[float]] = {}
    for line in path.read_text().splitlines():
        process = json.loads(line)
        seen = zip(process["steps"], process["recorded"], strict=True)
        found.setdefault(process["rank"], []).extend(ms for ms, is_recorded in seen if is_recorded)
    return max((statistics.mean(times) for times in found.values() if times), default=0.0)
