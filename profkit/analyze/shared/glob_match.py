"""Names that match glob patterns, decided once for each distinct name."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import translate
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, cast

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
    """Tell for each of the categorical `names` whether it `fits`; a missing one does not."""
    known = categorical(names)
    found = np.append(_by_category(_Same(known.categories), fits), False).astype(np.bool_)
    return np.asarray(found[known.codes])


def texts(
    names: "pd.Series[str]",
    make: Callable[[str], str] = str,
    rows: NDArray[np.intp] | slice = slice(None),
) -> NDArray[np.object_]:
    """Return what `make` makes of each of the categorical `names`, "" of a missing one.

    Or of those of `rows` alone.
    """
    known = categorical(names)
    made = np.append(_by_category(_Same(known.categories), make), "")
    return np.asarray(made[known.codes[rows]])


def categorical(names: "pd.Series[str]") -> "pd.Categorical":
    """Return the categorical `names` as their numbers and distinct texts."""
    # Not through `names.cat`: to check what it is takes longer than all that is done here.
    return cast("pd.Categorical", names.array)


@dataclass(frozen=True, slots=True, eq=False)
class _Same:
    """Categories that many ranks share: the same object, and not merely an equal one."""

    categories: Any

    def __hash__(self) -> int:
        return id(self.categories)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.categories is self.categories


@lru_cache(256)  # a rank looks at some columns of names, for some dozen patterns
def _by_category(names: _Same, make: Callable[[str], Any]) -> NDArray[np.object_]:
    """Return what `make` makes of each category."""
    return np.array([*(make(str(name)) for name in names.categories), None], dtype=object)[:-1]
