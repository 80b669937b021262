"""Runs that ``profkit import`` made, as a selection names them: ``imports=[NAME]``."""

import json
from pathlib import Path
from typing import Any

from profkit.core.errors import ConfigError
from profkit.core.settings import nearest

RUNS = Path("results/runs")


def manifest_of(name: str) -> Path:
    """Return the file that makes `name` an imported run."""
    return RUNS / name / "manifest.json"


def imported(name: str) -> tuple[str, dict[str, Any]]:
    """Return the tool and the behaviour of the imported run `name`."""
    path = manifest_of(name)
    if not path.is_file():
        runs = sorted(path.parent.name for path in RUNS.glob("*/manifest.json"))
        hint = nearest(name, runs) if runs else "make one with: profkit import"
        raise ConfigError(f"imports: no run named {name!r}", hint=hint)
    manifest = json.loads(path.read_bytes())
    if "imported" not in manifest["behaviour"]:
        raise ConfigError(
            f"imports: the run {name!r} was captured, not imported",
            hint=f"select it by its own overrides: {manifest['command']}",
        )
    (tool,) = manifest["tools"]
    return tool, manifest["behaviour"]
