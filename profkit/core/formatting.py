"""Numbers with fitting units, for the sentences of findings."""

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

# Steps are given in ms, also those of some seconds: seconds begin with ten of them.
_TIMES = ((1e10, 1e9, "s"), (1e6, 1e6, "ms"), (1e3, 1e3, "µs"), (0.0, 1.0, "ns"))
_SIZES = ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"))
_SEEN_BY_MASK = 1000
_LONGEST_NAME, _MOST_SPACES = 60, 4
"""Of a kernel, which some libraries give names of hundreds of characters."""
_TO_MINUTES = len("2026-01-01T10:00")
# Of terminals, such as ESC and, of eight bits, CSI; ends of lines; directions of writing.
_STYLE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]+")
_CONTROL_WITHIN_LINES = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]+")
_FORMS = re.compile(r"\[(?:(?P<one>[^][|]*)\|)?(?P<several>[^][|]*)\]")


def duration(time_ns: float) -> str:
    """Return a time in ns with three digits and a fitting unit, for example ``1.23 ms``."""
    _, factor, unit = next(step for step in _TIMES if abs(time_ns) >= step[0])
    return f"{_three_digits(time_ns / factor)} {unit}"


def milliseconds(ms: float) -> str:
    """Return a time in ms with three digits, for example ``0.123``, ``12.3`` or ``1,230``."""
    return _three_digits(ms)


def size(size_bytes: float) -> str:
    """Return a number of bytes with three digits and a fitting unit, for example ``12.2 MiB``."""
    factor, unit = next((unit for unit in _SIZES if abs(size_bytes) >= unit[0]), (1.0, "B"))
    return f"{_three_digits(size_bytes / factor)} {unit}"


def _three_digits(value: float) -> str:
    # Three digits of what is very large or very small would become an exponent.
    return f"{value:,.0f}" if abs(value) >= 99.95 else f"{Decimal(f'{value:.3g}'):f}"  # noqa: PLR2004


def number(value: float) -> str:
    """Return a number with four digits, or all before the point: ``307.7``, ``71,270``."""
    return f"{value:,.0f}" if abs(value) >= 9999.5 else f"{value:,.4g}"  # noqa: PLR2004


def local_time(utc: str) -> str:
    """Return a time of a record, in UTC, to the minute as it is here; "" if it is not known."""
    if not utc:
        return ""
    here = datetime.fromisoformat(utc[:_TO_MINUTES]).replace(tzinfo=UTC).astimezone()
    return here.strftime("%Y-%m-%d %H:%M")


def counted(count: int, noun: str, plural: str = "s") -> str:
    """Return a number of things, for example ``1 call`` or ``2 calls``; `plural` is the ending."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}{plural}"


def agreeing(count: int, text: str, **words: object) -> str:
    """Return a text about `count` things, where ``{}`` is the count and ``{word}`` one of `words`.

    Brackets hold what differs for one thing and for several, or what several alone have:
    ``{} event[s] [was|were] lost`` becomes ``1 event was lost`` or ``2 events were lost``.
    What a file says belongs into `words`: `text` is a format.
    """
    form = "one" if count == 1 else "several"
    return _FORMS.sub(lambda forms: forms[form] or "", text).format(f"{count:,}", **words)


def numbered(noun: str, numbers: Iterable[int]) -> str:
    """Return things by their numbers, for example ``pair 1`` or ``pairs 1, 3``."""
    listed = [*map(str, numbers)]
    return f"{noun if len(listed) == 1 else f'{noun}s'} {', '.join(listed)}"


def ranks_and_repeats(rows: "pd.DataFrame") -> str:
    """Return how many ranks and repeats `rows` are of, for readers."""
    ranks, repeats = rows["rank"].nunique(), rows["repeat"].nunique()
    return f"{counted(ranks, 'rank')} and {counted(repeats, 'repeat')}"


def cut(text: str, limit: int, masked: Callable[[str], str] = str) -> str:
    """Return at most about `limit` characters of a text: its two ends, and how much is between.

    `masked` takes the secrets out of the ends while what says that they are some is still there.
    """
    left_out = len(text) - limit
    if left_out <= 0:
        return text
    half, near = limit // 2, limit // 2 + _SEEN_BY_MASK
    head, tail = masked(text[:near])[:half], masked(text[-near:])[-half:]
    return f"{head} [... {left_out:,} of {len(text):,} characters left out ...] {tail}"


def shortened(text: str, limit: int = 80) -> str:
    """Return at most `limit` characters of a text, the end replaced by dots."""
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def without_arguments(name: str) -> str:
    """Return a name of a kernel that is not too long: of a longer one its beginning, and ``*``.

    One of more words than there is room for is without its template arguments.
    """
    if name.count(" ") > _MOST_SPACES:
        name = f"{name.partition('<')[0]}<...>"
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[: name.rfind('_', 0, _LONGEST_NAME) + 1] or name[:_LONGEST_NAME]}*"


def without_styles(text: str) -> str:
    """Return a text without the sequences by which a terminal changes colours, fonts or titles."""
    return _STYLE.sub("", text)


def without_controls(text: str, *, keeps_lines: bool = False) -> str:
    """Return a text of a stranger's without styles, and a space for what else terminals obey.

    `keeps_lines` leaves tabs and ends of lines.
    """
    control = _CONTROL_WITHIN_LINES if keeps_lines else _CONTROL
    return control.sub(" ", without_styles(text))
