"""Pairs whose two captures were made under different conditions."""

from collections.abc import Iterator, Mapping

from profkit.core.formatting import numbered

Conditions = Mapping[int, Mapping[str, float]]

# By the end of a reading's name: what it is, and the difference that is none, as a share and in its
# unit.
_ALIKE = {
    "clock_mhz": ("clock", 0.05, 0.0),
    "temperature_c": ("temperature", 0.0, 10.0),
    "power_limit_w": ("power limit", 0.0, 0.0),
    "power_w": ("power", 0.15, 0.0),
    "other_work_share": ("work of other processes", 0.0, 0.1),
}


def unlike(before: Conditions, after: Conditions) -> Iterator[str]:
    """Yield for each kind of reading the pairs in which it was not the same for both sides."""
    shared = sorted(set(before) & set(after))
    for ending, (word, share, margin) in _ALIKE.items():
        pairs = [
            pair
            for pair in shared
            if any(
                name.endswith(ending)
                and name in after[pair]
                and _are_apart(value, after[pair][name], share, margin)
                for name, value in before[pair].items()
            )
        ]
        if pairs:
            yield f"not the same {word} on both sides: {numbered('pair', pairs)}"


def _are_apart(one: float, other: float, share: float, margin: float) -> bool:
    return abs(one - other) > share * max(abs(one), abs(other)) + margin
