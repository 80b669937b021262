"""A comparison of two runs: what it found, in words and as JSON."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import geometric_mean
from typing import Any

from profkit.analyze.shared.paired import DIFFER, FEWEST_PAIRS, Judgement, Outcome, judged
from profkit.analyze.shared.repeat_order import in_turn
from profkit.analyze.shared.step_times import BETWEEN_STEPS
from profkit.cli.explained import Why, lines
from profkit.cli.measured_run import METRICS, Difference, MeasuredRun, differences, timed_alike
from profkit.cli.metric_words import CHANGES, MEASURING, TITLES, shown
from profkit.cli.unlike_pairs import unlike
from profkit.core.formatting import counted, local_time, numbered
from profkit.core.step_time import is_mean_of_uneven
from profkit.planning.model import Pairing

_SHOWN = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Two runs and what can be said of their difference."""

    before: MeasuredRun
    after: MeasuredRun
    found: tuple[Difference, ...]
    """Facts in which they differ, the decisive ones first."""

    judgements: dict[str, Judgement]
    """By metric; empty if they are not comparable."""

    confidence: float = 0.95
    """Confidence of the intervals."""

    why: Why = Why()  # noqa: RUF009 - frozen
    pairing: Pairing | None = None
    """How they were captured in pairs; None for runs that were not."""

    labels: tuple[str, str] | None = None
    """What a user calls the two, as revisions; None where that is the name of the run."""

    @property
    def decisive(self) -> tuple[Difference, ...]:
        """Differences in spite of which a comparison means nothing."""
        return tuple(difference for difference in self.found if difference.is_decisive)

    @property
    def differing(self) -> frozenset[str]:
        """Metrics that are known to differ."""
        known = (Outcome.HIGHER, Outcome.LOWER)
        return frozenset(word for word, one in self.judgements.items() if one.outcome in known)


def compared_runs(
    before: MeasuredRun,
    after: MeasuredRun,
    *,
    band: float,
    confidence: float = 0.95,
    anyway: bool = False,
) -> Comparison:
    """Compare two runs; `anyway`, if that means nothing as well."""
    before, after = timed_alike(before, after)
    found = tuple(differences(before, after))
    is_comparable = anyway or not any(difference.is_decisive for difference in found)
    judgements = judge(before, after, band, confidence) if is_comparable else {}
    return Comparison(
        before=before, after=after, found=found, judgements=judgements, confidence=confidence
    )


def judge(
    before: MeasuredRun, after: MeasuredRun, band: float, confidence: float = 0.95
) -> dict[str, Judgement]:
    """Return the judgement of each metric that both have in a common repeat."""
    judgements = {
        word: judged(
            after.metrics[name].by_repeat,
            before.metrics[name].by_repeat,
            band=band,
            confidence=confidence,
        )
        for word, name in METRICS.items()
        if name in before.metrics and name in after.metrics
    }
    return {word: judgement for word, judgement in judgements.items() if judgement is not None}


def text(comparison: Comparison) -> Iterator[str]:
    """Yield what was found, in about 15 lines."""
    before, after = comparison.before, comparison.after
    noun = "repeat" if comparison.pairing is None else "pair"
    labels = comparison.labels or (before.name, after.name)
    for letter, label, run in zip("AB", labels, (before, after), strict=True):
        repeats = counted(len(run.began), noun) if run.began else ""
        when = local_time(min(run.began.values(), default=""))
        yield "  ".join(filter(None, (letter, label, repeats, when)))
    decisive = comparison.decisive
    if decisive:
        yield f"not comparable: {_listed(decisive)}"
    if others := [difference for difference in comparison.found if not difference.is_decisive]:
        yield f"differences: {_listed(others)}"
    if decisive and not comparison.judgements:
        yield "--anyway compares them all the same"
        return
    yield from sentences(comparison)
    missing = [
        TITLES[word] for word in METRICS if word not in comparison.judgements and word != "energy"
    ]
    # Recordings of memory alone have no other numbers.
    if missing and (comparison.judgements or comparison.why.peak_memory is None):
        yield f"not measured in a repeat of both: {', '.join(missing)}"
    yield from (f"note: {note}" for note in notes(before, after))
    yield from lines(comparison.why)
    if "peak_memory" in comparison.differing and comparison.why.peak_memory is None:
        yield (
            "what fills the peaks was not recorded: +tool=memory_snapshot records tensors, "
            "+tool=host_memory what else a CPU holds"
        )


def sentences(comparison: Comparison) -> Iterator[str]:
    """Yield the judgement of each metric, and the checks that disagree with it."""
    for word, judgement in comparison.judgements.items():
        values = " -> ".join(shown(word, value) for value in typical_values(comparison, word))
        yield f"{TITLES[word]} {values}: {sentence(word, judgement)}"
        if word == "step_time":
            runs = (comparison.before, comparison.after)
            elsewhere = " -> ".join(shown(word, run.metrics[METRICS[word]].value) for run in runs)
            if elsewhere != values:
                are_means = any(is_mean_of_uneven(run.metrics[METRICS[word]]) for run in runs)
                how = "means of uneven steps" if are_means else "geometric means of the repeats"
                yield f"  ({how}; `profkit show RUN` prints {elsewhere})"
            shares = [run.metrics.get(BETWEEN_STEPS) for run in runs]
            if any(shares):
                between = " -> ".join(f"{one.value:.0%}" if one else "little" for one in shares)
                yield f"  (it leaves out what passes between steps, of the run: {between})"
        for doubt in judgement.doubts:
            yield f"  but {doubt}"


def typical_values(comparison: Comparison, word: str) -> tuple[float, float]:
    """Return the geometric mean of a metric over the pairs, of each run: their ratio is judged."""
    name = METRICS[word]
    before, after = (run.metrics[name].by_repeat for run in (comparison.before, comparison.after))
    pairs = [pair for pair in before if before[pair] > 0 and after.get(pair, 0) > 0]
    a, b = (geometric_mean([values[pair] for pair in pairs]) for values in (before, after))
    return a, b


def _listed(found: Sequence[Difference]) -> str:
    more = f" and {len(found) - _SHOWN} more (--json)" if len(found) > _SHOWN else ""
    return f"{', '.join(map(str, found[:_SHOWN]))}{more}"


def sentence(word: str, judgement: Judgement) -> str:
    """Return a judgement in words, with its interval."""
    ratio, outcome = judgement.ratio, judgement.outcome
    change = f"{ratio.ratio - 1:+.1%}"
    if ratio.repeats <= 1:
        needs = f"needs {FEWEST_PAIRS} pairs (repeats={FEWEST_PAIRS})"
        return f"{change} in one pair of captures: inconclusive, {needs}"
    measure = f"{change} ({measured_change(judgement)})"
    if outcome in (Outcome.HIGHER, Outcome.LOWER):
        return f"{CHANGES[word][outcome is Outcome.LOWER]}, {measure}"
    if outcome is not Outcome.INCONCLUSIVE:
        return "; ".join(filter(None, (f"{outcome}, {measure}", judgement.reason)))
    if judgement.more_pairs:
        few = f": a statement takes {FEWEST_PAIRS}" if ratio.repeats < FEWEST_PAIRS else ""
        return (
            f"{outcome}, {measure}; needs about {counted(judgement.more_pairs, 'more pair')}{few}"
        )
    return f"{outcome}, {measure}; about as large as the change that matters"


def measured_change(judgement: Judgement) -> str:
    """Return the interval of a judgement and its pairs, in words."""
    ratio = judgement.ratio
    pairs = counted(ratio.repeats, "pair")
    if ratio.interval is None:
        return f"{DIFFER}, {pairs}"
    ends = f"{ratio.interval.low - 1:+.1%} to {ratio.interval.high - 1:+.1%}"
    return f"{ratio.interval.confidence:.0%} interval {ends}, {pairs}"


def notes(before: MeasuredRun, after: MeasuredRun) -> Iterator[str]:
    """Yield what makes the numbers less sure than their intervals say."""
    if not in_turn(after.began, before.began):
        yield (
            "the runs were not captured in turn; what changed on the machine in between "
            "shows as a difference"
        )
    batches = [run.facts.get("batch", "") for run in (before, after)]
    is_rated = all(METRICS["throughput"] in run.metrics for run in (before, after))
    if not is_rated and all(batches) and len(set(batches)) > 1:
        yield (f"batches differ, {' -> '.join(batches)}: for throughput, {MEASURING['throughput']}")
    for run in (before, after):
        yield from (f"{run.name}: {failure}" for failure in run.failed)
    if disturbed := sorted({*before.disturbed, *after.disturbed}):
        repeats = numbered("repeat", disturbed)
        yield f"the machine was not quiet in {repeats} (capture.json: conditions)"
    yield from unlike(before.conditions, after.conditions)


def as_json(comparison: Comparison) -> str:
    """Return all numbers, and the text."""
    return json.dumps(document(comparison), indent=1) + "\n"


def document(comparison: Comparison) -> dict[str, Any]:
    """Return all numbers, and the text, as plain data."""
    before, after = comparison.before, comparison.after
    found = {
        "a": before.name,
        "b": after.name,
        "comparable": not comparison.decisive,
        "differences": [asdict(difference) for difference in comparison.found],
        "metrics": {
            word: {
                **dict(zip(("before", "after"), typical_values(comparison, word), strict=True)),
                **asdict(judgement),
            }
            for word, judgement in comparison.judgements.items()
        },
        "confidence": comparison.confidence,
        "why": asdict(comparison.why),
        "coin": comparison.pairing.coin if comparison.pairing else None,
        "pairs": pair_rows(comparison),
        "notes": [*notes(before, after)],
        "text": [*text(comparison)],
    }
    return {name: _finite(value) for name, value in found.items()}


def pair_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """Return each pair: which side came first, its step times, and under what they were taken."""
    sides = {"a": comparison.before, "b": comparison.after}
    shared = sorted(set(comparison.before.began) & set(comparison.after.began))
    return [
        {
            "pair": repeat,
            "first": min(sides, key=lambda side: sides[side].began[repeat]),
            **{
                side: {
                    "began": run.began[repeat],
                    **{
                        word: run.metrics[name].by_repeat.get(repeat)
                        for word, name in METRICS.items()
                        if name in run.metrics
                    },
                    "conditions": run.conditions.get(repeat, {}),
                }
                for side, run in sides.items()
            },
        }
        for repeat in shared
    ]


def _finite(value: Any) -> Any:
    """Return `value` with null in the place of numbers that JSON does not have."""
    if isinstance(value, Mapping):
        return {str(key): _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
