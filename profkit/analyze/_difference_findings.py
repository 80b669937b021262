"""What is said of runs that differ: by how much, in what, and for each sample of a batch."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from profkit.analyze.shared.matched_parts import Matched
from profkit.analyze.shared.paired_parts import PairedParts
from profkit.analyze.shared.waterfall import Waterfall
from profkit.core.formatting import counted, milliseconds, shortened
from profkit.core.result import Finding, Metric, Severity

_OTHERWISE = 2.0
"""How many times as much as unprofiled ones traced steps may differ."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """What one side differs in from the base."""

    label: str
    parts: PairedParts
    why: Waterfall
    matched: list[Matched]


def checked(pair: Matched, before: set[str], after: set[str]) -> Matched:
    """Return what was matched, as new or removed only where nothing of its name ran beside.

    Parts that take too little are not listed, nor operators in which lines were sampled; whether a
    line was is chance.
    """
    other = {"new": before, "removed": after}.get(pair.change)
    names = {*pair.before, *pair.after}
    is_known = other is None or not (names & other or any(".py(" in name for name in names))
    return pair if is_known else replace(pair, change="")


def times_larger(behaviour: Mapping[str, Mapping[str, Any]], base: str, other: str) -> float:
    """Return how many times as large the batch of the `other` run is, 1 if that is not known."""
    before, after = (behaviour.get(run, {}).get("batch") for run in (base, other))
    if isinstance(before, int) and isinstance(after, int) and before > 0 < after:
        return after / before
    return 1.0


def finding(
    base: str, one: Difference, unprofiled: Mapping[str, Metric | None], larger: float
) -> Finding:
    """Return how one run differs, for a batch that is so many times `larger`."""
    kinds = [match.change for match in one.matched if match.change]
    changes = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(sorted(kinds)))
    largest = next(iter(one.why.largest(1)), None)
    most = f"most of it {shortened(largest.title)}" if largest else "no cause beyond chance"
    size = one.why.difference_ms
    sides = counted(one.why.pairs, "pair")
    return Finding(
        severity=Severity.INFO,
        message=f"{one.label} takes {milliseconds(abs(size))} ms "
        f"{'more' if size >= 0 else 'less'} per traced step than {base} ({sides}), {most}. "
        f"Operators: {changes or 'the same'}.{_for_each_sample(base, one, unprofiled, larger)}"
        f"{_without_profiler(base, one, unprofiled)}",
        metric="trace_diff.difference_ms",
        value=size,
        unit="ms",
        evidence={"compared": one.label, "base": base, "pairs": one.why.pairs},
    )


def _for_each_sample(
    base: str, one: Difference, unprofiled: Mapping[str, Metric | None], larger: float
) -> str:
    """Return what a sample of the batch takes more or less, as a sentence; "" for equal batches.

    Without a profiler, which slows small batches more, where both runs were timed so.
    """
    before, after = unprofiled.get(base), unprofiled.get(one.label)
    ends = (one.why.before_ms, one.why.after_ms)
    if is_timed := before is not None and after is not None:
        ends = (before.value, after.value)
    if larger == 1 or ends[0] <= 0:
        return ""
    more = ends[1] / ends[0] / larger - 1
    takes = f"{'unprofiled, ' * is_timed}a sample takes {abs(more):.0%}"
    than = "more" if more >= 0 else "less"
    return f" Its batch is {larger:.3g} times as large: {takes} {than}."


def _without_profiler(base: str, one: Difference, unprofiled: Mapping[str, Metric | None]) -> str:
    """Return a sentence on unprofiled steps that differ otherwise, "" if none do."""
    before, after = unprofiled.get(base), unprofiled.get(one.label)
    if before is None or after is None:
        return ""
    more_ms = (after.value - before.value) / 1e6
    traced_ms = one.why.difference_ms
    if more_ms * traced_ms >= 0 and abs(traced_ms) <= _OTHERWISE * abs(more_ms):
        return ""
    return (
        f" Unprofiled steps take {milliseconds(abs(more_ms))} ms "
        f"{'more' if more_ms > 0 else 'less'}: the profiler, or other work, slowed one of them."
    )
