"""Names that match glob patterns, decided once for each distinct name."""

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd


def matching(names: "pd.Series[str]", patterns: Iterable[str]) -> NDArray[np.bool_]:
    """Tell for each of the categorical `names` whether it matches one of `patterns`.

    Upper and lower case differ; ``*`` stands for anything, ``?`` for one character.
    """
    choices = tuple(patterns)
    return named(names, lambda name: any(fnmatchcase(name, pattern) for pattern in choices))


def named(names: "pd.Series[str]", fits: Callable[[str], bool]) -> NDArray[np.bool_]:
    """Tell for each of the categorical `names` whether it `fits`."""
    hits = [fits(str(name)) for name in names.cat.categories]
    # A missing name has the code -1, and so takes the last entry.
    return np.array([*hits, False])[names.cat.codes.to_numpy()]
