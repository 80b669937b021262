"""``profkit what-if RUN --without CAUSE --halve CAUSE``: the step time that would be left.

CAUSE is an id as in `results/report.json`, or its last word: loading_data, aten::mm, cudaMalloc.
Without any, the largest causes are listed with what the step would take if each were gone.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from profkit.analyze.division.names import parts_of
from profkit.analyze.shared.what_if import Prediction, Step
from profkit.cli.explained import unprofiled_ms
from profkit.cli.measured_run import METRICS, measured
from profkit.cli.run_folders import RunFolder, last_selected, run_named
from profkit.core.errors import InputError
from profkit.core.formatting import milliseconds, shortened
from profkit.core.settings import nearest
from profkit.core.step_time import is_mean_of_uneven

_GONE, _HALF = 1.0, 0.5
_MS = 1e6
_LISTED = 10
_SMALL = 0.02
_SAME = 0.95
_SEEN = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class Less:
    """What takes less."""

    words: str
    causes: Mapping[str, float]
    """Share of each cause that is gone, 0 to 1."""


def main(argv: Sequence[str]) -> None:
    """Print the step time if causes took less."""
    parser = argparse.ArgumentParser(
        prog="profkit what-if",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    about = "name of a run, or how it begins, or its folder; the first of the last selection"
    about += " if left out"
    parser.add_argument("run", nargs="?", help=about)
    listed: dict[str, Any] = {"action": "append", "default": [], "metavar": "CAUSE"}
    parser.add_argument("--without", **listed, help="a cause that is gone; several times")
    parser.add_argument("--halve", **listed, help="a cause of half the time; several times")
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
    args = parser.parse_args(argv)
    run = run_named(args.run) if args.run else last_selected()[0]
    known = measured(run, needs_steps=False)
    causes = known.reasons.get("causes")
    if causes is None or "parts" not in causes.tables:
        raise InputError(
            f"{run.name}: its step time was not divided among causes",
            hint="profkit show --notes says why; profkit run makes results anew",
        )
    step = Step(causes)
    # The number that everything else prints, too.
    repeats_ms = list(unprofiled_ms(known).values())
    now = known.metrics[METRICS["step_time"]] if repeats_ms else None
    now_ms, is_mean = now.value / _MS if now else None, is_mean_of_uneven(now)
    if args.without or args.halve:
        asked = [_less(args.without, args.halve, step)]
    else:
        asked = [_less([cause], [], step) for cause in _largest(step)]
    found = [
        (less, step.without(less.causes, now_ms, repeats_ms, is_mean=is_mean)) for less in asked
    ]
    if args.json:
        document = [{**asdict(less), **asdict(prediction)} for less, prediction in found]
        sys.stdout.write(json.dumps(document, indent=1) + "\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in _text(run, found))


def _less(without: Sequence[str], halve: Sequence[str], step: Step) -> Less:
    causes = {cause: _HALF for word in halve for cause in _named(word, step)}
    causes |= {cause: _GONE for word in without for cause in _named(word, step)}
    words = [f"without {word}" for word in without] + [f"with half of {word}" for word in halve]
    return Less(words=" and ".join(words), causes=causes)


def _named(word: str, step: Step) -> list[str]:
    """Return the causes with that id, or whose id ends in that word."""
    causes = list(step.times)
    if word in causes:
        return [word]
    found = [cause for cause in causes if cause.endswith(f".{word.replace('.', '_')}")]
    if not found:
        known = dict.fromkeys(last for cause in causes for last in (cause, cause.split(".")[-1]))
        raise InputError(f"no cause is called {word!r}", hint=nearest(word, known, _largest(step)))
    return found


def _largest(step: Step) -> list[str]:
    """Return the largest causes, those that are nothing but one of their parts left out."""
    times = step.times
    least = _SMALL * sum(time for cause, time in times.items() if "." not in cause)
    worth = [cause for cause, time in times.items() if time > least]
    below = {parts_of(cause)[-2]: times[cause] for cause in reversed(worth) if "." in cause}
    return [cause for cause in worth if below.get(cause, 0.0) < _SAME * times[cause]][:_LISTED]


def _text(run: RunFolder, found: Sequence[tuple[Less, Prediction]]) -> Iterator[str]:
    yield f"{run.name}: {milliseconds(found[0][1].step_ms)} ms per step"
    for less, prediction in found:
        ends = [milliseconds(ms) for ms in (prediction.low_ms, prediction.high_ms)]
        bounds = "" if len(set(ends)) == 1 else f", between {ends[0]} and {ends[1]}"
        share = prediction.gain_ms / prediction.step_ms
        few = abs(prediction.gained_share - share) > _SEEN
        over_all = f"; {-prediction.gained_share:.0%} over all steps" if few else ""
        left = f"{milliseconds(prediction.predicted_ms):>8} ms ({-share:.0%}{bounds}{over_all})"
        yield f"{left}  {shortened(less.words)}"
