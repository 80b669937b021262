"""Values with what a reader calls them, for every part of the page."""

from dataclasses import dataclass

Value = str | int | float | None
"""A cell or a number; None is not known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Number:
    """One key number, or why it is not known."""

    title: str
    value: Value
    unit: str
    reason: str = ""
    """Why it is not known, or else what it counts or why it has no interval."""

    interval: tuple[float, float, float] | None = None
    """Its lower and upper end, and how often such intervals hold the number, 0 to 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """A labelled value."""

    label: str
    value: Value
    unit: str = ""
