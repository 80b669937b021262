"""Spans of ranks, which jobs of a large run work on: ``:128``, ``128:256``, ``256:``."""

import itertools
from dataclasses import dataclass
from typing import Self

from profkit.core.errors import ConfigError


@dataclass(frozen=True, slots=True)
class RankSpan:
    """Ranks from `first` up to `end` without it; None where there is no such bound."""

    first: int | None = None
    end: int | None = None

    @classmethod
    def parsed(cls, text: str) -> Self:
        """Return the span that `text` says; raises `ConfigError` if it says none."""
        bounds = text.split(":")
        if len(bounds) != 2 or not all(bound.isdecimal() for bound in bounds if bound):  # noqa: PLR2004
            raise ConfigError(f"no span of ranks: {text!r}", hint="write 0:128, or 128: for no end")
        first, end = (int(bound) if bound else None for bound in bounds)
        return cls(first, end)

    def __str__(self) -> str:
        """Return it as `parsed` takes it."""
        return ":".join("" if bound is None else str(bound) for bound in (self.first, self.end))

    def __contains__(self, rank: int | None) -> bool:
        """Say whether `rank` is in it; None, for rows of several ranks, is in the first span."""
        if rank is None:
            return self.first is None
        return (self.first is None or rank >= self.first) and (self.end is None or rank < self.end)


EVERY_RANK = RankSpan()


def spans(ranks: int, ranks_per_job: int) -> list[RankSpan]:
    """Return the spans that jobs divide `ranks` into; none where one job is enough.

    The first and the last have no bound: a rank whose number is unknown is in one of them.
    """
    starts = range(ranks_per_job, ranks, ranks_per_job)
    bounds = [None, *starts, None]
    return [RankSpan(*pair) for pair in itertools.pairwise(bounds)] if starts else []
