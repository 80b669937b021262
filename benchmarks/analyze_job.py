"""How long one analyze job takes, from process start to exit, on a capture of the result tree.

    profkit run && python benchmarks/analyze_job.py

Beside it: starting Python alone, and importing pandas, below which no such job can be.
"""

import argparse
import statistics
import subprocess
import sys
import time

from profkit.core.errors import ProfkitError
from profkit.dag.inputs import Dag, as_json
from profkit.dag.overrides import last_overrides
from profkit.dag.staleness import Wildcards
from profkit.planning.cache import load


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=5, help="processes per number")
    args = parser.parse_args()
    dag = Dag(load(last_overrides()))
    run = dag.plan.runs[0]
    wildcards = Wildcards(run.name)
    commands = {
        "python": [sys.executable, "-c", ""],
        "import pandas": [sys.executable, "-c", "import pandas"],
    }
    for name in run.analyses:
        needs = [*dag.tables(name)(wildcards)]
        others = dag.results(name)(wildcards)
        commands[f"analyze {name}"] = [
            *(sys.executable, "-m", "profkit", "analyze", name),
            *("--settings", as_json(run.analyses[name])),
            *("--tables", *needs),
            *(("--results", *others) if others else ()),
            *("--out", "/dev/stdout"),
        ]
    for name, command in commands.items():
        print(f"{name:24}{_seconds(command, args.times):6.2f} s")


def _seconds(command: list[str], times: int) -> float:
    """Return the median wall time of `command` in seconds."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        taken.append(time.perf_counter() - start)
        if done.returncode:
            raise ProfkitError(done.stderr, hint="run `profkit run` first")
    return statistics.median(taken)


if __name__ == "__main__":
    main()
