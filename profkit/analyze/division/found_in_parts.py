"""What a pattern finds in the parts of a long recording, put together."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from profkit.core.verdict import Evidence
from profkit.patterns.base import Match, Step

_PER_STEP = "_per_step"


class Found:
    """Matches of one pattern, as the parts come in which it looks."""

    def __init__(self) -> None:
        """Know no part so far."""
        self._parts: list[tuple[Step, tuple[Match, ...]]] = []

    def add(self, step: Step, matches: tuple[Match, ...]) -> None:
        """Add what was found in a part, or in all of the recording, and the steps of it."""
        self._parts.append((step, matches))

    def matches(self, steps: int) -> list[Match]:
        """Return the matches in all `steps`; if a part has several, those of a place together."""
        if len(self._parts) == 1:
            return [*self._parts[0][1]]
        has_several = any(len(matches) > 1 for _, matches in self._parts)
        places = dict.fromkeys(match.place for _, match in self._each()) if has_several else (None,)
        groups = (
            [(step, match) for step, match in self._each() if place in {None, match.place}]
            for place in places
        )
        return [_together(group, steps) for group in groups if group]

    def _each(self) -> Iterator[tuple[Step, Match]]:
        return ((step, match) for step, matches in self._parts for match in matches)


def _together(found: Sequence[tuple[Step, Match]], steps: int) -> Match:
    """Return one match for all: what the largest of them says, with the time of all."""
    largest = max((match for _, match in found), key=lambda match: match.gain_ns)
    held: defaultdict[str, float] = defaultdict(float)
    for _, match in found:
        own_ns = max(match.gain_ns - sum(match.also.values()), 0.0)
        for cause, time in (*match.also.items(), (match.cause, own_ns)):
            held[cause] += time
    return replace(
        largest,
        gain_ns=sum(match.gain_ns for _, match in found),
        also={cause: time for cause, time in held.items() if cause != largest.cause and time > 0},
        evidence={**largest.evidence, **_per_step(found, steps)},
    )


def _per_step(found: Sequence[tuple[Step, Match]], steps: int) -> Evidence:
    """Return the means over all steps of what is stated per step."""
    sums: defaultdict[str, float] = defaultdict(float)
    for step, match in found:
        for name, value in match.evidence.items():
            if name.endswith(_PER_STEP) and not isinstance(value, str):
                sums[name] += value * step.count
    return {name: round(total / steps, 1) for name, total in sums.items()}
