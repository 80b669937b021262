"""The answer on a run, for the terminal: its verdict, or else what was found."""

from collections.abc import Iterator
from pathlib import Path

from profkit.cli.run_folders import RunFolder
from profkit.core import result
from profkit.core.capture_record import capture_warnings
from profkit.core.errors import InputError
from profkit.core.job_record import CONVERSION, NOTHING, read_job
from profkit.core.result import Severity
from profkit.report.verdict_text import lines

ANALYSES = (
    *("verdict", "steps", "memory_peak", "fragmentation", "nsys_stats", "python_hotspots"),
    *("ncu_summary", "speed_of_light"),
)
"""Analyses that the answer is made of."""

_FINDINGS = 3
_SEVERITIES = (Severity.BAD, Severity.WARN, Severity.INFO)


def answer(run: RunFolder) -> Iterator[str]:
    """Yield the verdict on a run; where there is none, the findings that should worry most."""
    documents = {path.stem: _document(path) for path in sorted(run.path.glob("analyze/*.json"))}
    if not documents:
        yield f"{run.name} has no results yet: profkit why {run.path} says what is missing"
    if "verdict" in documents and (verdict := documents["verdict"].result.verdict) is not None:
        yield from lines(verdict)
        return
    found = [
        one for name in ANALYSES if name in documents for one in documents[name].result.findings
    ]
    for finding in sorted(found, key=lambda one: _SEVERITIES.index(one.severity))[:_FINDINGS]:
        yield f"  {finding.severity}: {finding.message}"
        if finding.advice:
            yield f"    {finding.advice}"


def notes(run: RunFolder) -> Iterator[str]:
    """Yield what was not recorded, and what was repaired or lost, each once."""
    captures = sorted(run.path.glob("capture/*/rep*/capture.json"))
    texts = [text for path in captures for text in capture_warnings(path)]
    for path in sorted(run.path.glob(f"tables/*/{CONVERSION}")):
        texts += [
            f"{note.get('file', '')}: {note.get('text', '')}" for note in read_job(path).notes
        ]
    for path in sorted(run.path.glob("analyze/*.json")):
        document = _document(path)
        texts += [f"{one.what}: {one.reason}" for one in document.result.abstentions]
        if document.status == "failed":
            texts.append(f"the analysis {document.analysis} failed: {document.reason}")
    yield from dict.fromkeys(texts)


def _document(path: Path) -> result.Document:
    try:
        return result.read(path)
    except InputError as error:
        empty = result.Result.abstain(path.stem, str(error))
        return result.Document(
            analysis=path.stem, title="", summary="", result=empty, provenance=NOTHING
        )
