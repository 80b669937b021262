"""``profkit plan [OVERRIDES] [-- COMMAND]``: runs, their tools, and what is stale.

The runs are those of ``profkit run``, and with a COMMAND those of ``profkit profile``.
"""

import argparse
import sys
from collections.abc import Sequence

from rich.table import Table

from profkit.cli.command_lines import command_lines
from profkit.cli.profile import overrides
from profkit.cli.run import split
from profkit.cli.terminal import Terminal
from profkit.core.formatting import counted
from profkit.dag.inputs import Dag
from profkit.dag.job_notes import notes_on_jobs
from profkit.dag.recorded_ranks import described
from profkit.dag.staleness import Staleness
from profkit.planning.cache import load

_WIDTH = 250


def main(argv: Sequence[str]) -> None:
    """Print one line a run, with the jobs that would run again."""
    parser = argparse.ArgumentParser(prog="profkit plan", description=__doc__)
    parser.add_argument("overrides", nargs="*", help="Hydra overrides and sweeps")
    parser.add_argument(
        "--commands", action="store_true", help="print the command lines of the captures instead"
    )
    parser.add_argument(
        "--notes", action="store_true", help="name the analyses that need other tools as well"
    )
    own, words = split(argv)
    args = parser.parse_intermixed_args(own)
    given = args.overrides
    plan = load(overrides(given, words, is_whole=False, is_thorough=False) if words else given)
    if args.commands:
        for run in plan.runs:
            sys.stdout.writelines(f"{line}\n" for line in (run.name, *command_lines(plan, run)))
        return
    dag = Dag(plan)
    staleness = Staleness(dag)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("run", "tools", "analyses", "stale"):
        table.add_column(heading, overflow="fold")
    for run in plan.runs:
        stale = staleness.stale_jobs(run)
        table.add_row(run.name, " ".join(run.tools), str(len(run.analyses)), _summary(stale))
    recorded = [(run.name, line) for run in plan.runs for line in described(dag, run)]
    # Wide enough for names to stay in one piece, so that they can be searched and pasted.
    console = Terminal(sys.stdout, markup=False, width=_WIDTH)
    console.print(table)
    for name, line in recorded:
        console.print(f"{name}: {line}")
    console.print(f"runs: {len(plan.runs)}, repeats of each capture: {plan.run_settings.repeats}")
    for name, runs in dag.comparisons.items():
        state = "stale" if staleness.comparison(name) else "fresh"
        console.print(f"{name}, across {counted(len(runs), 'run')}: {state}")
    console.print(f"report: {'stale' if staleness.report() else 'fresh'}")
    for note in (*notes_on_jobs(dag), *(plan.left_out if args.notes else ())):
        console.print(f"note: {note}")
    if plan.left_out and not args.notes:
        said = counted(len(plan.left_out), "note")
        console.print(f"{said} on analyses that need other tools: profkit plan --notes")


def _summary(stale: dict[str, list[str]]) -> str:
    """Count the stale jobs by stage."""
    stages = [job.split()[0] for job in stale]
    counts = [f"{stages.count(stage)} {stage}" for stage in dict.fromkeys(stages)]
    return ", ".join(counts) or "nothing"
