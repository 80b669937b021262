"""How fast the runs of a sweep are: in samples that were counted, by the batch, or in steps."""

import math
from collections.abc import Mapping

from profkit.analyze._sweep_axes import BATCH, RANKS, Value
from profkit.analyze.base import ByRun
from profkit.core.formatting import number
from profkit.core.result import Metric

STEPS = "Steps per second"
BY_BATCH = "Throughput by the batch"
_NS_PER_S = 1e9


def speed_of(run: str, steps: ByRun, choices: Mapping[str, Mapping[str, Value]]) -> Metric | None:
    """Return the throughput of a run, by its batch where samples were not counted in all runs.

    Where neither is known it is steps a second.
    """
    metrics = steps[run].metrics
    timed = [result.metrics for result in steps.values() if "step_time_ns" in result.metrics]
    if all("throughput_per_s" in known for known in timed):
        return metrics.get("throughput_per_s")
    times, choice = metrics.get("step_time_ns"), choices[run]
    if times is None or times.value <= 0:
        return None
    has_batch = isinstance(choice.get(BATCH), int)
    samples = math.prod(float(choice.get(key, 1)) for key in (BATCH, RANKS)) if has_batch else 1
    by_repeat = {
        repeat: samples * _NS_PER_S / value
        for repeat, value in times.by_repeat.items()
        if value > 0
    }
    return Metric(
        value=samples * _NS_PER_S / times.value,
        unit="per_s",
        title=BY_BATCH if has_batch else STEPS,
        better="higher",
        by_repeat=by_repeat,
    )


def in_words_of(speed: Metric) -> str:
    """Return how fast a run is, for example ``1,234 samples/s``."""
    of = {STEPS: "steps/s", BY_BATCH: "samples/s (batch / step time)"}
    return f"{number(speed.value)} {of.get(speed.title, 'samples/s')}"
