"""``profkit bisect GOOD BAD [OVERRIDES] -- COMMAND...``: which commit changed the step time.

Compares revisions of the git repository of this folder until one is left: both are checked out
into clean folders and run in turn, in random order and without a profiler. No answer hangs on a
single comparison: the search ends once one commit has 99.5 % of the probability and was compared
with its parent. Commits that cannot be run are skipped. Everything is kept in results/bisect, so
that the same command goes on where it was interrupted.

Files that git ignores, such as data, are not in these folders: give their absolute paths. The
environment is this one for all revisions.

Exit status: 0 if a commit was found; 1 if a revision that is named cannot be read or run; 2 for
words that make no sense; 3 if the ends do not differ, or noise hides which commit it is.
"""

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from profkit.analyze.shared.bisection import Answer, Compared, RevisionFailed, bisected
from profkit.analyze.shared.paired import over_repeats
from profkit.cli import profile, run
from profkit.cli.bisect_record import Record, read_record
from profkit.cli.captured_pairs import SideFailedError, captured_pairs
from profkit.cli.explained import explained, lines
from profkit.cli.git_revisions import Revision, between, revision, worktrees
from profkit.cli.loudness import add_loudness
from profkit.cli.measured_run import METRICS, measured
from profkit.cli.run_folders import RunFolder
from profkit.core.errors import ConfigError, InputError
from profkit.core.formatting import counted, shortened
from profkit.dag.inputs import Dag
from profkit.planning.cache import load
from profkit.planning.sides import Sides

NOT_KNOWN = 3
"""Exit status without an answer."""

_STEP_TIME = METRICS["step_time"]
_TRACED = 3


def main(argv: Sequence[str]) -> int:
    """Search, and print each comparison and the answer."""
    own, words = run.split(argv)
    parser = argparse.ArgumentParser(
        prog="profkit bisect",
        usage="profkit bisect [--all] GOOD BAD [OVERRIDES] -- COMMAND...",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("good", nargs="?", help="revision before the change")
    parser.add_argument("bad", nargs="?", help="revision with the change")
    parser.add_argument("overrides", nargs="*", help="Hydra overrides")
    parser.add_argument("--all", action="store_true", help="let the program run to its end")
    run.add_cores(parser)
    add_loudness(parser)
    args = parser.parse_intermixed_args(own)
    if args.good is None or args.bad is None:
        parser.error("name two revisions, GOOD and BAD")
    if not words:
        raise ConfigError(
            "bisect: no command is given",
            hint="write it behind --, as in: profkit bisect v1 HEAD -- python train.py",
        )
    commits = between(revision(args.good), revision(args.bad))
    common = profile.overrides(args.overrides, words, is_whole=args.all, is_thorough=False)
    search = _Search(commits, common, args)
    sys.stdout.write(f"{counted(len(commits) - 1, 'commit')} after {_named(commits[0])}\n")
    try:
        answer = bisected(len(commits) - 1, search.compare, search.show)
    except RevisionFailed as failure:
        failed = commits[failure.position]
        raise InputError(
            f"{_named(failed)} cannot be run: {search.record.failed[failed.commit]}",
            hint="name a revision that can",
        ) from None
    sys.stdout.writelines(f"{line}\n" for line in search.answer_lines(answer))
    return 0 if answer.is_sure else NOT_KNOWN


def _named(commit: Revision) -> str:
    return f"{commit.short} ({shortened(commit.subject, 60)})"


class _Search:
    """Measures what the search asks for, and prints it."""

    def __init__(
        self, commits: Sequence[Revision], common: Sequence[str], args: argparse.Namespace
    ) -> None:
        self.commits = commits
        self.common = tuple(common)
        self.args = args
        self.record: Record = read_record([commit.commit for commit in commits], self.common)
        self._asked = 0

    def compare(self, before: int, after: int, pairs: int) -> Sequence[float]:
        """Return the log ratios of so many pairs: those of an earlier search, or new ones."""
        ends = self.commits[before], self.commits[after]
        for position, commit in zip((before, after), ends, strict=True):
            if commit.commit in self.record.failed:
                raise RevisionFailed(position)
        self._asked += 1
        names = ends[0].commit, ends[1].commit
        if (kept := self.record.kept(self._asked, names, pairs)) is not None:
            return kept
        with worktrees(*ends) as folders:
            try:
                logs = self._captured(folders, pairs)
            except SideFailedError as failure:
                side = "ab".index(failure.side)
                self.record.fail(names[side], str(failure))
                sys.stdout.write(f"skipped {_named(ends[side])}: {failure}\n")
                self._asked -= 1
                raise RevisionFailed((before, after)[side]) from None
        self.record.keep(self._asked, names, logs)
        return logs

    def _captured(self, folders: Sequence[Path], pairs: int) -> list[float]:
        sides = self._sides(folders, self._asked)
        self.record.add_runs([one.name for one in load(sides.words).runs])
        # One pair first: what cannot be run fails there, not in each of them.
        for least in dict.fromkeys((1, pairs)):
            found = next(captured_pairs(sides, least, self.args, least=least))
        mine, theirs = (one.metrics[_STEP_TIME].by_repeat for one in (found.after, found.before))
        return [math.log(mine[repeat] / theirs[repeat]) for repeat in sorted({*mine} & {*theirs})]

    def _sides(self, folders: Sequence[Path], coin: int) -> Sides:
        a, b = ((f"launcher.cwd={folder}",) for folder in folders)
        sides = Sides(common=self.common, a=a, b=b, coin=coin)
        for letter, own in zip("ab", sides.overrides, strict=True):
            try:
                load(own)
            except ConfigError as error:
                # As of a program that this revision does not have.
                raise SideFailedError(letter, str(error)) from None
        return sides

    def show(self, compared: Compared, left: int) -> None:
        """Print a comparison, and how far the search is."""
        ends = (self.commits[position].short for position in (compared.before, compared.after))
        sys.stdout.write(
            f"comparison {self._asked}: {' -> '.join(ends)}, {_change(compared.logs)}; "
            f"{counted(left, 'commit')} left\n"
        )
        sys.stdout.flush()

    def answer_lines(self, answer: Answer) -> Iterator[str]:
        """Yield the answer and why, in words."""
        before, after = self.commits[answer.before], self.commits[answer.after]
        if not answer.probability:
            logs = [log for one in answer.comparisons for log in one.logs]
            yield f"no difference is known between the two: {_change(logs)}"
            return
        if not answer.is_sure:
            yield f"not known: {_named(after)} has {answer.probability:.0%} of the probability"
            return
        ends = (answer.before, answer.after)
        direct = [one for one in answer.comparisons if (one.before, one.after) == ends]
        logs = [log for one in direct for log in one.logs]
        word = "slower" if np.mean(logs) > 0 else "faster"
        yield f"{word} since {_named(after)}, with a probability of {answer.probability:.1%}"
        yield f"step time {_change(logs)} against {_named(before)}"
        if skipped := [self.commits[at].short for at in range(answer.before + 1, answer.after)]:
            yield f"or one of those before it that cannot be run: {', '.join(skipped)}"
        yield from self._why(before, after)

    def _why(self, *ends: Revision) -> Iterator[str]:
        """Yield the largest bars between two revisions, traced for that."""
        with worktrees(*ends) as folders:
            sides = self._sides(folders, 0).with_common(f"repeats={_TRACED}")
            dag = Dag(load(sides.words))
            runs = [RunFolder(Path("results/runs", one.name)) for one in dag.plan.runs]
            targets = [str(run.path / f"analyze/{name}.json") for run in runs for name in _READ]
            is_made = run.make(dag, targets, self.args)
        why = explained(*map(measured, runs)) if is_made else None
        if why is None:
            yield "why is not known: the steps could not be recorded"
            return
        yield from lines(why)


_READ = ("causes", "steps")


def _change(logs: Sequence[float]) -> str:
    ratio = over_repeats({index: math.exp(log) for index, log in enumerate(logs)})
    ends = ratio.interval
    sure = f" (95% interval {ends.low - 1:+.1%} to {ends.high - 1:+.1%})" if ends else ""
    return f"{ratio.ratio - 1:+.1%}{sure} in {counted(ratio.repeats, 'pair')}"
