"""Captures of two sides in pairs, a few pairs after the other, as long as more are wanted."""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from profkit.analyze.shared.paired import PAIRS_AT_ONCE
from profkit.cli import run
from profkit.cli.measured_run import MeasuredRun, measured, timed_alike
from profkit.cli.run_folders import RunFolder
from profkit.core.capture_record import read_capture
from profkit.core.errors import InputError, ProfkitError
from profkit.dag.inputs import Dag
from profkit.planning.cache import load
from profkit.planning.model import Pairing
from profkit.planning.sides import Sides

_TIMED_BY = "baseline"
_CHOOSING = {"tool", "toolset", "tools", "analysis", "analyses", "repeats"}
"""Sections of overrides that say what else is captured, and what is made of it."""

_KEPT = ("tools.baseline.", "analyses.steps.")


class SideFailedError(ProfkitError):
    """A capture of one side failed, so that the two cannot be compared."""

    def __init__(self, side: str, message: str) -> None:
        super().__init__(message)
        self.side = side
        """Which side: a or b."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CapturedPairs:
    """What there is of a comparison after pairs were captured."""

    before: MeasuredRun
    """Side A."""

    after: MeasuredRun
    """Side B."""

    count: int
    """Pairs so far, those of an earlier call among them."""

    pairing: Pairing


def captured_pairs(
    sides: Sides, most: int, args: argparse.Namespace, *, least: int = 1
) -> Iterator[CapturedPairs]:
    """Capture `most` pairs without a profiler, each repeat a new process; yield after some.

    After the first pair, which shows whether the sides can be run, and then after every
    `PAIRS_AT_ONCE`. Pairs that are there already are kept, so an interrupted comparison goes on
    where it was: the first result has all of these, and at least `least`. Who has seen enough
    stops asking. `args` say how many cores to use, and how much to print. Raises
    `SideFailedError` if a side cannot be captured.
    """
    unprofiled = sides_without_tools(sides)
    count = max(_there(unprofiled, most), least)
    while True:
        dag = _dag(unprofiled, count)
        pairing = dag.plan.pairing
        assert pairing is not None  # noqa: S101 - sides always make one
        names = (pairing.a, pairing.b)
        # Snakemake makes nothing again that only what is there already was made of.
        targets = [str(path) for planned in dag.plan.runs for path in dag.captures_of(planned)]
        targets += [f"results/runs/{name}/analyze/steps.json" for name in names]
        is_made = run.make(dag, targets, args)
        _check(dag, names)
        if not is_made:
            raise ProfkitError("the pairs could not be measured", hint="see what failed above")
        before, after = timed_alike(*map(_measured, "ab", names))
        yield CapturedPairs(before=before, after=after, count=count, pairing=pairing)
        if count >= most:
            return
        count = min(most, count + PAIRS_AT_ONCE - count % PAIRS_AT_ONCE)


def sides_without_tools(sides: Sides) -> Sides:
    """Return `sides` with nothing but the unprofiled capture, and the step times of that."""
    a, b, common = (
        tuple(word for word in words if word.startswith(_KEPT) or _section(word) not in _CHOOSING)
        for words in (sides.a, sides.b, sides.common)
    )
    common = (*common, "tool=[]", "analysis=[steps]")
    return Sides(common=common, a=a, b=b, coin=sides.coin)


def _section(word: str) -> str:
    return word.lstrip("+~").partition("=")[0].partition(".")[0]


def _dag(sides: Sides, count: int) -> Dag:
    return Dag(load(sides.with_common(f"repeats={count}").words))


def _there(sides: Sides, most: int) -> int:
    """Return how many pairs are there already, up to the first that has to be captured."""
    dag = _dag(sides, most)
    for repeat in range(most):
        captures = (dag.capture(planned.name, _TIMED_BY, repeat) for planned in dag.plan.runs)
        if not all(dag.attempts.is_settled(capture, _TIMED_BY) for capture in captures):
            return repeat
    return most


def _measured(side: str, name: str) -> MeasuredRun:
    """Return the numbers of one side; raises `SideFailedError` if it has no step times."""
    try:
        return measured(RunFolder(Path("results/runs", name)))
    except InputError as error:
        raise SideFailedError(side, f"side {side.upper()} failed, {error}") from None


def _check(dag: Dag, names: tuple[str, str]) -> None:
    """Raise `SideFailedError` for the first capture that failed."""
    for side, name in zip("ab", names, strict=True):
        for path in dag.captures_of(dag.plan.run(name)):
            record = read_capture(path) if path.is_file() else {"status": "ok"}
            if record["status"] != "ok":
                reason = f"{record['status']}: {record['reason']}"
                raise SideFailedError(side, f"side {side.upper()} failed, {path.parent}: {reason}")
