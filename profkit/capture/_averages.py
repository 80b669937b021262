"""PyTorch's own tables of averages, and its stacks, of one recording of its profiler."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.autograd.profiler_util import EventList
    from torch.profiler import profile

    from profkit.capture.torch_profiler import Capture

_MOST_EVENTS = 50_000
"""PyTorch takes about 0.1 ms of the program's time for each recorded event to make its tables."""

_FRAMES = 5
"""Callers of an operator that one row of a table is about."""


def tables(profiler: "profile", settings: "Capture") -> Iterator[str]:
    """Yield the tables of operators, of them by their shapes and by their callers."""
    if (count := _events(profiler)) > _MOST_EVENTS:
        yield (
            f"PyTorch would take too long for tables of {count:,} events: lower"
            " tools.torch_profiler.active to record fewer steps, or see the report\n"
        )
        return
    yield from _sorted("operators", profiler.key_averages(), settings)
    if settings.record_shapes:
        averages = profiler.key_averages(group_by_input_shape=True)
        yield from _sorted("operators and input shapes", averages, settings)
    if _has_stacks(settings):
        averages = profiler.key_averages(group_by_stack_n=_FRAMES)
        yield from _sorted("operators and their callers", averages, settings)


def _events(profiler: "profile") -> int:
    """Return how many events were recorded, without the Python objects that PyTorch makes."""
    kineto = profiler.profiler.kineto_results if profiler.profiler is not None else None
    return len(kineto.events()) if kineto is not None else 0


def _sorted(what: str, averages: "EventList", settings: "Capture") -> Iterator[str]:
    orders = ["self_cpu_time_total", "cpu_time_total"]
    if any(row.self_device_time_total for row in averages):
        orders += ["self_device_time_total", "device_time_total"]
    if settings.profile_memory:
        orders += ["self_cpu_memory_usage"]
        if any(row.self_device_memory_usage for row in averages):
            orders += ["self_device_memory_usage"]
    for order in orders:
        rows = settings.key_averages_rows
        table = averages.table(sort_by=order, row_limit=rows)  # type: ignore[no-untyped-call]
        yield f"{what}, by {order}\n{table}\n"


def export_stacks(profiler: "profile", settings: "Capture", path: Path) -> None:
    """Write the time of each stack by each clock beside `path`, for what draws flame graphs."""
    for clock in ("cpu", "cuda") if _has_stacks(settings) else ():
        file = path.with_name(f"{path.name}.{clock}.stacks.txt")
        profiler.export_stacks(str(file), f"self_{clock}_time_total")
        if file.is_file() and not file.stat().st_size:
            file.unlink()


def _has_stacks(settings: "Capture") -> bool:
    """Say whether PyTorch keeps the stack of each event, and does not only write it."""
    is_kept = settings.experimental.verbose and not settings.experimental.trace_only
    return settings.with_stack and is_kept
