"""Pages that ``ncu --csv`` prints, raw and details, in the layouts of all versions."""

import codecs
import csv
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path

from profkit.convert.ncu import page_faults
from profkit.convert.ncu.launches import Advice, Launch, Metric, with_attributes
from profkit.convert.ncu.metric_labels import metric_name
from profkit.convert.ncu.units import base_unit
from profkit.core.errors import InputError
from profkit.tables.kernel_names import function

# Warnings and the progress of each kernel come first where both went to one file.
_START_BYTES = 1 << 20
# Unquoted, or with another separator, where a table program has saved it again.
_HEADING = re.compile(r'^"?ID"?([,;\t])"?Process ID"?\1.*Kernel Name.*$', re.MULTILINE)
# Columns that `ncu --nvtx` adds: the ranges of a thread, and those that may end on another one.
_PUSHED, _STARTED = "Push/Pop_Range:", "Start/Stop_Range:"
_RANGE = re.compile(r'"([^"]*)"')
_AFTER_NAME = 6
_ID, _KERNEL, _METRIC = "ID", "Kernel Name", "Metric Name"
# Columns of raw pages that identify the launch; all others are metrics.
_WHICH = frozenset(
    {_ID, "Process ID", "Process Name", "Host Name", _KERNEL, "Kernel Time", "Context", "Stream"}
    | {"Block Size", "Grid Size", "Device", "CC", "Thread", "Thread ID"}
)
_NUMBER = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?")
_NOTHING = frozenset({"", "no data", "n/a", "N/A", "nan", "(!) n/a", "(!) nan"})
_MOST_BYTES = 512 << 20
_MOST_DIGITS = 9
_TITLES = {
    "are well-balanced": "Balanced Throughput",
    "too small to fill": "Small Grid",
    "low compute throughput and memory bandwidth": "Latency Issue",
    "utilizing greater than": "High Throughput",
}
"""Titles in reports, which pages leave out, by words of the rule on what limits a kernel."""
_KINDS = {"OPT": "optimisation", "WRN": "warning", "ERR": "error"}

Row = Mapping[str, str]


def read(path: Path) -> list[Launch]:
    """Return the launches of the page at `path`; raises `InputError` if it has none."""
    rows = _rows(path)
    if not rows:
        raise InputError(
            f"{path}: the page holds no launch", hint="the report that it is of measured no kernel"
        )
    if _METRIC in rows[0]:
        return [_launch_of_details(list(group)) for _, group in groupby(rows, key=_launch_key)]
    units = rows[0] if not rows[0][_ID] else {}
    found = [_launch_of_raw(row, units) for row in rows if row[_ID]]
    if not found:
        raise InputError(f"{path}: the page holds no launch", hint="export it again")
    return found


def is_page(path: Path) -> bool:
    """Say whether the file at `path` begins as a page does, after lines of ncu's own."""
    with path.open("rb") as file:
        return bool(_HEADING.search(_text(file.read(_START_BYTES))))


def is_cut_off(path: Path) -> bool:
    """Say whether the page at `path` ends within a value."""
    return _page(path).count('"') % 2 == 1


def faults(path: Path) -> list[str]:
    """Return what is wrong with the page at `path`, which was read; one sentence each."""
    page = _page(path)
    start = _HEADING.match(page)
    separator = start[1] if start else ","
    heading, *rows = csv.reader(_whole(page).splitlines(), delimiter=separator)
    has_units = bool(rows) and not rows[0][heading.index(_ID)]
    found = [*page_faults.of_rows(heading, rows[has_units:])]
    if not has_units and _METRIC not in heading:
        found.append("The page has no row of units: its values count as they stand.")
    return found


def _page(path: Path) -> str:
    """Return the text from the heading on, "" if there is none."""
    if (size := path.stat().st_size) > _MOST_BYTES:
        raise InputError(
            f"{path}: refused: a page of {size:,} bytes is more than {_MOST_BYTES >> 20} MiB",
            hint="give the report (.ncu-rep) itself, or export fewer kernels",
        )
    text = _text(path.read_bytes())
    heading = _HEADING.search(text)
    return text[heading.start() :] if heading else ""


def _text(content: bytes) -> str:
    # PowerShell redirects as UTF-16, and table programs save a byte order mark first.
    is_wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return content.decode("utf-16" if is_wide else "utf-8-sig", errors="replace")


def _rows(path: Path) -> list[Row]:
    """Return the rows of units and of launches, without the lines of programs around them."""
    page = _page(path)
    heading = _HEADING.match(page)
    if not heading:
        return []
    reader = csv.DictReader(_whole(page).splitlines(), delimiter=heading[1], restval="")
    try:
        # Rows without advice end early; a longer one has fields that no column is there for.
        rows = [{key: value or "" for key, value in row.items() if key} for row in reader]
    except csv.Error as error:
        raise InputError(f"{path}: a damaged page: {error}", hint="export it again") from None
    if lacking := {_ID, _KERNEL} - {*(reader.fieldnames or ())}:
        raise InputError(
            f"{path}: a damaged page: its heading has no column {min(lacking)!r}",
            hint="export it again",
        )
    return [row for at, row in enumerate(rows) if row[_ID].isdecimal() or (not at and not row[_ID])]


def _whole(page: str) -> str:
    """Return a page without a value that was cut off, which may be half of one."""
    return page[: page.rindex('"')] if page.count('"') % 2 else page


def _launch_key(row: Row) -> tuple[str, str, str]:
    return row.get("Process ID", ""), row[_ID], row[_KERNEL]


def _launch_of_raw(row: Row, units: Row) -> Launch:
    launch = _launch(row)
    for name, text in row.items():
        is_metric = name not in _WHICH and _PUSHED not in name and _STARTED not in name
        if is_metric and (metric := _metric(name, text, units.get(name, ""))):
            launch.metrics.append(metric)
    return with_attributes(launch)


def _launch_of_details(rows: list[Row]) -> Launch:
    launch = _launch(rows[0])
    known: dict[str, Metric] = {}
    for row in rows:
        name = metric_name(row.get("Section Name", ""), row[_METRIC])
        metric = _metric(name, row.get("Metric Value", ""), row.get("Metric Unit", ""))
        if row[_METRIC] and metric:
            known.setdefault(name, metric)
    launch.metrics = list(known.values())
    launch.advice = list(_advice(rows))
    return with_attributes(launch)


def _launch(row: Row) -> Launch:
    name = row[_KERNEL]
    return Launch(
        function=function(name),
        name=name,
        launch=_integer_or_unknown(row[_ID]),
        pid=_integer_or_unknown(row.get("Process ID", "")),
        device=_integer_or_unknown(row.get("Device", "")),
        capability=row.get("CC", ""),
        stream=_integer_or_unknown(row.get("Stream", "")),
        grid=_shape(row.get("Grid Size", "")),
        block=_shape(row.get("Block Size", "")),
        ranges=[
            open_range
            for name, text in row.items()
            if _PUSHED in name
            for open_range in _ranges(text)
        ],
    )


def _ranges(text: str) -> list[str]:
    """Return the names in ``1  "domain:name:none:none:none:none:none:none"``, outermost first."""
    found = (quoted.rsplit(":", _AFTER_NAME)[0] for quoted in _RANGE.findall(text))
    return [quoted.partition(":")[2] for quoted in found]


def _integer_or_unknown(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else -1


def _shape(text: str) -> list[int]:
    """Return the three numbers of ``(32, 4, 1)``; none of anything else."""
    found = [_integer_or_unknown(digits) for digits in re.findall(r"\d+", text)]
    known = len(found) == 3 and min(found) >= 0  # noqa: PLR2004 - dimensions of space
    return found if known else []


def _metric(name: str, text: str, unit: str) -> Metric | None:
    """Return the metric that `text` states; None if it states none."""
    if text in _NOTHING:
        return None
    # Metrics with instances are followed by these: "10 (4; 6)".
    if number := _NUMBER.fullmatch(text.partition(" (")[0]):
        factor, named = base_unit(unit)
        value = float(number[0].replace(",", "")) * factor
        if math.isfinite(value):
            return Metric(name=name, value=value, unit=named)
    return Metric(name=name, value=None, text=text)


def _advice(rows: Iterable[Row]) -> Iterator[Advice]:
    for row in rows:
        if not row.get("Rule Name"):
            continue
        gain = row.get("Estimated Speedup", "").replace(",", "")
        message = row.get("Rule Description", "").strip()
        # Such rows name the section as the tool identifies it.
        yield Advice(
            section=row.get("Section Name", ""),
            rule=row["Rule Name"],
            kind=_KINDS.get(row.get("Rule Type", ""), "information"),
            title=next((title for words, title in _TITLES.items() if words in message), ""),
            message=message,
            speedup_percent=float(gain) if _NUMBER.fullmatch(gain) else None,
            speedup_scope=row.get("Estimated Speedup Type", ""),
        )
