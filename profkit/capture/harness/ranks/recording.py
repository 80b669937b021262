"""What records a rank: the tool's own recorder, and the ranges that it sees."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from profkit import marks
from profkit.capture.base import NullRecorder, Rank, Recorder, Session, Tool, Wrapper
from profkit.capture.harness.ranks import nvtx_ranges, recorded_ranges


def recording(
    out: Path, rank: Rank, tool: Tool, *, is_profiled: bool
) -> AbstractContextManager[Recorder]:
    """Return the context in which `tool` records this process as `rank`, if it `is_profiled`."""
    if is_profiled and isinstance(tool, Session):
        return tool.record(out, rank)
    if is_profiled and isinstance(tool, Wrapper):
        return tool.inside_workload(out, rank)
    return nullcontext(NullRecorder())


def step_markers(*, are_on_threads: bool = False) -> tuple[marks.Marker, ...]:
    """Return the ranges around steps and phases: record_function's, and NVTX's if recorded.

    If steps `are_on_threads`, one may end on another thread than it began on.
    """
    # Late: the outer process of a wrapper does not need torch.
    from torch.profiler import record_function

    recorded_ranges.end_before_recordings()
    if nvtx_ranges.is_recorded():
        span = nvtx_ranges.spans()
        across = nvtx_ranges.cross_thread_spans() if are_on_threads else span
        return record_function, lambda name: (across if name.startswith(marks.STEP) else span)(name)
    return (record_function,)
