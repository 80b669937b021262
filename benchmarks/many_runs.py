"""How long trees of many runs take: to plan, to make, and to find that nothing is to be done.

    python benchmarks/many_runs.py [--runs 100 500] [--times 3]

Each run is an import of one small real trace of `$PROFKIT_REAL_DATA` (or ``../shared/data``) under
a name of its own; all are worked off to the report for real, which takes minutes. Then the same
command again, and Snakemake by hand, have nothing to do. Plans of 1,000 configurations are made
apart, with and without their cache. Seconds of the clock and CPU seconds of all processes; medians
of `--times`, except of what is made once.
"""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path

from first_answer import Taken, measured, middle, print_taken

from profkit.core import resources
from profkit.planning.imported_runs import add_run, find, import_kinds

_PROFKIT = str(Path(sys.executable).parent / "profkit")
_TRACE = "kineto/hta/critical_path/end_to_end/simple_add/input/trace.json.gz"
_CONFIGURATIONS = "batch=range(1,501) model=gpt_tiny,cnn_small"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, nargs="*", default=[100, 500])
    parser.add_argument("--times", type=int, default=3, help="processes per number")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        _plans(Path(folder), args.times)
    for count in args.runs:
        with tempfile.TemporaryDirectory() as folder:
            _tree(Path(folder), count, args.times)


def _plans(folder: Path, times: int) -> None:
    """Print how long 1,000 configurations take to plan."""
    code = (
        f"from profkit.dag.inputs import load; assert len(load({_CONFIGURATIONS!r}).plan.runs) > 1"
    )
    command = [sys.executable, "-c", code]
    print_taken("plan of 1,000 configurations", _again(command, folder, times, before=_forget))
    print_taken("the same plan from the cache", _again(command, folder, times))


def _tree(folder: Path, count: int, times: int) -> None:
    """Make a tree of `count` imports in `folder`; print how long it and a no-op take."""
    data = Path(os.environ.get("PROFKIT_REAL_DATA", Path(__file__).parents[2] / "shared/data"))
    tool, kind = import_kinds()["trace"]
    names = []
    with chdir(folder):
        for number in range(count):
            trace = Path(f"trace{number}.json.gz")
            shutil.copy(data / _TRACE, trace)
            names.append(add_run(find([trace], kind), tool, kind, name=trace.stem, command=""))
    command = [_PROFKIT, "run", "--quiet", f"imports=[{','.join(names)}]"]
    print_taken(f"{count} runs, to the report", measured(command, str(folder)))
    page_mb = (folder / "results/report.html").stat().st_size / 1e6
    files = sum(path.is_file() for path in folder.glob("results/**/*"))
    print(f"{count} runs: {files:,} files, a page of {page_mb:.1f} MB")
    print_taken(f"{count} runs, no-op of profkit run", _again(command, folder, times))
    by_hand = [sys.executable, "-m", "snakemake", "--snakefile", str(resources.SNAKEFILE)]
    by_hand += ["--workflow-profile", str(resources.PROFILE), "--cores", "2", "results/report.html"]
    by_hand += ["--config", f"overrides={command[-1]}"]
    print_taken(f"{count} runs, no-op of snakemake", _again(by_hand, folder, times))


def _forget(folder: Path) -> None:
    for path in folder.glob("results/.profkit/plans/*.cache"):
        path.unlink()


def _again(
    command: list[str], folder: Path, times: int, before: Callable[[Path], None] | None = None
) -> Taken:
    taken = []
    for _ in range(times):
        if before:
            before(folder)
        taken.append(measured(command, str(folder)))
    return middle(taken)


if __name__ == "__main__":
    main()
