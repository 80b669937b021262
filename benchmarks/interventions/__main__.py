"""Does the waterfall name what was added to a program, and does what-if predict taking it away.

    python -m benchmarks.interventions [--rounds 6] [--only why|what-if] [--other]

Why: a program, and the same with a sleep in the loader, matrix products, copies, one thread more or
smaller buckets of two ranks, at three sizes each, as pairs of processes in random order. Prints for
each whether the largest bar is the true cause, its difference, the difference of the unprofiled
step times with its interval, as `profkit compare` has both, and how far the bars are from closing.
What was added is known apart from that: in turns of steps of one process, with it and without. What
if: one capture of the program with something added predicts the step without it, or with half of
it, which every second turn of the unprofiled steps had. Takes 3 to 9 CPU seconds a process.
"""

import argparse
import json
import math
import multiprocessing
import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, geometric_mean, median

import pandas as pd

from profkit.analyze.shared.paired import over_repeats
from profkit.analyze.shared.waterfall import waterfall
from profkit.analyze.shared.what_if import Step
from profkit.cli.unkept_run import unkept_run
from profkit.core import result
from profkit.core.result import Result, Table

from .program import Added, run

Kinds = dict[str, tuple[str, list[Added]]]


def kinds(sleeps: Sequence[float], matmuls: Sequence[int], copies: Sequence[int]) -> Kinds:
    """Return what is added, at these sizes, and the cause of each kind."""
    return {
        "sleep in the loader": ("loading_data", [Added(sleep_ms=ms) for ms in sleeps]),
        "extra matmuls": ("cpu_operators.aten::bmm", [Added(matmuls=count) for count in matmuls]),
        "added copies": ("cpu_operators.aten::copy_", [Added(copies=count) for count in copies]),
    }


KINDS = kinds((4.0, 12.0, 36.0), (8, 24, 72), (6, 18, 54))
OTHERS = kinds((8.0, 24.0), (16, 48), (12, 36))
"""Written down before any of them was run."""

UNCLOCKED = {
    "threads": ("cpu_operators", Added(), [Added(threads=count) for count in (2, 3, 4)]),
    "smaller buckets": (
        "exposed_communication",
        Added(ranks=2),
        [Added(ranks=2, bucket_mb=mb) for mb in (2.0, 0.5, 0.05)],
    ),
}
CLOSES = 1e-3


class Outcome:
    """One process: its causes and what was measured in it."""

    def __init__(self, added: Added, done: Added | None = None) -> None:
        with tempfile.TemporaryDirectory() as folder:
            context = multiprocessing.get_context("forkserver")
            ranks = [
                context.Process(target=run, args=(added, done, folder, rank))
                for rank in range(added.ranks)
            ]
            for process in ranks:
                process.start()
            for process in ranks:
                process.join()
            paths = [Path(folder, f"rank{rank}.json") for rank in range(added.ranks)]
            with unkept_run(paths) as (made, *_):
                self.causes = result.read(made / "analyze/causes.json").result
            self.measured = json.loads(Path(folder, "measured0.json").read_text())

    def typical_ms(self, side: str) -> dict[int, float]:
        """Return the median of each turn of unprofiled steps, as if it were a repeat."""
        return dict(enumerate(median(times) for times in self.measured[side]))

    @property
    def step_ms(self) -> float:
        """Median step without the profiler."""
        return geometric_mean(self.typical_ms("steps").values())

    @property
    def added_ms(self) -> float:
        """What was added to a step: turns with it less those without it."""
        turns = (self.typical_ms(side).values() for side in ("steps", "done"))
        return fmean(step - done for step, done in zip(*turns, strict=True))


def joined(outcomes: Sequence[Outcome]) -> Result:
    """Return one result of the causes of several processes, as repeats."""
    frames = [_frame(outcome.causes.tables["parts"]) for outcome in outcomes]
    rows = pd.concat([rows.assign(repeat=repeat) for repeat, rows in enumerate(frames)])
    return Result(tables={"parts": result.table(rows, title="")})


def _frame(table: Table) -> pd.DataFrame:
    return pd.DataFrame(table.rows, columns=list(table.columns))


def compared(
    name: str, cause: str, plain: Added, sizes: Sequence[Added], rounds: int
) -> Iterator[tuple[bool, bool | None, bool]]:
    """Print each size of one kind; yield whether the cause, the interval and the sum are right.

    What threads and buckets add is not known apart from the comparison: turns share a process.
    """
    sides = {added_name(added): added for added in (plain, *sizes)}
    found: dict[str, list[Outcome]] = {key: [] for key in sides}
    is_known = plain == Added() and sizes[0].threads == 1
    for _ in range(rounds):
        for key in random.sample(list(sides), len(sides)):
            found[key].append(Outcome(sides[key], plain))
    before, *others = found.items()
    for key, outcomes in others:
        times = [{n: one.step_ms for n, one in enumerate(of)} for of in (before[1], outcomes)]
        made = waterfall(joined(before[1]), joined(outcomes), (times[0], times[1]))
        if made is None:
            raise RuntimeError(f"{name} {key}: no time was divided")
        bar = next(iter(made.largest(1)), made.bars[0])
        is_right = bar.id.startswith(cause)
        rest = abs(sum(one.difference_ms for one in made.bars) - made.difference_ms)
        closes = rest <= CLOSES * abs(made.difference_ms)
        pairs = range(len(outcomes))
        ratio = over_repeats({pair: times[1][pair] / times[0][pair] for pair in pairs})
        base = geometric_mean(times[0].values())
        low, high = (
            (base * (end - 1) for end in (ratio.interval.low, ratio.interval.high))
            if ratio.interval
            else (-math.inf, math.inf)
        )
        injected = fmean(one.added_ms for one in outcomes)
        covers = low <= injected <= high if is_known else None
        print(
            f"{name:20} {key:16} {'right' if is_right else 'WRONG':6} {bar.difference_ms:+7.2f} ms "
            f"{bar.title[:40]}; step {made.difference_ms:+.2f} ({low:+.2f} to {high:+.2f}), "
            f"injected {injected:.2f}{'' if covers is not False else ' NOT COVERED'}",
            flush=True,
        )
        yield is_right, covers, closes


def added_name(added: Added) -> str:
    """Return what differs from nothing added."""
    plain = vars(Added())
    found = [f"{key}={value}" for key, value in vars(added).items() if value != plain[key]]
    return " ".join(found) or "plain"


def predicted(chosen: Kinds) -> Iterator[tuple[float, bool]]:
    """Print each intervention; yield how far off its prediction is, and whether its bounds hold."""
    for name, (cause, sizes) in chosen.items():
        for added in sizes:
            yield _predicted(name, cause, added, Added(), 1.0)
        most = sizes[-1]
        half = replace(
            most, sleep_ms=most.sleep_ms / 2, matmuls=most.matmuls // 2, copies=most.copies // 2
        )
        yield _predicted(name, cause, most, half, 0.5)


def _predicted(
    name: str, cause: str, added: Added, done: Added, share: float
) -> tuple[float, bool]:
    outcome = Outcome(added, done)
    repeats_ms = list(outcome.typical_ms("steps").values())
    turns = list(outcome.typical_ms("done").values())
    real = geometric_mean(turns)
    found = Step(outcome.causes).without({cause: share}, outcome.step_ms, repeats_ms)
    error = found.predicted_ms / real - 1
    # What a perfect prediction would be off by, more often than not: one half to the other.
    noise = geometric_mean(turns[1::2]) / geometric_mean(turns[::2]) - 1
    inside = found.low_ms <= real <= found.high_ms
    print(
        f"{name:20} {added_name(added):16} {share:3.1f} gone: {found.step_ms:6.2f} -> predicted "
        f"{found.predicted_ms:6.2f} ({found.low_ms:.2f} to {found.high_ms:.2f}), real {real:6.2f} "
        f"{error:+6.1%} (noise {noise:+.1%}){'' if inside else ' outside'}",
        flush=True,
    )
    return abs(error), inside


def main(argv: Sequence[str]) -> int:
    """Run and print all of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    about = "pairs of processes of each size"
    parser.add_argument("--rounds", type=int, default=6, help=about)
    parser.add_argument("--only", choices=("why", "what-if"))
    parser.add_argument("--other", action="store_true", help="other sizes of the same kinds")
    options = parser.parse_args(argv)
    chosen = OTHERS if options.other else KINDS
    multiprocessing.get_context("forkserver").set_forkserver_preload([run.__module__])
    if options.only != "why":
        errors, insides = zip(*predicted(chosen), strict=True)
        print(
            f"what if: {len(errors)} interventions, median error {median(errors):.1%}, "
            f"worst {max(errors):.1%}, {sum(insides)} inside of their bounds"
        )
    if options.only != "what-if":
        every = [(name, cause, Added(), sizes) for name, (cause, sizes) in chosen.items()]
        every += [(name, *given) for name, given in UNCLOCKED.items()]
        found = [one for kind in every for one in compared(*kind, options.rounds)]
        covers = [covered for _, covered, _ in found if covered is not None]
        print(
            f"why: {len(found)} cases: largest bar right {sum(right for right, _, _ in found)}, "
            f"interval covers {sum(covers)} of {len(covers)}, "
            f"closes {sum(closed for _, _, closed in found)}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
