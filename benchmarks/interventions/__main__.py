"""Does the waterfall name what was added to a program, and does what-if predict taking it away.

    python -m benchmarks.interventions [--rounds 6] [--only why|what-if]

Why: a program, and the same with a sleep in the loader, matrix products, copies, one thread more or
smaller buckets of two ranks, at three sizes each, as pairs of processes in random order. Prints for
each whether the largest bar is the true cause, its difference and interval, what a stopwatch in the
recorded steps saw, and how far the bars are from closing. What if: one capture of the program with
something added predicts the step without it, or with half of it; every second of the unprofiled
steps before and after was without it, or with half. Takes 3 to 9 CPU seconds a process.
"""

import argparse
import json
import multiprocessing
import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median

import pandas as pd

from profkit.analyze.shared.waterfall import waterfall
from profkit.analyze.shared.what_if import Step
from profkit.cli.unkept_run import unkept_run
from profkit.core import result
from profkit.core.result import Interval, Result, Table

from .program import RECORDED_FROM, Added, run

MATMULS, COPIES = (8, 24, 72), (6, 18, 54)
SLEEPS = (4.0, 12.0, 36.0)
KINDS = {
    "sleep in the loader": ("loading_data", [Added(sleep_ms=ms) for ms in SLEEPS]),
    "extra matmuls": ("cpu_operators.aten::bmm", [Added(matmuls=count) for count in MATMULS]),
    "added copies": ("cpu_operators.aten::copy_", [Added(copies=count) for count in COPIES]),
}
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
            with unkept_run(paths) as (made, _):
                self.causes = result.read(made / "analyze/causes.json").result
            self.measured = json.loads(Path(folder, "measured0.json").read_text())

    @property
    def added_ms(self) -> float:
        """Mean of what was added to the recorded steps that were divided among causes."""
        numbers = _frame(self.causes.tables["by_step"])["step"]
        return fmean(self.measured["added"][number - RECORDED_FROM] for number in numbers)


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
    """Print each size of one kind; yield whether the cause, the interval and the sum are right."""
    sides = {added_name(added): added for added in (plain, *sizes)}
    found: dict[str, list[Outcome]] = {key: [] for key in sides}
    for _ in range(rounds):
        for key in random.sample(list(sides), len(sides)):
            found[key].append(Outcome(sides[key]))
    before, *others = found.items()
    for key, outcomes in others:
        made = waterfall(joined(before[1]), joined(outcomes))
        if made is None:
            raise RuntimeError(f"{name} {key}: no time was divided")
        bar = next(iter(made.largest(1)), made.bars[0])
        pairs = zip(outcomes, before[1], strict=True)
        injected = fmean(one.added_ms - other.added_ms for one, other in pairs)
        is_right = bar.id.startswith(cause)
        rest = abs(sum(one.difference_ms for one in made.bars) - made.difference_ms)
        closes = rest <= CLOSES * abs(made.difference_ms)
        ends = bar.interval or Interval(low=bar.difference_ms, high=bar.difference_ms, confidence=0)
        covers = ends.low <= injected <= ends.high if plain == Added() and injected > 1 else None
        print(
            f"{name:20} {key:16} {'right' if is_right else 'WRONG':6} {bar.difference_ms:+7.2f} ms "
            f"({ends.low:+.2f} to {ends.high:+.2f}) {injected:7.2f} added"
            f"{'' if covers is not False else ' NOT COVERED'} {bar.title[:60]}",
            flush=True,
        )
        yield is_right, covers, closes


def added_name(added: Added) -> str:
    """Return what differs from nothing added."""
    plain = vars(Added())
    found = [f"{key}={value}" for key, value in vars(added).items() if value != plain[key]]
    return " ".join(found) or "plain"


def predicted() -> Iterator[float]:
    """Print each intervention; yield by how much the prediction of the step time is wrong."""
    for name, (cause, sizes) in KINDS.items():
        for added in sizes:
            yield _predicted(name, cause, added, Added(), 1.0)
        most = sizes[-1]
        half = replace(
            most, sleep_ms=most.sleep_ms / 2, matmuls=most.matmuls // 2, copies=most.copies // 2
        )
        yield _predicted(name, cause, most, half, 0.5)


def _predicted(name: str, cause: str, added: Added, done: Added, share: float) -> float:
    outcome = Outcome(added, done)
    step_ms, real = (float(median(outcome.measured[name])) for name in ("steps", "done"))
    found = Step(outcome.causes).without({cause: share}, step_ms)
    error = found.predicted_ms / real - 1
    # What a perfect prediction would be off by, more often than not: one half to the other.
    halves = [median(outcome.measured["done"][first::2]) for first in (0, 1)]
    inside = found.low_ms <= real <= found.high_ms
    print(
        f"{name:20} {added_name(added):16} {share:3.1f} gone: {step_ms:6.2f} -> predicted "
        f"{found.predicted_ms:6.2f} ({found.low_ms:.2f} to {found.high_ms:.2f}), real {real:6.2f} "
        f"{error:+6.1%} (noise {halves[1] / halves[0] - 1:+.1%}){'' if inside else ' outside'}",
        flush=True,
    )
    return abs(error)


def main(argv: Sequence[str]) -> int:
    """Run and print all of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    about = "pairs of processes of each size"
    parser.add_argument("--rounds", type=int, default=6, help=about)
    parser.add_argument("--only", choices=("why", "what-if"))
    options = parser.parse_args(argv)
    multiprocessing.get_context("forkserver").set_forkserver_preload([run.__module__])
    if options.only != "why":
        errors = list(predicted())
        print(
            f"what if: {len(errors)} interventions, median error {median(errors):.1%}, "
            f"worst {max(errors):.1%}"
        )
    if options.only != "what-if":
        kinds = [(name, cause, Added(), sizes) for name, (cause, sizes) in KINDS.items()]
        kinds += [(name, *given) for name, given in UNCLOCKED.items()]
        found = [one for kind in kinds for one in compared(*kind, options.rounds)]
        covers = [covered for _, covered, _ in found if covered is not None]
        print(
            f"why: {len(found)} cases: largest bar right {sum(right for right, _, _ in found)}, "
            f"interval covers {sum(covers)} of {len(covers)}, "
            f"closes {sum(closed for _, _, closed in found)}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
