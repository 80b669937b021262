"""The answer on a run, for the terminal: its verdict, or else what was found."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from profkit.cli.run_folders import RUNS, SELECTION, RunFolder
from profkit.core import result
from profkit.core.capture_record import capture_warnings
from profkit.core.errors import InputError
from profkit.core.formatting import counted, duration, number, size
from profkit.core.job_record import CONVERSION, NOTHING, read_job
from profkit.core.result import Severity
from profkit.core.verdict import Verdict
from profkit.report import shown_run
from profkit.report.verdict_text import lines

ANALYSES = (
    *("verdict", "steps", "memory_peak", "fragmentation", "nsys_stats", "python_hotspots"),
    *("ncu_summary", "speed_of_light"),
)
"""Analyses that the answer is made of."""

_SAMPLES = "python_hotspots"
_VERDICTS = ("kernel_verdict", "memory_verdict", "verdict")
"""Analyses that say, where there is nothing else to say, why there is not."""

_NARROWEST = 60
"""Characters of a line in which all that a verdict says finds room."""

_DAMAGED = "a result that cannot be read"
_LEAST_NS = 1_000_000
_FINDINGS = 3
_NOTES = 3
_METRICS = 3
_AMOUNTS: dict[str, Callable[[float], str]] = {
    "ns": duration,
    "bytes": size,
    "share": "{:.1%}".format,
}
"""How numbers of these units are written; others have their unit behind them."""
_SEVERITIES = (Severity.BAD, Severity.WARN, Severity.INFO)


def answer(run: RunFolder) -> Iterator[str]:
    """Yield the verdict on a run; where there is none, what was measured and found."""
    if (verdict := verdict_on(run)) is not None:
        # As COLUMNS says, else as wide as the terminal; 80 characters into files and pipes.
        yield from lines(verdict, max(_NARROWEST, shutil.get_terminal_size().columns))
        if (path := run.path / "analyze" / f"{_SAMPLES}.json").is_file():
            yield from _numbers(_SAMPLES, _document(path).result)
        return
    documents = {path.stem: _document(path) for path in sorted(run.path.glob("analyze/*.json"))}
    if not documents:
        yield f"{run.name} has no results yet: profkit why {run.path} says what is missing"
    results = {name: documents[name].result for name in ANALYSES if name in documents}
    if not results:  # the user asked for others
        results = {name: one.result for name, one in documents.items()}
        yield from (line for one in documents.values() for line in _metrics(one))
    if "verdict" in results and (damage := _unreadable(results["verdict"])):
        yield f"Not known: the verdict, because {damage}"
    numbers = [line for name, one in results.items() for line in _numbers(name, one)]
    yield from numbers
    found = [finding for one in results.values() for finding in one.findings]
    if not found:
        reasons = _VERDICTS[: 1 if numbers else None]
        reasons = _VERDICTS[-1:] if "nsys_stats" in results else reasons
        judged = [documents[name].result for name in reasons if name in documents]
        unknown = [abstention for one in judged for abstention in one.abstentions]
        for one in unknown[:1]:
            yield f"Not known: {one.what}, because {_not_captured(run) or one.reason}."
    for finding in sorted(found, key=lambda one: _SEVERITIES.index(one.severity))[:_FINDINGS]:
        yield f"  {finding.severity}: {finding.message}"
        if finding.advice:
            yield f"    {finding.advice}"


def _not_captured(run: RunFolder) -> str:
    """Return which tool did not capture and why, "" if all of them did."""
    bad = (record for record in run.captures if record["status"] != "ok")
    tools = (record for record in bad if record["tool"] != "baseline")
    return next((f"{record['tool']} did not capture: {record['reason']}" for record in tools), "")


def _numbers(name: str, found: result.Result) -> Iterator[str]:
    """Yield the step time, and what is first in a table of samples or of measured kernels."""
    if (step := found.metrics.get("step_time_ns")) is not None:
        yield f"  {step.title}: {duration(step.value)}"
    call = _first(found, "cuda_api_sum") if name == "nsys_stats" else {}
    if call and call["total_ns"] >= _LEAST_NS:
        yield f"  Most time in a call of CUDA: {call['name']}, {duration(call['total_ns'])}"
    if name == _SAMPLES and (line := _first(found, "lines")):
        yield f"  Most sampled time: {line['self_share']:.0%} in {line['line']}"
    if name == "ncu_summary" and (kernel := _first(found, "kernels")) and "duration_ns" in kernel:
        yield f"  Longest measured kernel: {kernel['kernel']}, {duration(kernel['duration_ns'])}"


def _metrics(made: result.Document) -> Iterator[str]:
    """Yield the first numbers that an analysis gives."""
    for metric in [*made.result.metrics.values()][:_METRICS]:
        written = _AMOUNTS.get(metric.unit)
        amount = written(metric.value) if written else f"{number(metric.value)} {metric.unit}"
        yield f"  {made.title}, {metric.title}: {amount}"


def _first(found: result.Result, table: str) -> dict[str, Any]:
    """Return the first row of a table, empty where there is none."""
    rows = found.tables.get(table)
    return rows.records()[0] if rows and rows.rows else {}


def verdict_on(run: RunFolder) -> Verdict | None:
    """Return the verdict on a run, None if there is none."""
    path = run.path / "analyze" / "verdict.json"
    return _document(path).result.verdict if path.is_file() else None


def sweep_sentences(names: Sequence[str]) -> Iterator[str]:
    """Yield what the analysis ``sweep`` found of exactly these runs, or why it found nothing."""
    if found := _sweep_of(names):
        yield from (finding.message for finding in found.findings)
        if not found.findings:
            yield from (f"not known {one.what}: {one.reason}" for one in found.abstentions[:1])


def fastest(names: Sequence[str]) -> str:
    """Return the fastest run of exactly these, the first if that is unknown."""
    return shown_run.fastest(names, _sweep_of(names))


def _sweep_of(names: Sequence[str]) -> result.Result | None:
    """Return what the analysis ``sweep`` found of exactly these runs, None if there is nothing."""
    path = SELECTION / "analyze" / "sweep.json"
    if not path.is_file():
        return None
    document = _document(path)
    swept = {Path(file).parts[len(RUNS.parts)] for file in document.provenance.inputs}
    return document.result if swept == set(names) else None


def _unreadable(made: result.Result) -> str:
    """Return why the file of a result cannot be read, "" if it can, as `_document` has it."""
    return next((one.reason for one in made.abstentions if one.what == _DAMAGED), "")


def what_a_step_is(run: RunFolder) -> Iterator[str]:
    """Yield how many calls of optimizers or of the model make a step, where these are several."""
    texts = dict.fromkeys(_notes_on_files(run))
    yield from (text for text in texts if " a step is " in text)


def notes(run: RunFolder) -> Iterator[str]:
    """Yield what was repaired or lost, and what was not recorded, each reason once."""
    texts = list(_notes_on_files(run))
    unknown: dict[str, dict[str, None]] = {}
    for path in sorted(run.path.glob("analyze/*.json")):
        document = _document(path)
        for one in document.result.abstentions:
            unknown.setdefault(one.reason, {})[one.what] = None
        if document.status == "failed":
            texts.append(f"the analysis {document.analysis} failed: {document.reason}")
    yield from dict.fromkeys(texts)
    yield from (f"{'; '.join(what)}: {reason}" for reason, what in unknown.items())


def foreign_notes(run: RunFolder) -> Iterator[str]:
    """Yield what is wrong with files that came from elsewhere, which makes the answer doubtful."""
    texts = list(dict.fromkeys(_notes_on_files(run)))
    yield from (f"note: {text}" for text in texts[:_NOTES])
    if more := len(texts[_NOTES:]):
        yield f"{counted(more, 'more note')} on these files: profkit show --notes"


def _notes_on_files(run: RunFolder) -> Iterator[str]:
    for path in sorted(run.path.glob("capture/*/rep*/capture.json")):
        yield from capture_warnings(path)
    for path in sorted(run.path.glob(f"tables/*/{CONVERSION}")):
        for note in read_job(path).notes:
            yield f"{note.get('file', '')}: {note.get('text', '')}"


def _document(path: Path) -> result.Document:
    try:
        return result.read(path)
    except InputError as error:
        empty = result.Result.abstain(_DAMAGED, str(error))
        return result.Document(
            analysis=path.stem, title="", summary="", result=empty, provenance=NOTHING
        )
