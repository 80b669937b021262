"""Stability of step times: within a repeat after its warm-up, and from repeat to repeat."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.shared.paired import Ratio, no_interval, over_repeats
from profkit.analyze.shared.step_times import GROWTH
from profkit.analyze.shared.uncertainty import Times, unequal_repeats
from profkit.core.formatting import duration
from profkit.core.result import Abstention, Finding, Severity

_FEWEST_STEPS = 4
_ORDERED_FROM = 3
_FEWEST_OF_TREND = 9
_TREND_LEVEL = 0.01
_FEWEST_AGAIN = 6
_LEAST_PART = 0.1


def by_repeat(clock: pd.DataFrame) -> dict[int, Times]:
    """Return the step times of each repeat, in ns and in the order of the steps."""
    return {
        repeat: clock.loc[clock["repeat"] == repeat, "step_time_ns"].to_numpy(np.float64)
        for repeat in sorted(clock["repeat"].unique().tolist())
    }


def unsettled(clock: pd.DataFrame, confidence: float, tolerance: float) -> tuple[Finding, ...]:
    """Warn if the first counted steps are slower than the later ones by more than `tolerance`.

    The first quarter of each repeat is compared with its second half, and tested over the repeats:
    one-sided, with an error of at most 1 - `confidence`.
    """
    ratios = _starts(by_repeat(clock))
    start = over_repeats(ratios, confidence=confidence) if ratios else None
    # One-sided: a start that is faster is no warm-up.
    if start is None or start.ratio <= 1 + tolerance or start.p_value / 2 > 1 - confidence:
        return ()
    return (_warming(clock, start, tolerance),)


def _starts(times: Mapping[int, Times]) -> dict[int, float]:
    return {
        repeat: float(np.median(steps[: len(steps) // 4]) / np.median(steps[len(steps) // 2 :]))
        for repeat, steps in times.items()
        if len(steps) >= _FEWEST_STEPS and steps.min() > 0
    }


def _warming(clock: pd.DataFrame, start: Ratio, tolerance: float) -> Finding:
    over_steps = clock.groupby("step", observed=True)["step_time_ns"].median()
    level = over_steps.iloc[len(over_steps) // 2 :].median()
    settled = int(over_steps.index[over_steps <= (1 + tolerance) * level][0])
    return Finding(
        severity=Severity.WARN,
        message="Warm-up is longer than the steps left out: the first quarter of the counted "
        f"steps takes {start.ratio - 1:.0%} longer than the second half, in {start.repeats} "
        "repeats alike.",
        metric="steps.warm_up_excess",
        value=start.ratio - 1,
        unit="share",
        evidence={"settled_step": settled, "p_value": start.p_value / 2},
        advice=f"Leave out more: warmup_steps={settled}, with as many more steps.",
    )


def growing(clock: pd.DataFrame, again: pd.DataFrame, tolerance: float) -> Finding | None:
    """Warn if the last third of the counted steps is slower than the first by over `tolerance`.

    Unless another run of the program contradicts it: of its steps, `again`, the later half is no
    slower than the earlier one. A few say nothing.
    Of each step its median over the repeats counts. A few slow steps make no trend: the test is
    that of Mann and Kendall, one-sided, which takes the order of the times alone. Nor does a jump,
    as where another program starts: the middle third lies between the others.
    """
    times = _by_step(clock)
    third = len(times) // 3
    if len(times) < _FEWEST_OF_TREND or times.min() <= 0:
        return None
    parts = times[:third], times[third:-third], times[-third:]
    first, middle, last = (float(np.median(part)) for part in parts)
    least = _LEAST_PART * (last - first)
    if last <= (1 + tolerance) * first or min(middle - first, last - middle) < least:
        return None
    from scipy.stats import kendalltau  # noqa: PLC0415 - loads longer than most jobs last

    repeated = _by_step(again)
    earlier, later = np.array_split(repeated, 2)
    if len(repeated) >= _FEWEST_AGAIN and np.median(later) <= np.median(earlier):
        return None
    p_value = float(kendalltau(np.arange(len(times)), times, alternative="greater").pvalue)
    return _growth(first, last, len(times), p_value) if p_value <= _TREND_LEVEL else None


def _by_step(clock: pd.DataFrame) -> NDArray[np.float64]:
    return clock.groupby("step", observed=True)["step_time_ns"].median().to_numpy(np.float64)


def _growth(first: float, last: float, steps: int, p_value: float) -> Finding:
    """Return what is said of steps of `first` ns that grow to `last` ns."""
    return Finding(
        severity=Severity.WARN,
        message=f"Steps grow from {duration(first)} to {duration(last)} over {steps} unprofiled "
        "steps (medians of the first and the last third): later steps cost more than those that "
        "were recorded, as where each works on all data of the steps before it, or where other "
        "work has come to the machine.",
        metric=f"steps.{GROWTH}",
        value=last / first - 1,
        unit="share",
        evidence={"first_ns": round(first), "last_ns": round(last), "p_value": p_value},
        advice="Record later steps: `--all tools.torch_profiler.skip_first=N` leaves out the "
        "first N.",
    )


def unsteady(per_repeat: pd.DataFrame, times: Mapping[int, Times], level: float) -> Finding | None:
    """Warn if repeats differ by more than their own steps explain, at significance `level`."""
    p_value = unequal_repeats(list(times.values()))
    if p_value is None or p_value > level:
        return None
    ordered = per_repeat.sort_values("median_ns")
    fast, slow = ordered.iloc[0], ordered.iloc[-1]
    excess = float(slow["median_ns"] / fast["median_ns"] - 1)
    return Finding(
        severity=Severity.WARN,
        message=f"Step times {_course(per_repeat)}: {duration(slow['median_ns'])} in repeat "
        f"{slow['repeat']:.0f} is {excess:.0%} more than {duration(fast['median_ns'])} in repeat "
        f"{fast['repeat']:.0f}, and the steps within a repeat do not differ so.",
        metric="steps.repeat_difference",
        value=excess,
        unit="share",
        evidence={
            "slowest_repeat": int(slow["repeat"]),
            "fastest_repeat": int(fast["repeat"]),
            "p_value": p_value,
            "significance_level": round(level, 6),
        },
        advice="Keep other work off the machine, let its clocks settle, and take more repeats: "
        "they, not more steps, narrow the interval.",
    )


def _course(per_repeat: pd.DataFrame) -> str:
    changes = per_repeat.sort_values("repeat")["median_ns"].diff().dropna()
    if len(per_repeat) >= _ORDERED_FROM and (changes > 0).all():
        return "drift upwards from repeat to repeat"
    if len(per_repeat) >= _ORDERED_FROM and (changes < 0).all():
        return "drift downwards from repeat to repeat"
    return "change from repeat to repeat"


def unknown(times: Mapping[int, Times], *, has_interval: bool) -> tuple[Abstention, ...]:
    """Return the abstentions of a single repeat, of ones that differ too much, or of few steps."""
    if not has_interval and all(steps.min() > 0 for steps in times.values()):
        reason = no_interval(len(times))
        return (Abstention(what="interval of the step time", reason=reason),)
    if unequal_repeats(list(times.values())) is None:
        reason = "it takes 6 counted steps in each repeat: raise steps"
        return (Abstention(what="drift over the repeats", reason=reason),)
    return ()
