"""The selection of runs, as the report reads it."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from profkit.planning.model import Plan, differing
from profkit.planning.sides import sides_of


def described(
    plan: Plan, notes: Sequence[str], across: Mapping[str, Any], comparison: str
) -> dict[str, Any]:
    """Return the selection; `across` has the results of all runs, `comparison` is a file or ""."""
    differs = differing(plan.runs)
    # How often a run is captured is none of its own overrides: its results have no other name.
    repeats = [word for word in plan.overrides if word.startswith("repeats=")]
    return {
        "title": plan.report["title"],
        "overrides": plan.overrides,
        "command": command(plan.overrides),
        "notes": notes,
        "across": across,
        "comparison": comparison,
        "runs": [
            {
                "run": run.name,
                "folder": f"results/runs/{run.name}",
                "tools": run.tools,
                "analyses": list(run.analyses),
                "behaviour": run.behaviour,
                "command": command([*run.overrides, *repeats]),
                "differs": differs[run.name],
            }
            for run in plan.runs
        ],
    }


def command(overrides: Sequence[str]) -> str:
    """Return the command line that selects what `overrides` select."""
    return shlex.join(["profkit", "run" if sides_of(overrides) is None else "compare", *overrides])
