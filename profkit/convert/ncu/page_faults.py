"""What is wrong with an exported page and does not keep it from being read: counted, and said."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from profkit.convert.ncu.launches import Launch
from profkit.convert.ncu.units import is_known
from profkit.core.formatting import agreeing

_NUMBERS = ("Process ID", "Device", "Context", "Stream")
_SHAPES = ("Block Size", "Grid Size")
_FORMS = {
    **dict.fromkeys(_NUMBERS, re.compile(r"\d{1,9}")),
    **dict.fromkeys(_SHAPES, re.compile(r"\( *\d{1,9}, *\d{1,9}, *\d{1,9}\)")),
    "CC": re.compile(r"\d{1,2}\.\d{1,2}"),
}
"""What the cells of columns that every launch fills look like."""
_NAMED = 3
_NUMERIC = re.compile(r"[-+]?\d[\d.,'\s]*")
_LARGEST_PERCENT = 1000
"""Counters that are measured in several passes may well be some percent above 100."""
_LEAST_PERCENT = -1
"""Differences of such counters may well be a little below 0."""
_SUMS = "derived__"
"""Begin of metrics that are summed over a table, percents too."""
_UNITS = {
    re.compile(r"\.pct"): "%",
    re.compile(r"^gpu__time_duration"): "ns",
    re.compile(r"__bytes\w*\.sum$"): "byte",
    re.compile(r"__bytes\w*\.sum\.per_second$"): "byte/s",
}
"""What metrics are called, and the unit that these are in."""
_CAPABILITY = "device__attribute_compute_capability"
_MOST_THREADS, _MOST_REGISTERS = 1024, 255
_LONGEST_NS = 10**14
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def of_rows(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield what is wrong with the `rows` of launches below a heading."""
    # Lines of programs around the page have few commas, if any.
    whole = [row for row in rows if 2 * len(row) >= len(heading)]
    identified = heading.index("ID")
    if lost := sum(not row[identified].isdecimal() for row in whole):
        yield agreeing(
            lost, "{} row[s] of the page state[s|] no ID of a launch and [was|were] left out."
        )
    cells = [(name, cell) for row in whole for name, cell in zip(heading, row, strict=False)]
    unreadable = Counter(
        name for name, cell in cells if (form := _FORMS.get(name)) and not form.fullmatch(cell)
    )
    for name, count in unreadable.items():
        yield agreeing(count, f"{{}} value[s] of {name} on the page [is|are] unreadable: unknown.")
    if twice := len(heading) - len({*heading}):
        yield agreeing(
            twice,
            "{} column[s] of the page [has|have] the name of an earlier one: the last counts.",
        )
    if longer := sum(len(row) > len(heading) for row in whole):
        yield agreeing(
            longer,
            "{} row[s] of the page [has|have] more values than its heading has columns.",
        )
    if count := sum(_REPLACEMENT in cell or "\0" in cell for _, cell in cells):
        yield agreeing(
            count, f"{{}} value[s] on the page hold[s|] what is no text, shown as {_REPLACEMENT}."
        )


def of_launches(launches: Sequence[Launch]) -> Iterator[str]:
    """Yield what contradicts itself in the launches of a page or report."""
    named = Counter((launch.pid, launch.launch) for launch in launches)
    if count := sum(number - 1 for (_, launch), number in named.items() if launch >= 0):
        yield agreeing(
            count, "{} launch[es] stand[s|] in the file twice, by [its|their] ID: both count."
        )
    yield from _of_shapes(launches)
    values = [metric for launch in launches for metric in launch.metrics]
    numbers = {metric.name for metric in values if metric.value is not None}
    words = [metric for metric in values if metric.value is None]
    numeric = sum(_NUMERIC.fullmatch(metric.text) is not None for metric in words)
    if numeric:
        yield agreeing(
            numeric,
            "{} value[s] of metrics [is a number|are numbers] in another notation, such as with a"
            " decimal comma, and [is kept as a word|are kept as words]: export with LC_ALL=C.",
        )
    elif count := sum(metric.name in numbers for metric in words):
        yield agreeing(
            count,
            "{} value[s] of metrics [is a word|are words] where other launches have numbers.",
        )
    measured = [metric for metric in values if not metric.name.startswith(_SUMS)]
    shares = [metric.value or 0 for metric in measured if metric.unit == "%"]
    if count := sum(value > _LARGEST_PERCENT for value in shares):
        yield agreeing(count, f"{{}} value[s] of metrics [is|are] above {_LARGEST_PERCENT:,} %.")
    others = [metric.value or 0 for metric in values if metric.unit != "%"]
    if count := sum(value < _LEAST_PERCENT for value in shares) + sum(n < 0 for n in others):
        yield agreeing(count, "{} value[s] of metrics [is|are] below 0.")
    units = {(metric.name, metric.unit) for metric in values if metric.value is not None}
    if mixed := len(units) - len(numbers):
        yield agreeing(mixed, "{} metric[s] [has|have] another unit in some launches.")
    yield from _of_units(units)
    known = Counter(metric.name for metric in values)
    lacking = [name for name, number in known.items() if number < len(launches)]
    if lacking:
        yield agreeing(
            len(lacking),
            "{} metric[s] [is|are] not known of every launch: {names}.",
            names=", ".join(lacking[:_NAMED]),
        )


def _of_units(units: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield which of the metrics have a unit that is not theirs, or that does not exist."""
    if unknown := sorted({unit for _, unit in units if not is_known(unit)}):
        yield f"Metrics have units that are not known: {', '.join(unknown[:_NAMED])}."
    wrong = sorted(
        f"{name} in {unit or 'no unit'}"
        for name, unit in units
        for pattern, own in _UNITS.items()
        if unit != own and pattern.search(name)
    )
    if wrong:
        yield agreeing(
            len(wrong),
            "{} metric[s] [has|have] a unit that is not [its own|theirs]: {names}.",
            names=", ".join(wrong[:_NAMED]),
        )


def _of_shapes(launches: Sequence[Launch]) -> Iterator[str]:
    """Yield how many launches contradict themselves in shape, or have one that no GPU can."""
    contradicted = impossible = timeless = 0
    for launch in launches:
        values = {metric.name: metric.value for metric in launch.metrics}
        stated = [
            (launch.grid, values.get("launch__grid_size")),
            (launch.block, values.get("launch__block_size")),
        ]
        for axis in range(3):
            for of, shape in (("grid", launch.grid), ("block", launch.block)):
                stated.append(
                    (shape[axis : axis + 1], values.get(f"launch__{of}_dim_{'xyz'[axis]}"))
                )
        capability = [values.get(f"{_CAPABILITY}_{part}") for part in ("major", "minor")]
        contradicted += any(
            sizes and value is not None and math.prod(sizes) != value for sizes, value in stated
        ) or (
            None not in capability
            and launch.capability != ".".join(f"{part:g}" for part in capability)
        )
        impossible += (
            math.prod(launch.block) > _MOST_THREADS
            or 0 in (*launch.grid, *launch.block)
            or (values.get("launch__registers_per_thread") or 0) > _MOST_REGISTERS
        )
        lasting = values.get("gpu__time_duration.sum", values.get("gpu__time_duration.avg"))
        timeless += lasting is not None and not 0 < lasting < _LONGEST_NS
    if contradicted:
        yield agreeing(
            contradicted,
            "{} launch[es] state[s|] a grid, block or capability that others contradict.",
        )
    if impossible:
        yield agreeing(
            impossible,
            "{} launch[es] [has|have] more threads in a block, or registers, than any GPU.",
        )
    if timeless:
        yield agreeing(timeless, "{} launch[es] [has|have] a duration that no kernel has.")
