"""When the repeats of runs began, and whether those of two runs were captured in turn."""

import itertools
from collections.abc import Mapping

from profkit.core.result import Result


def beginnings(steps: Result) -> dict[int, str]:
    """Return when each repeat began, as times that sort by their text."""
    if (repeats := steps.tables.get("per_repeat")) is None:
        return {}
    return {int(row["repeat"] or 0): str(row["began"]) for row in repeats.records()}


def in_turn(began: Mapping[int, str], reference_began: Mapping[int, str]) -> bool:
    """Return whether both began each repeat before either began the next."""
    shared = sorted(set(began) & set(reference_began))
    return all(
        max(began[one], reference_began[one]) < min(began[other], reference_began[other])
        for one, other in itertools.pairwise(shared)
    )
