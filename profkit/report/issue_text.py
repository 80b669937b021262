"""``report.md``, beside the page: what one pastes into an issue, at most about 80 lines."""

import os
from collections.abc import Iterator, Mapping, Sequence

from profkit.core.formatting import agreeing, duration, milliseconds, size
from profkit.core.secret_masking import Masker
from profkit.core.verdict import Verdict
from profkit.report import verdict_view, view
from profkit.report.labelled_values import Value
from profkit.report.markdown import Words, table
from profkit.report.verdict_text import bar, step_parts, step_time

_MOST_WHOLE = 2
"""Runs with all of their verdict; the others are rows of a table."""

_MOST_ROWS = 20
_MOST_PROBLEMS = 5
_MOST_DIFFERENCES = 5
_BAR_WIDTH = 80
_SET_UP = ("profkit", "torch", "transformers", "deepspeed", "accelerate", "triton", "numpy")


def issue_text(
    report: view.Report,
    verdicts: Sequence[Verdict | None],
    environment: Mapping[str, str] = os.environ,
) -> str:
    """Return the text on `report`; `verdicts` are those of its runs, in their order.

    Secrets that `environment` holds, and what looks like one, are masked.
    """
    words = Words(Masker(environment))
    facts = [f"captured {report.captured}" * bool(report.captured), f"profkit {report.version}"]
    lines = [f"# {words.plain(report.title)}", "", ", ".join(filter(None, facts)), ""]
    for run, verdict in list(zip(report.runs, verdicts, strict=True))[:_MOST_WHOLE]:
        lines += [*_run(words, run, verdict, several=len(report.runs) > 1), ""]
    if report.overview.tables:
        lines += ["## Runs", "", *_runs(words, report), ""]
    lines += ["## Set-up", "", *_set_up(words, report), ""]
    if report.problems:
        lines += ["## Failures", "", *_problems(words, report.problems), ""]
    return "\n".join(lines[:-1]) + "\n"


def _run(words: Words, run: view.Run, verdict: Verdict | None, *, several: bool) -> Iterator[str]:
    yield f"## {words.plain(run.label) if several else 'Verdict'}"
    yield ""
    if verdict is None or run.verdict is None:
        yield "No verdict was made of this run."
        return
    shown = run.verdict
    if shown.limiter:
        when = step_time(verdict)
        yield f"**{shown.limiter}**: {words.prose(shown.headline)}" + f" ({when})" * bool(when)
        yield ""
    if verdict.traced_ms > 0:
        yield from words.block(
            "\n".join(bar(step_parts(verdict.causes), verdict.traced_ms, _BAR_WIDTH))
        )
        yield ""
    for number, action in enumerate(shown.actions, start=1):
        yield f"{number}. {_action(words, action)}"
    if shown.nothing:
        yield shown.nothing
    if (shown.actions or shown.nothing) and shown.others:
        yield ""
    for other in shown.others:
        yield f"- {other.title}: {words.prose(f'{other.headline} {other.advice}'.strip())}"
    if shown.actions or shown.nothing or shown.others:
        yield ""
    yield f"Confidence {shown.confidence}. {words.prose(' '.join((*shown.failed, *shown.passed)))}"


def _action(words: Words, action: verdict_view.ToDo) -> str:
    place = f" {words.code(action.place)}" if action.place not in action.advice else ""
    source = words.link("source", action.source)
    about = f"{action.confidence} confidence" + f", {source}" * bool(source)
    title = f"**{action.gain}**: {words.plain(action.title)}."
    return f"{title} {words.prose(action.advice)}{place} ({about})"


def _runs(words: Words, report: view.Report) -> Iterator[str]:
    """Yield the settings and key numbers in which the runs differ, and what limits each."""
    shown = report.overview.tables[0]
    # The name of a run is long and says less than what differs.
    heads = ["Limited by", *(words.plain(column.label) for column in shown.columns[1:])]
    rows = [
        [
            (run.verdict and run.verdict.limiter) or "no verdict",
            *(
                _value(words, cell, column.unit)
                for cell, column in zip(row[1:], shown.columns[1:], strict=True)
            ),
        ]
        for run, row in zip(report.runs, shown.rows, strict=True)
    ]
    yield from table(heads, rows[:_MOST_ROWS])
    if len(rows) > _MOST_ROWS:
        yield ""
        yield agreeing(len(rows) - _MOST_ROWS, "{} more run[s] [is|are] in `report.html`.")


def _value(words: Words, value: Value, unit: str) -> str:
    if value is None:
        return "not known"
    if isinstance(value, str) or unit == "id":
        return words.plain(str(value))
    if unit == "ns":
        return duration(value)
    if unit == "bytes":
        return size(value)
    if unit in ("share", "fraction"):
        return f"{value:.1%}"
    shown = f"_{unit}".replace("_per_", "/").strip("_")
    return f"{milliseconds(value)} {shown}".strip()


def _set_up(words: Words, report: view.Report) -> Iterator[str]:
    for machine in report.machines:
        known = {item.label: item.value for item in machine.items}
        more = [
            f"{label} {known[label]}"
            for label in ("OS", "Python", "Driver", "CUDA")
            if label in known
        ]
        yield f"- machine: {words.plain(', '.join([machine.title, *more]))}"
    parts = dict(report.runs[0].manifest)
    versions = [
        f"{item.label} {item.value}" for item in parts.get("Versions", ()) if item.label in _SET_UP
    ]
    if versions:
        yield f"- versions: {words.plain(', '.join(versions))}"
    if report.command:
        yield f"- command: {words.code(report.command)}"
    yield from (f"- {words.plain(note)}" for note in report.differences[:_MOST_DIFFERENCES])
    if (left := len(report.differences) - _MOST_DIFFERENCES) > 0:
        yield agreeing(left, "- {} more difference[s] [is|are] in `report.html`.")


def _problems(words: Words, problems: Sequence[view.Problem]) -> Iterator[str]:
    for problem in problems[:_MOST_PROBLEMS]:
        repeat = "" if problem.repeat is None else f" repeat {problem.repeat}"
        what = f"{problem.stage} {problem.tool}{repeat} of {problem.run.text}"
        reason = problem.reason or "no reason was recorded"
        yield f"- {words.plain(what)}: **{problem.status}**, {words.plain(reason)}"
    if (left := len(problems) - _MOST_PROBLEMS) > 0:
        yield agreeing(left, "- {} more failure[s] [is|are] in `report.html`.")
