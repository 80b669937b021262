"""What to record where that is too little to say what limits a step."""

from collections.abc import Iterable, Mapping
from typing import Any

from profkit.analyze._other_programs import PROGRAM
from profkit.analyze.division.cpu_threads import START_UP
from profkit.core.verdict import Action, Cause, Confidence

_SOURCES = {
    "nsys": "https://docs.nvidia.com/nsight-systems/UserGuide/index.html#cli-profiling",
    "trace": "https://docs.pytorch.org/docs/stable/profiler.html#torch.profiler.schedule",
}
_STEPS = {
    "nsys": (
        'after warm-up: `torch.cuda.nvtx.range("step 1")` around each, from '
        "`--capture-range=cudaProfilerApi` on"
    ),
    PROGRAM: (
        'after warm-up: `nvtxRangePush("step 1")` before each and `nvtxRangePop()` behind it, from '
        "`--capture-range=cudaProfilerApi` on"
    ),
    "trace": "after warm-up: `schedule(wait=1, warmup=3, active=5)` and `prof.step()` after each",
    "": "after warm-up: let the program make more steps",
}
_LINES = {
    "nsys": "add `--python-sampling=true`",
    PROGRAM: "add `--sample=process-tree`",
    "trace": "add `with_stack=True`",
    "": "use `tool=torch_profiler tools.torch_profiler.with_stack=true`",
}
_ROWS = "find why rows of GPU work are missing"
_REMEDIES = {
    "cut off": {"": "keep the whole file: it ends where it was no longer written or copied"},
    "GPU": {
        "nsys": "add `--trace=cuda,nvtx`",
        "": "add `ProfilerActivity.CUDA`; if it was there, see what the profiler prints about "
        "CUPTI or roctracer",
    },
    "MPS": {"": "see the GPU in Instruments of Xcode, from `torch.mps.profiler.profile()` on"},
    "kernels": {
        "nsys": f"{_ROWS}: read the diagnostics in the report, end other profilers (`dcgmi`), use "
        "an nsys as new as the driver",
        "": f"{_ROWS}: see what the profiler prints about CUPTI or roctracer, end other profilers "
        "(`nsys`, `dcgmi`), use a driver and a PyTorch of matching CUDA versions",
    },
    "CPU": {"nsys": "add `--trace=cuda,nvtx`", "": "add `ProfilerActivity.CPU`"},
    "operators": {"": "add `ProfilerActivity.CPU`"},
    "GPU work": {"": "record replays of a CUDA graph instead of its capture"},
    "graphs": {"": "run without CUDA graphs, or use a newer PyTorch and driver"},
    "clocks": {"": "synchronise the clocks of the hosts (NTP or PTP)"},
    "excerpt": {"": "keep the whole trace if this is a part"},
    "lost events": {"": "keep the whole trace"},
}
"""By check that failed, and by kind of imported file."""


def record_more(
    largest: Cause | None, failed: Iterable[str], behaviour: Mapping[str, Any]
) -> Action:
    """Return what to record of a run whose `largest` cause says too little, as an action."""
    kind = str(behaviour.get("imported", ""))
    own = PROGRAM if PROGRAM in failed and kind == "nsys" else kind
    missing = [remedy for check, remedy in _REMEDIES.items() if check in failed]
    has_steps = "steps" not in failed
    parts = ["Record again" if has_steps else f"Record 5 steady steps {_of(_STEPS, own)}"]
    if missing:
        parts.append(_of(missing[0], kind))
    elif largest is None or START_UP not in largest.id:
        parts.append(_of(_LINES, own))
    return Action(
        cause=largest.id if largest else "",
        title="The recording is incomplete" if has_steps else "Too few steady steps",
        advice=f"{', and '.join(parts)}.",
        gain_ms=0.0,
        confidence=Confidence.HIGH,
        source=_of(_SOURCES | {"": _SOURCES["trace"]}, kind),
    )


def _of(words: Mapping[str, str], kind: str) -> str:
    return words.get(kind, words[""])
