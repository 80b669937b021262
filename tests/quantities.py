"""What a run says of one quantity in its results, in ``report.json``, the terminal and the page."""

import re

import msgspec

from profkit.cli.answer import answer
from profkit.cli.run_folders import RunFolder
from profkit.core import result
from profkit.core.formatting import milliseconds
from profkit.report.record import RunVerdict
from profkit.report.verdict_text import step_time
from tests.page_text import page_data

TRACER = "torch_profiler"
_NS = 1e6


class _Verdicts(msgspec.Struct):
    runs: tuple[RunVerdict, ...]


def read_verdicts(path):
    """Return the verdict of each run that the ``report.json`` at `path` holds, by name."""
    runs = msgspec.json.decode(path.read_bytes(), type=_Verdicts).runs
    return {one.run: one.verdict for one in runs}


OVERHEAD = r"The same steps take (?:about as long \()?([\d.]+) times"


def said_of(tree, run):
    """Return by quantity what each place says of it, in words, of the places that say anything."""
    folder = RunFolder(tree / "results/runs" / run)
    found = {path.stem: result.read(path).result for path in folder.path.glob("analyze/*.json")}
    verdict = read_verdicts(tree / "results/report.json")[run]
    text = " ".join(answer(folder))
    runs = page_data(tree / "results/report.html").values()
    shown = next(data for data in runs if data.get("name") == run)
    page = shown["verdict"]
    said = {
        "step time": {
            "report.json": milliseconds(verdict.step_ms),
            "terminal": re.search("[0-9.,]+|$", step_time(verdict))[0] or "0",
            "steps": _metric(found, "steps.step_time_ns", _NS),
            "profkit ls": milliseconds(folder.step_time_ns / _NS) if folder.step_time_ns else "",
            "flops": _cells(found, "flops.by_rank.step_time_ns", _NS),
            "step bar": page["step_ms"],
            "tile": _step_tile(shown["numbers"]),
        },
        "traced step": {
            "report.json": milliseconds(verdict.traced_ms),
            "causes": _metric(found, "causes.step_ms"),
            "terminal": _word(r"of ([\d.,]+) ms per", text),
            "step bar": _word(r"of ([\d.,]+) ms", page["of_step"]),
        },
        "GPU idle": {
            "report.json": _cause(verdict, "gpu_idle"),
            "causes": _metric(found, "causes.gpu_idle_ms"),
            "terminal": _word(r"GPU idle ([\d.,]+) of", text),
        },
        "profiler overhead": {
            "trust": _overhead(_messages(verdict)),
            "observer_tax": _metric(found, f"observer_tax.{TRACER}_slowdown_ratio", form=".2f"),
            "page": _overhead(" ".join(page["failed"] + page["passed"])),
        },
        "peak of the allocated memory": {
            "report.json": _bytes(verdict),
            "memory_peak": _metric(found, "memory_peak.peak_bytes", form=".0f"),
        },
    }
    for part in page["parts"]:
        said[part["title"]] = {
            "report.json": _cause(verdict, part["cause"]),
            "step bar": part["ms"],
            "terminal": _word(rf"{re.escape(part['title'])} ([\d.,]+)[ =|]", text),
        }
    return {
        quantity: {place: word for place, word in places.items() if word}
        for quantity, places in said.items()
        if any(places.values())
    }


def _overhead(text):
    """Return by how much steps take longer; on a busy machine they may be shorter by chance."""
    shorter = _word(r"the same steps took (\d+)% of the time", text)
    return f"{int(shorter) / 100:.2f}" if shorter else _word(OVERHEAD, text)


def _metric(found, name, unit=1.0, form=""):
    analysis, _, metric = name.partition(".")
    known = found[analysis].metrics.get(metric) if analysis in found else None
    if known is None:
        return ""
    return format(known.value, form) if form else milliseconds(known.value / unit)


def _cells(found, name, unit):
    """Return what all rows of a table have in a column, as one word."""
    analysis, key, column = name.split(".")
    table = found[analysis].tables.get(key) if analysis in found else None
    if table is None:
        return ""
    position = table.columns.index(column)
    return " ".join({milliseconds(row[position] / unit) for row in table.rows if row[position]})


def _step_tile(tiles):
    tile = next(tile for tile in tiles if "step time" in tile["title"].casefold())
    return "" if tile["value"] is None else milliseconds(tile["value"] / _NS)


def _word(pattern, text):
    return " ".join(dict.fromkeys(re.findall(pattern, text)))


def _cause(verdict, wanted):
    return next((milliseconds(one.ms_per_step) for one in verdict.causes if one.id == wanted), "")


def _messages(verdict):
    return " ".join(check.message for check in verdict.trust)


def _bytes(verdict):
    return str(verdict.memory.peak_bytes) if verdict.memory else ""
