"""Two sides in a list of overrides: what both have in common, and what each has of its own.

``["steps=20", "--coin", "0", "--a", "batch=4", "--b", "batch=8 zero=zero2"]`` are two runs, which
are captured in pairs.
"""

import hashlib
import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace

from profkit.core.errors import ConfigError
from profkit.planning.model import Pairing, Run

_LETTERS = ("a", "b")
_DIGITS = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class Sides:
    """Two sets of overrides, and the seed of the coin that says which side of a pair is first."""

    common: tuple[str, ...] = ()
    a: tuple[str, ...] = ()
    b: tuple[str, ...] = ()
    coin: int = 0

    @property
    def overrides(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """All overrides of each side."""
        return (*self.common, *self.a), (*self.common, *self.b)

    @property
    def words(self) -> tuple[str, ...]:
        """The sides as `sides_of` takes them, and ``profkit compare`` on its command line."""
        a, b = shlex.join(self.a), shlex.join(self.b)
        return (*self.common, "--coin", str(self.coin), "--a", a, "--b", b)

    def with_common(self, *overrides: str) -> "Sides":
        """Return sides that have `overrides` as well."""
        return replace(self, common=(*self.common, *overrides))


def sides_of(words: Sequence[str]) -> Sides | None:
    """Return the sides that `words` name; None if they select what they select without any."""
    if not {"--a", "--b"} & {*words}:
        return None
    options = {"--a": "", "--b": "", "--coin": "0"}
    common: list[str] = []
    left = iter(words)
    for word in left:
        if word in options:
            options[word] = next(left, "")
        else:
            common.append(word)
    try:
        coin = int(options["--coin"])
    except ValueError:
        raise ConfigError(f"--coin {options['--coin']}: the seed of a coin is a number") from None
    a, b = (overrides_in(name, options[name]) for name in ("--a", "--b"))
    return Sides(common=tuple(common), a=a, b=b, coin=coin)


def overrides_in(option: str, text: str) -> tuple[str, ...]:
    """Return the overrides of one side, which are one argument of the command line."""
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise ConfigError(f"{option} {text}: {error}", hint="--a 'batch=4 seed=1'") from None


def selections(words: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Return the overrides that `words` select runs by: those of each side, or `words` as such."""
    sides = sides_of(words)
    return (tuple(words),) if sides is None else sides.overrides


def paired(runs: Sequence[Run], coin: int) -> tuple[list[Run], Pairing]:
    """Return the runs of two sides under names of their own, and how they are captured in pairs.

    What one of them was captured for otherwise, or in pairs with another, is not mixed with this.
    """
    if len(runs) != len(_LETTERS):
        raise ConfigError(
            f"two sides select {len(runs)} runs, but a pair has two",
            hint="give each key one value on each side",
        )
    content = json.dumps([*(run.name for run in runs), coin])
    digits = hashlib.sha256(content.encode()).hexdigest()[:_DIGITS]
    renamed = [
        replace(run, name=f"{run.name}-{letter}{digits}")
        for run, letter in zip(runs, _LETTERS, strict=True)
    ]
    return renamed, Pairing(a=renamed[0].name, b=renamed[1].name, coin=coin)
