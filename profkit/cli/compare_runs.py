"""Two runs, baselines or recordings that are there, compared; and how any comparison is printed."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from profkit.cli.comparison import Comparison, as_json, compared_runs, text
from profkit.cli.explained import Why, draw, explained
from profkit.cli.measured_run import MeasuredRun, is_baseline, measured, read_baseline
from profkit.cli.run_folders import RunFolder, is_run, run_named
from profkit.core.errors import InputError

NOT_COMPARABLE = 3
"""Exit status if the comparison would mean nothing."""


def answered(comparison: Comparison, *, is_json: bool) -> int:
    """Print the answer, and return the exit status."""
    if is_json:
        sys.stdout.write(as_json(comparison))
    else:
        sys.stdout.writelines(f"{line}\n" for line in text(comparison))
    return 0 if comparison.judgements or not comparison.decisive else NOT_COMPARABLE


def of_words(args: argparse.Namespace) -> Comparison:
    """Compare two runs, baselines or recordings that are there."""
    with ExitStack() as unkept:
        sides = [unkept.enter_context(_named(name)) for name in args.words]
        before, after = _told_apart(sides, args.words)
        if before == after:
            hint = "name two runs: profkit ls"
            raise InputError(f"{before.name}: compared with itself", hint=hint)
        comparison = compared_runs(before, after, band=args.band, anyway=args.anyway)
        is_comparable = args.anyway or not comparison.decisive
        if is_comparable:
            comparison = replace(comparison, why=explained(before, after))
            draw(args.flame_graph, before, after)
    if is_comparable and not comparison.judgements and comparison.why == Why():
        hint = "profkit why RUN says the reason"
        raise InputError("nothing was measured in both runs", hint=hint)
    return comparison


def _told_apart(sides: Sequence[MeasuredRun], words: Sequence[str]) -> list[MeasuredRun]:
    """Return `sides`, those of recordings with one name under the paths that were typed."""
    paths = [Path(word) for word in words]
    if len({side.name for side in sides}) > 1 or len({path.resolve() for path in paths}) == 1:
        return [*sides]
    return [
        replace(side, name=str(path)) if _is_recording(path) else side
        for side, path in zip(sides, paths, strict=True)
    ]


def _is_recording(path: Path) -> bool:
    """Say whether there is a file or a folder at `path` that is no run."""
    return path.exists() and not is_run(path)


@contextmanager
def _named(name: str) -> Iterator[MeasuredRun]:
    """Yield the numbers of a baseline, a run or a recording."""
    if is_baseline(name):
        yield replace(read_baseline(name), name=Path(name).stem)
    elif _is_recording(path := Path(name)):
        # Late: what reads recordings takes longer to load than two runs take to compare.
        from profkit.cli.unkept_run import unkept_run  # noqa: PLC0415

        with unkept_run([path]) as (folder, *_):
            found = measured(RunFolder(folder), needs_steps=False)
            (tool,) = (made.name for made in (folder / "tables").iterdir())
            yield replace(found, facts=found.facts | {"tool": tool})
    else:
        # Causes can be compared where no step was marked.
        yield measured(run_named(name), needs_steps=False)
