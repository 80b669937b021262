"""``profkit history [NAME]``: how a run's numbers changed over saved results, and when.

Results are those that ``profkit baseline save NAME`` kept in this folder, and the runs that are
here now. Those of one configuration on one kind of machine are a series, in the order of time.
From 12 results on, a change is one that E-divisive and Student's t find; below that, one beyond
the fence of earlier changes (third quartile and 3 interquartile ranges), which takes 6 results and
finds changes that are none in up to a fifth of short series.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from profkit.analyze.shared.change_points import FEWEST
from profkit.cli.measured_history import Saved, Series, changes_of, document, history, series_of
from profkit.cli.measured_run import measured, read_baseline
from profkit.cli.metric_words import TITLES, shown
from profkit.cli.run_folders import RunFolder, all_runs
from profkit.core import result
from profkit.core.errors import InputError
from profkit.core.formatting import counted, duration, local_time
from profkit.core.saved_results import saved_results
from profkit.core.settings import nearest

_ROWS = 20
_RESULTS = "analyze"


def main(argv: Sequence[str]) -> None:
    """Print the series and their changes, or write them as a result of the report."""
    parser = argparse.ArgumentParser(
        prog="profkit history",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run", nargs="?", default="", help="name of a run, or how it begins")
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
    parser.add_argument("--made-of", type=Path, nargs="*", default=(), help=argparse.SUPPRESS)
    parser.add_argument("--attempt", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.out:
        results = [path for path in args.made_of if path.parent.name == _RESULTS]
        runs = [RunFolder(folder) for folder in dict.fromkeys(path.parents[1] for path in results)]
        names = {run.name for run in runs}
        kept = {name: one for name, one in series_of(_saved(runs)).items() if one[0].run in names}
        args.out.parent.mkdir(parents=True, exist_ok=True)
        result.write(args.out, document(kept, args.made_of, args.attempt))
        return
    found = {
        name: one
        for name, one in series_of(_saved(all_runs())).items()
        if one[0].run.startswith(args.run)
    }
    _print(found, args.run, is_json=args.json)


def _print(found: Mapping[str, Series], wanted: str, *, is_json: bool) -> None:
    if not found:
        known = {one.run for one in _saved(all_runs())}
        hint = (
            nearest(wanted, known) if known and wanted else "profkit baseline save NAME saves one"
        )
        raise InputError(f"no result of {wanted or 'any run'} is saved here", hint=hint)
    if is_json:
        tables = history(found).tables
        content = {"changes": [], **{name: table.records() for name, table in tables.items()}}
        sys.stdout.write(f"{json.dumps(content, indent=1)}\n")
        return
    for number, (name, one) in enumerate(found.items()):
        sys.stdout.writelines(f"{line}\n" for line in ([""] if number else []))
        sys.stdout.writelines(f"{line}\n" for line in _text(name, one))


def _saved(runs: Sequence[RunFolder]) -> list[Saved]:
    """Return the saved results, and those of `runs` that have step times and were not saved."""
    saved = [Saved(name=path.stem, measured=read_baseline(str(path))) for path in saved_results()]
    timed = [run for run in runs if run.step_time_ns is not None]
    now = [Saved(name="(now)", measured=measured(run)) for run in timed]
    # Of one that was saved under several names, the first of them.
    by_start = {(one.run, one.began): one for one in reversed([*saved, *now])}
    return [*by_start.values()]


def _text(name: str, one: Series) -> Iterator[str]:
    """Yield the newest results of a series, and all of its changes."""
    changes = changes_of({name: one})
    yield f"{name}: {counted(len(one), 'result')}"
    newest = one[-_ROWS:]
    width = max(len(saved.name) for saved in newest)
    changed = {row["result"]: row for row in changes if row["metric"] == "step_time"}
    for saved in newest:
        mark = f"  {changed[saved.name]['change_share']:+.1%}" if saved.name in changed else ""
        value = duration(saved.value("step_time") or 0)
        yield f"  {saved.name.ljust(width)}  {local_time(saved.began)}  {value}{mark}".rstrip()
    for row in changes:
        values = " -> ".join(
            shown(str(row["metric"]), float(row[end] or 0)) for end in ("before", "after")
        )
        why = f": {row['differences']}" if row["differences"] else ""
        change = f"{TITLES[str(row['metric'])]} {row['change_share']:+.1%}"
        yield f"{change} at {row['result']}, {values}{why}"
    if not changes:
        yield f"no change{'' if len(one) >= FEWEST else f' is known: it takes {FEWEST} results'}"
