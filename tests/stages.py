"""The stages of a run, one after the other; but for captures in the process of a test."""

import json
import subprocess
import sys
from pathlib import Path

from profkit.analyze.__main__ import main as analyze
from profkit.convert.__main__ import main as convert
from profkit.dag import inputs as dags
from profkit.dag.staleness import Wildcards
from profkit.report.__main__ import main as report
from tests.capture.conftest import AROUND_PROCESSES
from tests.page_text import page_text
from tests.waiting import LIMIT_S
from tests.warm_ranks import warm_rank_python


def report_of(*overrides):
    """Convert, analyse and report on what `overrides` select; return the texts of the page."""
    dag = dags.load(list(overrides))
    for run in dag.plan.runs:
        for tool in run.tools:
            _convert(dag, run, tool)
        for name in _in_order(dag, run.analyses):
            _analyze(dag, name, Wildcards(run.name))
    for name in dag.comparisons:
        _analyze(dag, name, Wildcards(""))
    settings = dags.as_json(dag.plan.report)
    page = "results/report.html"
    report(["--selection", dag.selection(), "--settings", settings, "--out", page])
    return page_text(Path(page))


def capture(*overrides):
    """Make the captures that `overrides` select."""
    dag = dags.load(list(overrides))
    for run in dag.plan.runs:
        wildcards = Wildcards(run.name)
        for tool in run.tools:
            for record in dag.captures(tool):
                out = Path(record.format(run=run.name)).parent
                settings = ["--settings", dag.tool_settings(tool)(wildcards)]
                behaviour = json.loads(dag.workload(wildcards))
                if tool not in AROUND_PROCESSES:
                    behaviour["launcher"]["python"] = warm_rank_python()
                workload = ["--workload", json.dumps(behaviour)]
                command = [sys.executable, "-m", "profkit.capture", tool, "--out", str(out)]
                subprocess.run([*command, *settings, *workload], check=True, timeout=LIMIT_S)


def _convert(dag, run, tool):
    folder = f"results/runs/{run.name}"
    captures = [pattern.format(run=run.name) for pattern in dag.captures(tool)]
    folders = [str(Path(capture).parent) for capture in captures]
    tables, files = f"{folder}/tables/{tool}", f"{folder}/convert/{tool}"
    convert([tool, "--captures", *folders, "--tables", tables, "--files", files])


def _in_order(dag, names):
    """Yield analyses after those whose results they read."""
    done = set()
    while left := [name for name in names if name not in done]:
        for name in left:
            # Results that it can do without may be those of analyses that are not made.
            if {*dag.plan.analyses[name].results} & {*names} <= done:
                done.add(name)
                yield name


def _analyze(dag, name, wildcards):
    out = Path(dag.folder(name).format(run=wildcards.run)) / "analyze" / f"{name}.json"
    results = dag.results(name)(wildcards)
    analyze(
        [
            *(name, "--settings", dag.analysis_settings(name)(wildcards)),
            *dag.run_flags(name)(wildcards),
            *("--tables", *dag.tables(name)(wildcards)),
            *(("--results", *results) if results else ()),
            *("--out", str(out)),
        ]
    )
