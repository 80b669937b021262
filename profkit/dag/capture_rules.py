"""The order of captures: repeat after repeat, and in pairs as the coin says."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from profkit.planning.model import Plan

_BASELINE = "baseline"
_FIRST = 100_000
# More than the captures of one repeat of a pair.
_STRIDE = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class CaptureRule:
    """A rule for captures between which the order does not matter."""

    name: str
    tool: str
    repeat: int

    runs: str
    """Pattern of the names of its runs."""

    priority: int
    """Higher for what is captured earlier; where captures have the machine to themselves, nothing
    else decides."""


def capture_rules(plan: Plan, tools: Sequence[str]) -> Iterator[CaptureRule]:
    """Yield a rule for each tool and repeat; of runs in pairs, for each of the two.

    All first repeats come before all second ones: what drifts over time then spreads over the runs
    instead of telling them apart. The very first are those without a tool: what fails so is not
    tried with tools; see `early_stop` of captures.
    """
    everything = "|".join(run.name for run in plan.runs)
    for tool in tools:
        for repeat in range(plan.tools[tool].repeats):
            name, number = f"capture_{tool}_rep{repeat}", _FIRST - repeat * _STRIDE
            if plan.pairing is None:
                is_first = tool == _BASELINE and repeat == 0
                yield CaptureRule(
                    name=name, tool=tool, repeat=repeat, runs=everything, priority=number + is_first
                )
                continue
            before = 2 * sorted(tools, key=lambda other: other != _BASELINE).index(tool)
            for place, run in enumerate(plan.pairing.order(repeat)):
                yield CaptureRule(
                    name=f"{name}_{'a' if run == plan.pairing.a else 'b'}",
                    tool=tool,
                    repeat=repeat,
                    runs=run,
                    priority=number - before - place,
                )
