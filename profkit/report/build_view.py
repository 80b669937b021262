"""Build the view of the report from the files of the runs; computes nothing but links."""

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from profkit.core import result
from profkit.report import kept_comparison, result_tree, shown_verdict, topics, view
from profkit.report.budget import fitted
from profkit.report.column_labels import column
from profkit.report.compare import Examples, examples, key_numbers, overview
from profkit.report.drawn_parts import Parts, cell, is_rank, rank_name
from profkit.report.labelled_values import Item, Number, Value
from profkit.report.provenance import before, differences, listings, machines, manifest, ran
from profkit.report.record import verdict_of
from profkit.report.run_folder import (
    captures,
    configuration,
    failed_job,
    folders,
    problem,
    viewable,
)
from profkit.report.settings import Settings
from profkit.report.shown_run import ShownRun, fastest, run_label, with_run_labels

_RANKING = (result.Severity.BAD, result.Severity.WARN, result.Severity.INFO)


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """Where and when the page is written, and by which version."""

    folder: str
    """Folder of the page, which its links start from."""

    made: str
    """Time that the page shows."""

    version: str
    """Version of profkit."""

    code_bytes: int
    """Bytes of the page without what it shows."""


def report_view(
    selection: result_tree.Selection,
    runs: Sequence[result_tree.Run],
    across: result_tree.Run,
    settings: Settings,
    page: Page,
) -> view.Report:
    """Return the view of `selection`; `across` has the results of all its runs together."""
    history = across.documents.get("history")
    runs, across = _of_one_run(runs, across, settings)
    shown_runs = [
        ShownRun(run, f"run-{index}", page.folder) for index, run in enumerate(runs, start=1)
    ]
    wanted = examples(runs, settings.key_metrics)
    prepared = [
        _run(shown_run, wanted, settings, [*before(shown_run.run, history)])
        for shown_run in shown_runs
    ]
    of_runs = [section for run, _ in prepared for section in _all_of(run)]
    shown_across = ShownRun(with_run_labels(across, runs), "across", page.folder)
    together, parts_across = _across(shown_across)
    report = view.Report(
        title=settings.title or selection.title or _title(selection.runs),
        made=page.made,
        version=page.version,
        machines=machines(runs),
        captured=_captured(runs),
        command=selection.command,
        notes=selection.notes,
        differences=differences(shown_runs),
        overview=overview(shown_runs, settings),
        across=together,
        findings=_grouped([*together.sections, *of_runs]),
        findings_on_top=settings.findings_on_top,
        problems=tuple(
            problem for shown_run in (*shown_runs, shown_across) for problem in _problems(shown_run)
        ),
        remarks=tuple(_remarks(shown_runs)),
        runs=tuple(run for run, _ in prepared),
        opens=_first_shown(runs, across.documents.get("sweep")),
        blocks=(),
        rows_per_page=settings.rows_per_page,
        max_bars=settings.max_bars,
    )
    return fitted(report, [parts for _, parts in prepared], parts_across, page.code_bytes, settings)


def _first_shown(runs: Sequence[result_tree.Run], sweep: result.Document | None) -> int:
    """Return the index of the run that the terminal tells of as well: the fastest of a sweep."""
    names = [run.selected.run for run in runs]
    return names.index(fastest(names, sweep.result if sweep else None)) if names else 0


def _of_one_run(
    runs: Sequence[result_tree.Run], across: result_tree.Run, settings: Settings
) -> tuple[Sequence[result_tree.Run], result_tree.Run]:
    """Return runs and what is across them, where a single run has what topics of it name."""
    if len(runs) != 1:
        return runs, across
    (run,) = runs
    named = {name for topic in settings.topics for name in topic.analyses}
    taken = {name: document for name, document in across.documents.items() if name in named}
    folder = os.path.relpath(across.selected.folder, run.selected.folder)
    own = replace(
        run,
        documents={**run.documents, **taken},
        elsewhere=dict.fromkeys(taken, folder),
        selected=replace(run.selected, analyses=(*run.selected.analyses, *taken)),
    )
    left = tuple(name for name in across.selected.analyses if name not in taken)
    return [own], replace(across, selected=replace(across.selected, analyses=left))


def _all_of(run: view.Run) -> list[view.Section]:
    return [section for topic in run.topics for section in topic.sections]


def _title(runs: Sequence[result_tree.Selected]) -> str:
    if len(runs) == 1:
        return f"Profile of {runs[0].run}"
    varying = dict.fromkeys(key for run in runs for key in run.differs)
    return f"{len(runs)} runs by {' and '.join(varying)}" if varying else f"{len(runs)} runs"


def _captured(runs: Iterable[result_tree.Run]) -> str:
    own = [run for run in runs if not run.is_imported]
    all_captures = [capture for run in own for capture in run.captures if capture.started]
    if not all_captures:
        return ""
    first = min(capture.started for capture in all_captures)
    last = max(capture.ended for capture in all_captures)
    same_day = first[:10] == last[:10]
    return f"{_minute(first)} to {_minute(last)[11 if same_day else 0 :]}"


def _minute(iso: str) -> str:
    return iso[:16].replace("T", " ")


def _across(shown_run: ShownRun) -> tuple[view.Across, Parts]:
    sections, parts = _sections(shown_run)
    with_content, silent = _by_content(sections)
    across = view.Across(
        anchor=shown_run.anchor, sections=tuple(with_content.values()), silent=silent
    )
    return across, parts


def _by_content(
    sections: Mapping[str, view.Section],
) -> tuple[dict[str, view.Section], tuple[view.Section, ...]]:
    """Return the sections with content, by analysis, and those that only abstain."""
    with_content = {name: section for name, section in sections.items() if not section.is_silent}
    return with_content, tuple(section for section in sections.values() if section.is_silent)


def _sections(shown_run: ShownRun) -> tuple[dict[str, view.Section], Parts]:
    """Return the section of each analysis, and what they draw."""
    parts = Parts()
    sections = {
        name: _section(shown_run, index, name, parts)
        for index, name in enumerate(shown_run.run.selected.analyses, start=1)
    }
    return sections, parts


def _run(
    shown_run: ShownRun, wanted: Examples, settings: Settings, also: Sequence[str]
) -> tuple[view.Run, Parts]:
    """Return a run, with what is `also` told of it beside what ran, and what it draws."""
    run = shown_run.run
    by_analysis, parts = _sections(shown_run)
    with_content, silent = _by_content(by_analysis)
    shown = view.Run(
        anchor=shown_run.anchor,
        name=run.selected.run,
        label=run_label(run),
        ran=(*ran(run), *also),
        command=run.selected.command,
        statuses=tuple(_statuses(run)),
        numbers=key_numbers(run, wanted),
        captures=captures(shown_run),
        viewable=viewable(shown_run, settings.max_files_per_folder),
        folders=folders(shown_run, settings.max_files_per_folder),
        configuration=configuration(run),
        manifest=manifest(run),
        listings=listings(run),
        topics=topics.by_topic(shown_run, with_content, settings),
        silent=silent,
        verdict=None
        if (found := verdict_of(run)) is None
        else shown_verdict.shown(found, is_imported=run.is_imported),
    )
    return shown, parts


def _section(shown_run: ShownRun, index: int, name: str, parts: Parts) -> view.Section:
    """Return the section of analysis `name`; add what it draws to `parts`."""
    document = shown_run.run.documents.get(name)
    anchor = f"{shown_run.anchor}-{index}"
    if document is None:
        reason = f"analyze/{name}.json was not there when this page was made"
        return _missing(shown_run, anchor, name, reason)
    if document.status == "failed":
        return _missing(shown_run, anchor, name, f"the analysis failed: {document.reason}")
    shown, names = document.result, shown_run.run.rank_names
    tables, charts, drawings = parts.add(name, shown, names)
    lead, _, details = document.summary.replace("`", "").partition("\n\n")
    link = view.Link(text=document.title, href=f"#{anchor}")
    return view.Section(
        anchor=anchor,
        title=document.title,
        lead=" ".join(lead.split()),
        details=details,
        numbers=tuple(
            Number(title=metric.title, value=metric.value, unit=metric.unit)
            for metric in shown.metrics.values()
        ),
        findings=tuple(_finding(shown_run, link, finding, names) for finding in shown.findings),
        drawings=drawings,
        charts=charts,
        tables=tables,
        abstentions=shown.abstentions,
        file=shown_run.result_link(name),
        is_silent=not (shown.metrics or shown.findings or shown.tables or shown.drawings),
        is_answer=name == kept_comparison.NAME,
    )


def _missing(shown_run: ShownRun, anchor: str, name: str, reason: str) -> view.Section:
    return view.Section(
        anchor=anchor,
        title=column(name).label,
        lead="",
        details="",
        numbers=(),
        findings=(),
        drawings=(),
        charts=(),
        tables=(),
        abstentions=(result.Abstention(what="all of this analysis", reason=reason),),
        file=shown_run.result_link(name),
    )


def _finding(
    shown_run: ShownRun, section: view.Link, finding: result.Finding, names: Mapping[int, str]
) -> view.Finding:
    return view.Finding(
        severity=finding.severity,
        message=finding.message,
        number=Number(title=finding.metric, value=finding.value, unit=finding.unit),
        evidence=tuple(_item(key, value, names) for key, value in finding.evidence.items()),
        advice=finding.advice,
        run=shown_run.anchor_link,
        section=section,
    )


def _item(key: str, value: Value, names: Mapping[int, str]) -> Item:
    named = column(key)
    shown = rank_name(value, names) if is_rank(key) else cell(value)
    return Item(label=named.label, value=shown, unit=named.unit)


def _grouped(sections: Iterable[view.Section]) -> tuple[view.FindingGroup, ...]:
    """Put the same finding of several runs together, the most severe groups first.

    The second finding about a metric in one run belongs to the second ones of the other runs.
    """
    groups: dict[tuple[str, str, int], list[view.Finding]] = defaultdict(list)
    seen: Counter[tuple[str, str, str]] = Counter()
    for section in sections:
        for finding in section.findings:
            key = (section.title, finding.number.title)
            times = (finding.run.href, *key)
            groups[*key, seen[times]].append(finding)
            seen[times] += 1
    ranked = [sorted(group, key=_rank) for group in groups.values()]
    ranked.sort(key=lambda group: _rank(group[0]))
    return tuple(view.FindingGroup(first=group[0], others=tuple(group[1:])) for group in ranked)


def _rank(finding: view.Finding) -> int:
    return _RANKING.index(result.Severity(finding.severity))


def _problems(shown_run: ShownRun) -> Iterator[view.Problem]:
    for captured in shown_run.run.captures:
        if captured.status != "ok":
            yield problem(shown_run, captured)
    for job in shown_run.run.failed_jobs:
        yield failed_job(shown_run, job)


def _remarks(shown_runs: Iterable[ShownRun]) -> Iterator[view.Remark]:
    """Yield warnings and notes, each text once with the runs and files it concerns."""
    remarks: dict[tuple[str, str], dict[ShownRun, list[str]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for shown_run in shown_runs:
        for captured in shown_run.run.captures:
            for text in (*captured.warnings, *captured.conditions.get("warnings", ())):
                remarks[captured.tool, text][shown_run].append(captured.folder)
        for conversion in shown_run.run.conversions:
            for note in conversion.notes:
                remarks[conversion.tool, note.text][shown_run].append(note.file)
    for (tool, text), found in remarks.items():
        about = tuple(
            view.RunFiles(run=shown_run.anchor_link, files=tuple(files))
            for shown_run, files in found.items()
        )
        yield view.Remark(tool=tool, text=text, runs=about)


def _statuses(run: result_tree.Run) -> Iterator[Item]:
    """Yield the outcome of each tool's captures: their number as value, the status as unit."""
    for tool in run.selected.tools:
        mine = [capture.status for capture in run.captures if capture.tool == tool]
        bad = [status for status in mine if status != "ok"]
        if not mine:
            yield Item(label=tool, value="not captured", unit="missing")
        elif bad:
            text = f"{len(bad)} of {len(mine)} {' and '.join(dict.fromkeys(bad))}"
            yield Item(label=tool, value=text, unit=bad[0])
        else:
            yield Item(label=tool, value=f"{len(mine)} ok", unit="ok")
