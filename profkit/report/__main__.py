"""The edge of the report: reads a selection and its runs, writes the page."""

import argparse
import importlib.metadata
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from pydantic import TypeAdapter

from profkit.core import progress_events, settings
from profkit.core.atomic_write import write_atomically
from profkit.core.checksums import sha256
from profkit.core.fingerprint import provenance
from profkit.core.job_record import JobRecord
from profkit.core.sealed_json import sealed
from profkit.report import record, result_tree
from profkit.report.build_view import Page, report_view
from profkit.report.issue_text import issue_text
from profkit.report.kept_comparison import data, read_comparison, with_comparison
from profkit.report.render import code_bytes, render
from profkit.report.settings import Settings


def main(argv: Sequence[str]) -> None:
    """Write the page of a selection, and beside it a short text, and as JSON what it is made of."""
    arguments = _parser().parse_args(argv)
    progress_events.emit("started", stage="report", run="", name="report")
    try:
        _report(arguments)
    except BaseException:
        progress_events.emit("failed", stage="report", run="", name="report", log="")
        raise
    progress_events.emit("finished", stage="report", run="", name="report")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="profkit report", description=main.__doc__)
    parser.add_argument("--selection", type=Path, required=True, help="JSON file of the plan")
    parser.add_argument("--settings", default="{}", help="settings as JSON")
    parser.add_argument("--attempt", type=int, default=1, help="how often this was tried, from 1")
    parser.add_argument("--out", type=Path, required=True, help="HTML file to write")
    return parser


def _report(arguments: argparse.Namespace) -> None:
    chosen = settings.checked(
        "report", Settings, settings.from_json("--settings", arguments.settings)
    )
    selection = result_tree.read_selection(arguments.selection)
    runs = [result_tree.read_run(selected) for selected in selection.runs]
    comparison = read_comparison(selection.comparison)
    across = result_tree.read_run(selection.across)
    page = Page(
        folder=str(arguments.out.parent),
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        version=importlib.metadata.version("profkit"),
        code_bytes=code_bytes(),
    )
    inputs = (path for run in (*runs, across) for path in result_tree.inputs(run))
    read_from = [arguments.selection, *inputs]
    read_from += [Path(selection.comparison)] if comparison else []
    across = with_comparison(across, comparison)
    made_of = provenance(
        "profkit.report",
        "profkit.report.__main__",
        TypeAdapter(Settings).dump_python(chosen, mode="json"),
        {str(path): sha256(path) for path in read_from},
    )
    report = report_view(selection, runs, across, chosen, page)
    write_atomically(arguments.out, render(report).encode())
    text = issue_text(report, [record.verdict_of(run) for run in runs])
    write_atomically(arguments.out.with_suffix(".md"), text.encode(errors="replace"))
    job = JobRecord(provenance=made_of, attempt=arguments.attempt)
    content = record.encoded(runs, across, data(comparison), job)
    write_atomically(arguments.out.with_suffix(".json"), sealed(content))


if __name__ == "__main__":
    main(sys.argv[1:])
