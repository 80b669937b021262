"""``profkit compare A B``: by how much B differs from A, and whether that can be said.

Exit status: 0 if the runs were compared, whatever came of it; 1 if a run cannot be read; 2 for
words that make no sense; 3 if the runs are not comparable.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from profkit.analyze.shared.paired import BAND, Judgement, Outcome, in_turn, judged
from profkit.cli.explained import Why, explained, flame_graph, lines
from profkit.cli.measured_run import (
    METRICS,
    Difference,
    MeasuredRun,
    differences,
    is_baseline,
    measured,
    read_baseline,
)
from profkit.cli.run_folders import run_named
from profkit.core.atomic_write import write_atomically
from profkit.core.errors import InputError
from profkit.core.formatting import counted, duration, size
from profkit.core.result import Metric

NOT_COMPARABLE = 3
"""Exit status if the comparison would mean nothing."""

_SHOWN = 4
_WORDS = {
    "step_time": ("slower", "faster"),
    "throughput": ("higher", "lower"),
    "peak_memory": ("more", "less"),
}
_TITLES = {"step_time": "step time", "throughput": "throughput", "peak_memory": "peak memory"}


def main(argv: Sequence[str]) -> int:
    """Print the verdict on step time, throughput and peak memory."""
    parser = argparse.ArgumentParser(
        prog="profkit compare",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    about = "name of a saved baseline; or of a run, or the begin of one, or its folder"
    parser.add_argument("before", metavar="A", help=about)
    parser.add_argument("after", metavar="B", help=about)
    about = f"change that does not matter, in percent ({BAND:.0%} if left out)"
    parser.add_argument("--band", type=percent, default=BAND, metavar="PERCENT", help=about)
    parser.add_argument("--anyway", action="store_true", help="compare what is not comparable")
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
    about = "draw the time by module, operator and kernel: red is more in B, blue less, grey noise"
    parser.add_argument("--flame-graph", type=Path, metavar="SVG", help=about)
    args = parser.parse_args(argv)
    before, after = (_named(name) for name in (args.before, args.after))
    if before == after:
        raise InputError(f"{before.name}: compared with itself", hint="name two runs: profkit ls")
    found = differences(before, after)
    decisive = [difference for difference in found if difference.is_decisive]
    is_comparable = args.anyway or not decisive
    judgements = judge(before, after, args.band) if is_comparable else {}
    why = _why(args.before, args.after) if is_comparable else Why()
    if is_comparable and not judgements and why == Why():
        raise InputError(
            "nothing was measured in both runs", hint="profkit why RUN says the reason"
        )
    if args.json:
        sys.stdout.write(_as_json(before, after, found, judgements, why))
    else:
        text = [*_text(before, after, found, judgements), *lines(why)]
        sys.stdout.writelines(f"{line}\n" for line in text)
    if args.flame_graph and is_comparable:
        drawn = flame_graph(run_named(args.before), run_named(args.after))
        write_atomically(args.flame_graph, drawn.encode())
    return 0 if is_comparable else NOT_COMPARABLE


def _named(name: str) -> MeasuredRun:
    """Return the baseline or the run with that name."""
    if is_baseline(name):
        return read_baseline(name)
    # Causes can be compared where no step was marked.
    return measured(run_named(name), needs_steps=False)


def _why(before: str, after: str) -> Why:
    """Return the waterfalls between two runs; a baseline keeps no causes."""
    if is_baseline(before) or is_baseline(after):
        return Why()
    return explained(run_named(before), run_named(after))


def percent(text: str) -> float:
    """Return a share; `ValueError` becomes a usage error."""
    share = float(text.removesuffix("%")) / 100
    if not 0 <= share < 1:
        raise ValueError(text)
    return share


def judge(before: MeasuredRun, after: MeasuredRun, band: float) -> dict[str, Judgement]:
    """Return the judgement of each metric that both have in a common repeat."""
    return {
        word: judgement
        for word, name in METRICS.items()
        if name in before.metrics
        and name in after.metrics
        and (
            judgement := judged(
                after.metrics[name].by_repeat, before.metrics[name].by_repeat, band=band
            )
        )
        is not None
    }


def _text(
    before: MeasuredRun,
    after: MeasuredRun,
    found: Sequence[Difference],
    judgements: Mapping[str, Judgement],
) -> Iterator[str]:
    """Yield at most 15 lines."""
    for letter, run in (("A", before), ("B", after)):
        when = min(run.began.values(), default="")[:16]
        yield f"{letter}  {run.name}  {counted(len(run.began), 'repeat')}  {when}".rstrip()
    decisive = [difference for difference in found if difference.is_decisive]
    if decisive:
        yield f"not comparable: {_listed(decisive)}"
    if others := [difference for difference in found if not difference.is_decisive]:
        yield f"differences: {_listed(others)}"
    if decisive and not judgements:
        yield "--anyway compares them all the same"
        return
    for word, judgement in judgements.items():
        metrics = (run.metrics[METRICS[word]] for run in (before, after))
        values = " -> ".join(_shown(word, metric) for metric in metrics)
        yield f"{_TITLES[word]} {values}: {_sentence(word, judgement)}"
        for doubt in judgement.doubts:
            yield f"  but {doubt}"
    if missing := [_TITLES[word] for word in METRICS if word not in judgements]:
        yield f"not measured in a repeat of both: {', '.join(missing)}"
    yield from notes(before, after)


def _listed(found: Sequence[Difference]) -> str:
    more = f" and {len(found) - _SHOWN} more (--json)" if len(found) > _SHOWN else ""
    return f"{', '.join(map(str, found[:_SHOWN]))}{more}"


def _shown(word: str, metric: Metric) -> str:
    if word == "throughput":
        return f"{metric.value:.4g} samples/s"
    return duration(metric.value) if word == "step_time" else size(metric.value)


def _sentence(word: str, judgement: Judgement) -> str:
    """Return a judgement in words, with its interval."""
    ratio, outcome = judgement.ratio, judgement.outcome
    change = f"{ratio.ratio - 1:+.1%}"
    if ratio.interval is None:
        return f"{change} in one pair; nothing can be said without repeats (repeats=6)"
    ends = f"{ratio.interval.low - 1:+.1%} to {ratio.interval.high - 1:+.1%}"
    pairs = counted(ratio.repeats, "pair")
    measure = f"{change} ({ratio.interval.confidence:.0%} interval {ends}, {pairs})"
    if outcome in (Outcome.HIGHER, Outcome.LOWER):
        return f"{_WORDS[word][outcome is Outcome.LOWER]}, {measure}"
    if outcome is not Outcome.INCONCLUSIVE:
        return "; ".join(filter(None, (f"{outcome}, {measure}", judgement.reason)))
    if judgement.more_pairs:
        return f"{outcome}, {measure}; needs about {counted(judgement.more_pairs, 'more pair')}"
    return f"{outcome}, {measure}; about as large as the change that matters"


def notes(before: MeasuredRun, after: MeasuredRun) -> Iterator[str]:
    """Yield what makes the numbers less sure than their intervals say."""
    if not in_turn(after.began, before.began):
        yield (
            "note: the runs were not captured in turn; what changed on the machine in between "
            "shows as a difference"
        )
    if disturbed := sorted({*before.disturbed, *after.disturbed}):
        listed = ", ".join(map(str, disturbed))
        yield f"note: the machine was not quiet in repeats {listed} (capture.json: conditions)"


def _as_json(
    before: MeasuredRun,
    after: MeasuredRun,
    found: Sequence[Difference],
    judgements: Mapping[str, Judgement],
    why: Why,
) -> str:
    document = {
        "a": before.name,
        "b": after.name,
        "comparable": not any(difference.is_decisive for difference in found),
        "differences": [asdict(difference) for difference in found],
        "metrics": {word: asdict(judgement) for word, judgement in judgements.items()},
        "why": asdict(why),
        "notes": [note.removeprefix("note: ") for note in notes(before, after)],
    }
    return json.dumps(document, indent=1) + "\n"
