"""Why two runs differ: the waterfall of their causes, and its largest bars in words."""

from collections.abc import Iterator

from profkit.analyze.shared.step_times import BASELINE
from profkit.analyze.shared.waterfall import Bar, Waterfall, waterfall
from profkit.cli.run_folders import RunFolder
from profkit.core import result
from profkit.core.formatting import counted, milliseconds, shortened
from profkit.core.result import Result

_MS = 1e6
_BARS = 3


def explained(before: RunFolder, after: RunFolder) -> Waterfall | None:
    """Return the waterfall between two runs, None where one has no causes."""
    both = [result_of(run, "causes") for run in (before, after)]
    if both[0] is None or both[1] is None:
        return None
    times = [unprofiled_ms(run) for run in (before, after)]
    return waterfall(both[0], both[1], (times[0], times[1]) if all(times) else None)


def result_of(run: RunFolder, analysis: str) -> Result | None:
    """Return what an analysis left of a run, None if it was not made."""
    path = run.path / "analyze" / f"{analysis}.json"
    return result.read(path).result if path.is_file() else None


def unprofiled_ms(run: RunFolder) -> dict[int, float]:
    """Return the step time of each repeat without a profiler, nothing where it was not timed."""
    steps = result_of(run, "steps")
    metric = steps.metrics.get("step_time_ns") if steps else None
    is_timed = any(record.get("tool") == BASELINE for record in run.captures)
    if metric is None or not is_timed:
        return {}
    return {repeat: value / _MS for repeat, value in metric.by_repeat.items()}


def lines(found: Waterfall) -> Iterator[str]:
    """Yield the largest bars that the repeats tell from chance, the largest difference first."""
    sure = f"95% intervals over {counted(found.pairs, 'pair')}"
    if found.pairs <= 1:
        sure = "no intervals: one capture of each" if found.pairs else "no intervals: no pairs"
    ranks = " and ".join(map(str, dict.fromkeys((found.rank_before, found.rank_after))))
    times = f"{milliseconds(found.before_ms)} to {milliseconds(found.after_ms)} ms"
    step = "per traced step" if found.basis == "traced" else "per step"
    if found.work != 1:
        step = "for the same work"
    yield f"why, from {times} {step}, rank {ranks} ({sure}):"
    if found.work != 1:
        yield (
            f"  no steps are marked: B recorded {found.work:.3g} times the calls of A, "
            "and its times are divided by that"
        )
    bars = found.largest(_BARS)
    if not bars:
        yield "  no cause differs by more than chance"
    yield from map(_line, bars)


def _line(bar: Bar) -> str:
    interval = ""
    if bar.interval is not None:
        interval = f" ({bar.interval.low:+.3g} to {bar.interval.high:+.3g})"
    change = f", {bar.change}" if bar.change else ""
    module = f", in {bar.module}" if bar.module else ""
    sign = "+" if bar.difference_ms > 0 else "-"
    size = f"{sign}{milliseconds(abs(bar.difference_ms))} ms{interval}"
    return f"  {size}  {shortened(bar.title)}{change}{shortened(module)}"
