"""False alarms and power of comparisons, on simulated studies whose truth is known.

    python benchmarks/verdicts.py
    python benchmarks/verdicts.py --real 60

A study is pairs of captures, one after the other, whose step times are noise around the truth.
The order within a pair is drawn by a coin, as `profkit` does where it makes the pairs. An alarm is
a verdict of a difference that is not there. At a band of 0 every difference counts, so alarms are
those of the interval itself; at the default band there can only be fewer. Exit status 1 if alarms
are beyond the stated level by more than chance, or drift is not found.

With ``--real`` the noise is this machine's, idle or busy as it is: each repeat is a new process
that times steps of its own, and what is compared is the same program with itself.
"""

import argparse
import itertools
import math
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from profkit.analyze.shared.paired import (
    BAND,
    FEWEST_PAIRS,
    MOST_PAIRS,
    PAIRS_AT_ONCE,
    STOPPED_CONFIDENCE,
    Outcome,
    bounds,
    narrow_enough,
    outcomes,
    sign_flips,
)

Array = NDArray[np.float64]
Noise = Callable[[np.random.Generator, tuple[int, int]], Array]

LEVEL = 0.05
SPREAD = 0.01
"""Standard deviation of the log ratio of a pair, where the noise is normal."""

PAIRS = (6, 10, 20)
EFFECTS = (0.01, 0.03, 0.1)
LIMIT = 0.03
"""Of gates: a slowdown by more makes them fail."""

SPREADS = (0.01, 0.02, 0.03)
_ALARMS = (Outcome.HIGHER, Outcome.LOWER)
_CAPTURE = SPREAD / math.sqrt(2)
# With 40 rows, one is beyond 5 % by chance more often than not.
_SURE = 0.001
_DRIFT_FOUND = 0.9


def normal(random: np.random.Generator, shape: tuple[int, int]) -> Array:
    """Return independent noise."""
    return random.normal(0, _CAPTURE, shape)


def heavy_tails(random: np.random.Generator, shape: tuple[int, int]) -> Array:
    """Return noise without a variance: Student's t with two degrees of freedom."""
    return _CAPTURE * random.standard_t(2, shape)


def drift(random: np.random.Generator, shape: tuple[int, int]) -> Array:
    """Return noise on a level that rises by half of the noise with each capture."""
    return normal(random, shape) + _CAPTURE / 2 * np.arange(shape[1])


def two_states(random: np.random.Generator, shape: tuple[int, int]) -> Array:
    """Return little noise on a machine that is fast or 10 % slower, for ten captures on average."""
    changes = random.random(shape) < np.where(np.arange(shape[1]) == 0, 0.5, 0.1)
    return 0.1 * (changes.cumsum(axis=1) % 2) + 0.3 * normal(random, shape)


def autocorrelated(random: np.random.Generator, shape: tuple[int, int]) -> Array:
    """Return noise of which each capture keeps 80 % of that of the one before."""
    noise = normal(random, shape)
    for capture in range(1, shape[1]):
        noise[:, capture] += 0.8 * noise[:, capture - 1]
    return noise


KINDS: tuple[Noise, ...] = (normal, heavy_tails, drift, two_states, autocorrelated)


def main() -> int:
    """Simulate, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=1000, help="studies of each kind")
    parser.add_argument("--seed", type=int, default=0, help="of the random numbers")
    parser.add_argument("--real", type=int, default=0, metavar="N", help="real studies instead")
    args = parser.parse_args()
    random = np.random.default_rng(args.seed)
    if args.real:
        return _real_alarms(random, args.real)
    checks = (_false_alarms, _drift_found, _gates)
    failures = [failure for check in checks for failure in check(random, args.studies)]
    _power(random, args.studies)
    for failure in failures:
        print(f"FAILED: {failure}")
    return int(bool(failures))


_PROGRAM = """
import statistics, time
times = []
for _ in range(15):
    began = time.perf_counter_ns()
    sum(number * number for number in range(100_000))
    times.append(time.perf_counter_ns() - began)
print(statistics.median(times[3:]))
"""


def _real_alarms(random: np.random.Generator, studies: int) -> int:
    """Print what comes of comparing a program with itself; 1 if alarms are beyond chance."""
    found: Counter[str] = Counter()
    alarms = 0
    for study in range(studies):
        times = np.array([_real_pair(random) for _ in range(FEWEST_PAIRS)])
        logs, levels = np.log(times[:, 1] / times[:, 0]), np.log(times).mean(axis=1)
        strict, banded = (str(outcomes(logs, levels, band=band)) for band in (0.0, BAND))
        alarms += strict in _ALARMS
        found[banded] += 1
        low, high = np.expm1(bounds(logs))
        load = os.getloadavg()[0]
        print(
            f"study {study + 1}: {low:+.1%} to {high:+.1%}, band 0 {strict}, band 1 % {banded}, "
            f"load {load:.1f}",
            flush=True,
        )
    within = stats.binomtest(alarms, studies).proportion_ci(method="exact")
    print(f"\n{alarms} alarms at a band of 0 in {studies} ({within.low:.1%} to {within.high:.1%})")
    print(f"at a band of 1 %: {dict(found)}")
    test = stats.binomtest(alarms, studies, LEVEL, alternative="greater")
    return int(test.pvalue < _SURE)


def _real_pair(random: np.random.Generator) -> tuple[float, float]:
    """Return the step times of A and B in ns, captured in the order of a coin."""
    first, second = (
        float(
            subprocess.run(
                [sys.executable, "-S", "-c", _PROGRAM], capture_output=True, text=True, check=True
            ).stdout
        )
        for _ in range(2)
    )
    return (first, second) if random.random() < 1 / 2 else (second, first)


def pairs(
    random: np.random.Generator, noise: Noise, studies: int, count: int, *, coin: bool = True
) -> tuple[Array, Array]:
    """Return log ratios and levels of the pairs of studies without a difference."""
    captures = noise(random, (studies, 2 * count)).reshape(studies, count, 2)
    ratios = captures[..., 1] - captures[..., 0]
    if coin:
        ratios = ratios * random.choice([-1.0, 1.0], ratios.shape)
    return ratios, captures.mean(axis=-1)


def until_narrow(
    logs: Array, levels: Array, band: float, *, wanted: float = BAND
) -> NDArray[np.str_]:
    """Return the outcomes if pairs are made until the interval is as narrow as `wanted`."""
    found = np.full(len(logs), "", dtype="U32")
    for count in (*range(FEWEST_PAIRS, MOST_PAIRS, PAIRS_AT_ONCE), MOST_PAIRS):
        open_ = np.flatnonzero(found == "")
        if not len(open_):
            break
        some, their_levels = logs[open_, :count], levels[open_, :count]
        done = narrow_enough(some, band=wanted) | (count == MOST_PAIRS)
        found[open_[done]] = outcomes(
            some[done], their_levels[done], band=band, drift=wanted, confidence=STOPPED_CONFIDENCE
        )
    return found


def _false_alarms(random: np.random.Generator, studies: int) -> Iterator[str]:
    """Print how often a difference is seen where there is none; yield where that is too often."""
    print(f"## False alarms in {studies} studies without a difference; stated: {LEVEL:.0%}\n")
    print("| noise | order | pairs | band 0 | 95 % interval | band 1 % | void | sign flips alone |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for noise in KINDS:
        for coin, count in itertools.product((True, False), (*PAIRS, 0)):
            logs, levels = pairs(random, noise, studies, count or MOST_PAIRS, coin=coin)
            judge = _at(count)
            strict, banded = judge(logs, levels, 0.0), judge(logs, levels, BAND)
            alarms = int(np.isin(strict, _ALARMS).sum())
            test = stats.binomtest(alarms, studies, LEVEL, alternative="greater")
            within = stats.binomtest(alarms, studies).proportion_ci(method="exact")
            flips = f"{(sign_flips(logs) <= LEVEL).mean():.1%}" if count in PAIRS[:2] else ""
            print(
                f"| {noise.__name__} | {'coin' if coin else 'A first'} | {count or 'auto'} | "
                f"{alarms / studies:.1%} | {within.low:.1%} to {within.high:.1%} | "
                f"{np.isin(banded, _ALARMS).mean():.1%} | "
                f"{(banded == Outcome.VOID).mean():.1%} | {flips} |"
            )
            if test.pvalue < _SURE:
                yield f"{noise.__name__}, {count or 'auto'} pairs: {alarms} alarms"


def _at(count: int) -> Callable[[Array, Array, float], NDArray[np.str_]]:
    """Return what judges studies of `count` pairs, or of as many as it takes for 0."""
    if not count:
        return until_narrow
    return lambda logs, levels, band: outcomes(logs, levels, band=band)


def _drift_found(random: np.random.Generator, studies: int) -> Iterator[str]:
    """Print how often a growing difference is void; yield what is found too seldom."""
    print("\n## Void, where the difference grows from 0 to 10 % over the pairs\n")
    print("| pairs | void |\n| --- | --- |")
    for count in PAIRS:
        logs, levels = pairs(random, normal, studies, count)
        logs = logs + np.linspace(0, math.log(1.1), count)
        void = float((outcomes(logs, levels) == Outcome.VOID).mean())
        print(f"| {count} | {void:.1%} |")
        if void < _DRIFT_FOUND:
            yield f"drift of 10 % over {count} pairs: {void:.1%} void"


def _gates(random: np.random.Generator, studies: int) -> Iterator[str]:
    """Print the answers of gates on automatic pairs; yield where one at its limit fails too often.

    As `profkit compare --pairs auto --band 3%` and `profkit gate --fail-if "step_time > +3%"` do.
    """
    print(f"\n## Gates that fail beyond {LIMIT:.0%}, on pairs until the interval is as wide\n")
    print("| noise | its scale | slower by | fails | passes | not known |")
    print("| --- | --- | --- | --- | --- | --- |")
    for noise, spread in itertools.product((normal, heavy_tails), SPREADS):
        for effect in (0.0, LIMIT, EFFECTS[-1]):
            logs, levels = (
                spread / SPREAD * one for one in pairs(random, noise, studies, MOST_PAIRS)
            )
            beyond = logs + math.log1p(effect) - math.log1p(LIMIT)
            found = until_narrow(beyond, levels, 0.0, wanted=LIMIT)
            fails, passes = ((found == one).mean() for one in (Outcome.HIGHER, Outcome.LOWER))
            shown = " | ".join(f"{share:.1%}" for share in (fails, passes, 1 - fails - passes))
            print(f"| {noise.__name__} | {spread:.0%} | {effect:.0%} | {shown} |")
            test = stats.binomtest(int(fails * studies), studies, LEVEL, alternative="greater")
            if effect <= LIMIT and test.pvalue < _SURE:
                yield f"{noise.__name__}, {spread:.0%}, slower by {effect:.0%}: {fails:.1%} fail"


def _power(random: np.random.Generator, studies: int) -> None:
    """Print how often differences are seen, beside the theory."""
    print(f"\n## Found, where pairs differ by {SPREAD:.0%} (standard deviation, normal); theory\n")
    print("| slower by | pairs | band 0 | theory | band 1 % | theory | wrong direction |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for effect in EFFECTS:
        for count in PAIRS:
            logs, levels = pairs(random, normal, studies, count)
            logs = logs + math.log1p(effect)
            cells = []
            wrong = 0.0
            for band in (0.0, BAND):
                found = outcomes(logs, levels, band=band)
                cells += [(found == Outcome.HIGHER).mean(), _theory(effect, count, band)]
                wrong = max(wrong, float((found == Outcome.LOWER).mean()))
            shown = " | ".join(f"{share:.1%}" for share in (*cells, wrong))
            print(f"| {effect:.0%} | {count} | {shown} |")


def _theory(effect: float, count: int, band: float) -> float:
    """Return the power of a t interval that must lie above the band."""
    shift = (math.log1p(effect) - math.log1p(band)) / SPREAD * math.sqrt(count)
    beyond = stats.t.ppf(1 - LEVEL / 2, count - 1)
    return float(stats.nct.sf(beyond, count - 1, shift))


if __name__ == "__main__":
    sys.exit(main())
