"""Results that are kept under a name, for gates and the history of a run."""

from pathlib import Path

BASELINES = Path("results/baselines")
"""Their folder; the name of each is that of its file."""

COMPARISONS = Path("results/comparisons")
"""Folder of comparisons of two sides that were captured in pairs."""

COMPARED = ("steps", "energy", "causes", "memory_peak")
"""Analyses whose results say by how much two runs differ, and why."""

BEFORE = "before-"
"""How the name begins of a run's result of the time before its program changed."""


def comparison_file(name: str) -> Path:
    """Return where a comparison is kept."""
    return COMPARISONS / f"{name}.json"


def saved_results() -> list[Path]:
    """Return the files of all of them."""
    return sorted(BASELINES.glob("*.json"))
