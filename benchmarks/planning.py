"""How long planning takes: a thousand configurations, and a no-op on a tree of a hundred runs.

    python benchmarks/planning.py

Each number is the median of several processes, wall time from start to exit.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from profkit.core import resources
from profkit.core.errors import ProfkitError
from profkit.dag.inputs import Dag
from profkit.planning.cache import load


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--configurations", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--times", type=int, default=3, help="processes per number")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        overrides = f"batch=range(1,{args.configurations // 2 + 1}) model=gpt_tiny,cnn_small"
        code = f"from profkit.dag.inputs import load; assert len(load({overrides!r}).plan.runs) > 1"
        first = _seconds([sys.executable, "-c", code], args.times, between=_forget)
        again = _seconds([sys.executable, "-c", code], args.times)
        print(f"plan of {args.configurations} configurations  {first:6.2f} s")
        print(f"the same plan from the cache   {again:6.2f} s")
        overrides = f"batch=range(1,{args.runs + 1})"
        made = _tree(overrides)
        command = [sys.executable, "-m", "snakemake", "--snakefile", str(resources.SNAKEFILE)]
        command += ["--workflow-profile", str(resources.PROFILE), "--cores", "2"]
        command += ["results/report.html", "--config", f"overrides={overrides}"]
        # Takes the files as made by the present code, and records that for every job.
        _said([*command, "--touch", "--forceall"])
        if "Nothing to be done" not in _said(command):
            raise ProfkitError("the tree that was made is not up to date")
        print(f"no-op on {args.runs} runs, {made} files  {_seconds(command, args.times):6.2f} s")


def _forget() -> None:
    for path in Path("results/.profkit/plans").glob("*.json"):
        path.unlink()


def _seconds(command: list[str], times: int, between: object = None) -> float:
    """Return the median wall time of `command` in seconds."""
    taken = []
    for _ in range(times):
        if callable(between):
            between()
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def _said(command: list[str]) -> str:
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout + done.stderr


def _tree(overrides: str) -> int:
    """Make the files of a selection that was worked off, without the captures' cost."""
    dag = Dag(load(tuple(overrides.split())))
    capture = json.dumps({"attempt": 1, "status": "ok"})
    paths = [path for run in dag.plan.runs for path in dag.run_files(run)]
    for run in dag.plan.runs:
        paths.append(f"results/runs/{run.name}/config.yaml")
        for tool in run.tools:
            Path(f"results/runs/{run.name}/convert/{tool}").mkdir(parents=True)
            tables = dag.plan.tools[tool].tables
            paths += [f"results/runs/{run.name}/tables/{tool}/{table}.parquet" for table in tables]
    for name in [*paths, "results/report.html"]:
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(capture if path.name == "capture.json" else "{}")
    return len(paths)


if __name__ == "__main__":
    main()
