"""The contract of a pattern: a function that looks for one known loss of time in a recording."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from profkit.core.errors import PluginError
from profkit.core.hardware import Hardware
from profkit.core.verdict import Confidence, Evidence

TABLES = (
    "steps",
    "cpu_ops",
    "kernels",
    "runtime_calls",
    "annotations",
    "collectives",
    "python_calls",
    "python_threads",
    "devices",
    "processes",
    "padded_inputs",
    "given_labels",
    "repeated_inputs",
    "worker_samples",
)
"""Tables that a pattern may name as parameters: rows of the rank that the verdict is about, of the
steps that count. ``kernels``, ``runtime_calls`` and ``cpu_ops`` have the further column
``charged_ns``, the time of the step that the row alone is charged with: it never overlaps another
row's, so that sums over rows are bounds of what can be gained. In ``python_calls`` it is the time
in which the call was the innermost of its thread, without waiting and communication where no GPU
works meanwhile, in ``processes`` that in which the program's
thread waited for a core, or for other threads, inside operators. ``cpu_ops`` comes without its
columns pid, external, forward_tid, sequence, inputs and self_ns, ``kernels`` without registers,
shared memory and occupancy, ``python_calls`` without those calls that no pattern looks for
and that are none of the program's; what these are charged with is that of the call around them.
``python_threads`` are looks at its other threads, in these steps. ``padded_inputs``,
``given_labels``, ``repeated_inputs`` and ``worker_samples`` are of the whole program, and of no
step.

Where nothing but many operators was recorded, a pattern that names ``cpu_ops`` is called several
times, each time with some whole steps, or a part of the only one; its matches are put together."""

CHARGED = "charged_ns"

LOADS = r"torch/utils/data/dataloader\.py\(\d+\): __(?:iter|next)__$"
"""Python functions in which the program waits for its next batch; any pattern may look for them."""

LEAST_SHARE = 0.02
"""Share of the step time below which a match is not worth a word."""

CAUSE_COLUMNS = ("id", "ms_per_step", "gain_ms", "share", "place")
"""Columns of the parameter ``causes``: one row for each cause of that rank."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """What is divided: the steps that count, of the rank that the verdict is about."""

    count: int
    """How many steps there are."""

    ms: float
    """Their mean time, in ms."""

    ranks: int = 1
    """Ranks of the job, as far as it is known."""

    slowdown: float = 1.0
    """How many times as long they take with the profiler, at least 1; 1 if that is not known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Match:
    """One finding of a pattern."""

    cause: str
    """Id of the cause that it explains; where it is no leaf, the largest below it counts."""

    advice: str
    """What to change: the line, API, flag or setting, in one or two sentences."""

    gain_ns: float
    """Upper bound of its gain over all steps that count, in ns: a sum of `CHARGED`, mostly."""

    place: str = ""
    """``file.py(line): function``, operator or module."""

    confidence: Confidence = Confidence.MEDIUM
    also: Mapping[str, float] = field(default_factory=dict)
    """Further causes that some of the gain lies in, and how much of it, in ns."""

    evidence: Evidence = field(default_factory=dict)
    """Numbers and words by which a reader can check it, units as suffixes."""


Matches = Match | Iterable[Match] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Pattern:
    """A registered pattern."""

    title: str
    """What is wrong, in a few words; the title of its actions."""

    source: str
    """Document behind its advice, as a URL."""

    calls: str | None
    """Expression that names of Python functions contain that it looks for, besides those of the
    program; None if it looks at all calls."""

    without_gpu: bool
    """Whether it looks at ranks without a GPU alone."""

    parameters: tuple[str, ...]
    find: Callable[..., Matches] = field(repr=False)

    def matches(self, known: Mapping[str, Any]) -> tuple[Match, ...]:
        """Return what the pattern finds in `known`, by name, unless it is small."""
        return worthwhile(self.found(known), known["step"])

    def found(self, known: Mapping[str, Any]) -> tuple[Match, ...]:
        """Return what the pattern finds in `known`, by name."""
        found = self.find(**{name: known[name] for name in self.parameters})
        return () if found is None else (found,) if isinstance(found, Match) else tuple(found)


def worthwhile(matches: Iterable[Match], step: Step) -> tuple[Match, ...]:
    """Return the `matches` that are not small in these steps."""
    least_ns = LEAST_SHARE * step.ms * 1e6 * step.count
    return tuple(match for match in matches if match.gain_ns >= least_ns)


_OTHERS = {"causes": pd.DataFrame, "step": Step, "hardware": Hardware, "behaviour": dict}


def pattern(
    *, title: str, source: str, calls: str | None = None, without_gpu: bool = False
) -> Callable[[Callable[..., Matches]], Pattern]:
    """Register a function as a pattern; each parameter says by its name what it looks at.

    - one of `TABLES`: rows with a ``charged_ns`` where they are charged with time;
    - ``causes``: all causes, with `CAUSE_COLUMNS`;
    - ``step: Step``: how many steps there are, and their mean time;
    - ``hardware: Hardware`` and ``behaviour``: peaks of the GPU, and the run's own settings.

    Python calls are half of a large trace: with `calls`, see `Pattern`, others are not kept, and
    these only where `without_gpu` allows.
    """
    if not source.startswith("https://"):
        raise PluginError(f"pattern {title!r}: source must be the URL of a document")

    def register(function: Callable[..., Matches]) -> Pattern:
        names = tuple(inspect.signature(function).parameters)
        if unknown := sorted(set(names) - {*TABLES, *_OTHERS}):
            code = function.__code__
            raise PluginError(
                f"{code.co_filename}:{code.co_firstlineno}: unknown parameter {unknown[0]!r}",
                hint=f"a pattern may name {', '.join((*TABLES, *_OTHERS))}",
            )
        return Pattern(
            title=title,
            source=source,
            calls=calls,
            without_gpu=without_gpu,
            parameters=names,
            find=function,
        )

    return register


def charged(rows: pd.DataFrame, which: Any = None) -> float:
    """Return the time that `rows`, or those of them that `which` tells, are charged with, in ns."""
    time = rows[CHARGED]
    return float((time if which is None else time[which]).sum())
