"""Does the verdict name the one fault that a program or a trace was given.

    python -m benchmarks.diagnosis [KIND ...] [--generated | --programs] [--quick] [--clean 40]

Traces of GPUs are made event by event (`recording.py`, `generated.py`), so that the cost of a fault
is exact; programs run on this CPU under `profkit profile`, and a stopwatch in them measures the
fault in the steps that the profiler saw. Each kind states beforehand which causes, words and
limiters are right, and comes in three sizes. Prints a line for each case: what the first action is
about, milliseconds injected and found, and the load of the machine; then the misses with all that
the verdict said, and the shares of right causes and sizes. `--clean` counts how often programs
without a fault get an action.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from profkit.planning.imported_runs import add_run, find, import_kinds
from tests.stages import report_of

from . import generated_kinds, program_kinds
from .expected import Kind, Outcome, summary


def main(argv: Sequence[str]) -> int:
    """Run what was asked for and print it."""
    options = _parser().parse_args(argv)
    outcomes = []
    for outcome in _outcomes(options):
        outcomes.append(outcome)
        print(f"{outcome.row()}  load {os.getloadavg()[0]:.1f}", flush=True)
    print("\nMisses")
    for outcome in outcomes:
        if not outcome.is_right:
            print(outcome.miss())
    print(f"\n{summary(outcomes)}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kinds", nargs="*", help="kinds to try, all by default")
    parser.add_argument("--generated", action="store_true", help="generated traces alone")
    parser.add_argument("--programs", action="store_true", help="real programs alone")
    parser.add_argument("--quick", action="store_true", help="the medium size alone")
    parser.add_argument("--clean", type=int, default=1, help="runs of the program without a fault")
    parser.add_argument("--keep", type=Path, help="folder that keeps what the programs left")
    return parser


def _outcomes(options: argparse.Namespace) -> Iterator[Outcome]:
    if not options.programs:
        for kind in (*generated_kinds.KINDS, *generated_kinds.CLEAN):
            for size in _sizes(kind, options):
                yield imported(kind, size)
    if not options.generated:
        for kind in (*program_kinds.KINDS, *[program_kinds.CLEAN] * options.clean):
            for size in _sizes(kind, options):
                yield _profiled(kind, size, options.keep)


def _sizes(kind: Kind, options: argparse.Namespace) -> Sequence[int]:
    if options.kinds and not any(name.lower() in kind.name.lower() for name in options.kinds):
        return ()
    count = len(kind.sizes)
    return [count // 2] if options.quick else range(count)


def imported(kind: Kind, size: int) -> Outcome:
    """Generate the traces of one case, and import them in this process."""
    with _folder(kind, size, None) as folder:
        traces = folder / "traces"
        traces.mkdir()
        injected = generated_kinds.make(kind, size, traces)
        tool, files = import_kinds()["trace"]
        run = add_run(find([traces], files), tool, files, name="case", command="profkit import")
        report_of(f"imports=[{run}]", "analysis=[verdict]")  # type: ignore[no-untyped-call]
        return _outcome(kind, size, injected, folder)


def _profiled(kind: Kind, size: int, keep: Path | None) -> Outcome:
    with _folder(kind, size, keep) as folder:
        try:
            injected = program_kinds.profile(kind, size)
        except subprocess.SubprocessError as error:
            print(f"{kind.name} {size}: {error}")
            injected = 0.0
        return _outcome(kind, size, injected, folder)


@contextmanager
def _folder(kind: Kind, size: int, keep: Path | None) -> Iterator[Path]:
    """Work in an empty folder, below `keep` if that is given, else in one that goes afterwards."""
    before = Path.cwd()
    with ExitStack() as stack:
        name = keep and tempfile.mkdtemp(prefix=f"{kind.name}-{size}-", dir=keep)
        folder = Path(name or stack.enter_context(tempfile.TemporaryDirectory()))
        os.chdir(folder)
        stack.callback(os.chdir, before)
        yield folder


def _outcome(kind: Kind, size: int, injected: float, folder: Path) -> Outcome:
    """Return the outcome of a case whose report lies in `folder`."""
    path = folder / "results/report.json"
    runs: list[dict[str, Any]] = json.loads(path.read_text())["runs"] if path.is_file() else []
    verdicts = [run["verdict"] for run in runs if run.get("verdict")]
    verdict = verdicts[0] if verdicts else None
    return Outcome(kind=kind, size=size, injected_ms=injected, verdict=verdict)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
