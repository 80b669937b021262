"""Names that match glob patterns, decided once for each distinct name."""

import re
from collections.abc import Callable, Iterable
from fnmatch import translate
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd


def matching(names: "pd.Series[str]", patterns: Iterable[str]) -> NDArray[np.bool_]:
    """Tell for each of the categorical `names` whether it matches one of `patterns`.

    Upper and lower case differ; ``*`` stands for anything, ``?`` for one character.
    """
    return named(names, _matcher(tuple(patterns)))


@cache
def _matcher(patterns: tuple[str, ...]) -> Callable[[str], bool]:
    """Return what tells whether a name matches one of `patterns`, all of them at once."""
    match = re.compile("|".join(map(translate, patterns)) or r"(?!)").match
    return lambda name: match(name) is not None


def named(names: "pd.Series[str]", fits: Callable[[str], bool]) -> NDArray[np.bool_]:
    """Tell for each of the categorical `names` whether it `fits`."""
    hits = [fits(str(name)) for name in names.cat.categories.astype(object)]
    # A missing name has the code -1, and so takes the last entry.
    return np.array([*hits, False])[names.cat.codes.to_numpy()]
