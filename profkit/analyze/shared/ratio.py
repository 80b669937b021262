"""A part of a whole that may be nothing."""

import math


def ratio(part: float, whole: float) -> float:
    """Return how much of `whole` is `part`; NaN where there is no whole."""
    return float(part / whole) if whole else math.nan
