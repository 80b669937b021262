"""First steps that take far longer than most, as where caches are filled: others are traced."""

import json
from pathlib import Path
from statistics import median

_FAR = 1.5
_SETTLED = 1.2
_ALIKE = 5
"""Steps in a row whose median says that the beginning is over."""
_MOST = 0.5
_FEWEST = 3
"""Times as many steps as it takes until all are traced: of fewer little is known."""


def slow_first_steps(folder: Path, first: int, end: int) -> int:
    """Return how many first steps of the unprofiled run in `folder` take far longer than most.

    That is 0 unless steps `first` to `end` are among them, which would be traced. So it is where
    they take most of the time: they are what there is to say.
    """
    paths = sorted(folder.glob("rank0_*.steps.json"))
    steps = json.loads(paths[0].read_text())["steps"] if paths else []
    lasted = [until - since for since, until, *_ in steps]
    if not end or len(lasted) < _FEWEST * end:
        return 0
    usual = median(lasted)
    if median(lasted[first:end]) <= _FAR * usual:
        return 0
    after = range(end, len(lasted) - _FEWEST * _ALIKE)
    settled = next((n for n in after if _is_settled(lasted[n : n + _ALIKE], usual)), 0)
    return settled if sum(lasted[:settled]) < _MOST * sum(lasted) else 0


def _is_settled(lasted: list[int], usual: float) -> bool:
    return max(lasted[0], median(lasted)) <= _SETTLED * usual
