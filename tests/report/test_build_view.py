from dataclasses import replace

import msgspec
import pytest

from profkit.core.errors import InputError
from profkit.core.result import (
    Abstention,
    Chart,
    Document,
    Finding,
    Interval,
    Metric,
    Provenance,
    Result,
    Severity,
    Table,
)
from profkit.core.step_time import BASELINE, step_time_title
from profkit.report import result_tree, view
from profkit.report.build_view import Page, report_view
from profkit.report.kept_comparison import with_comparison
from profkit.report.labelled_values import Item, Number
from profkit.report.settings import PageSize, Settings

PAGE = Page(folder="results", made="2026-11-20 20:00 UTC", version="0.1.0", code_bytes=0)
TOGETHER = result_tree.Run(selected=result_tree.Selection(title="", runs=()).across)
KEYS = Settings(key_metrics=("steps.step_time_ns",))


def document(analysis: str, result: Result) -> Document:
    provenance = Provenance(settings={}, modules={}, packages={}, inputs={})
    return Document(
        analysis=analysis,
        title=analysis.title(),
        summary="What it is.\n\nHow to read\nit.",
        result=result,
        provenance=provenance,
    )


def run(name: str, result: Result | None = None, **differs: object) -> result_tree.Run:
    return result_tree.Run(
        selected=result_tree.Selected(
            run=name,
            folder=f"results/runs/{name}",
            tools={"baseline": {}},
            analyses=("steps",),
            differs=differs,
        ),
        documents={} if result is None else {"steps": document("steps", result)},
    )


def arranged(*runs: result_tree.Run, settings: Settings = KEYS) -> view.Report:
    selection = result_tree.Selection(title="A title", runs=tuple(run.selected for run in runs))
    return report_view(selection, runs, TOGETHER, settings, PAGE)


def timed(value: float) -> Result:
    metric = Metric(value=value, unit="ns", title="Step time", better="lower")
    return Result(metrics={"step_time_ns": metric})


def found(severity: Severity, message: str, metric: str = "idle") -> Finding:
    return Finding(severity=severity, message=message, metric=metric, value=1, unit="share")


def test_runs_are_compared_by_what_varies_and_by_their_key_numbers():
    view_of = arranged(
        run("a", timed(2e6), batch=1), run("b", timed(3e6), batch=2), run("c", batch=4)
    )
    assert view_of.overview.tables[0] == view.Table(
        title="Runs by their key numbers",
        columns=(
            view.Column(label="Run"),
            view.Column(label="batch", unit="id"),
            view.Column(label="Step time", unit="ns"),
            view.Column(label="Captures"),
        ),
        rows=(("a", 1, 2e6, "none"), ("b", 2, 3e6, "none"), ("c", 4, None, "none")),
        total=3,
        links=("#run-1", "#run-2", "#run-3"),
        reasons={"2,2": "there is no result of the analysis steps"},
    )


def test_of_a_comparison_that_was_asked_for_the_page_knows_the_answer():
    chosen = result_tree.Selection(title="", runs=(run("a").selected, run("b").selected))
    slower = Result(findings=(found(Severity.INFO, "slower, +10%"),))
    across = result_tree.Run(selected=chosen.across, documents={"sweep": document("sweep", slower)})
    across = replace(across, selected=replace(across.selected, analyses=("sweep",)))
    across = with_comparison(across, {"section": msgspec.to_builtins(slower)})
    shown = report_view(chosen, (run("a"), run("b")), across, KEYS, PAGE).across.sections
    assert [(one.title, one.is_answer) for one in shown] == [
        ("Comparison in pairs", True),
        ("Sweep", False),
    ]
    assert shown[0].details.startswith("Values are geometric means over the pairs")


def test_the_page_opens_on_the_run_that_the_terminal_tells_of_the_fastest_of_a_sweep():
    two = (run("a", batch=1), run("b", batch=2))
    chosen = result_tree.Selection(title="", runs=tuple(one.selected for one in two))
    rows = (("a", 0.8), ("b", 1.0))
    columns = ("run", "of_fastest_share")
    swept = Result(tables={"runs": Table(title="Runs", columns=columns, rows=rows)})
    across = result_tree.Run(selected=chosen.across, documents={"sweep": document("sweep", swept)})
    assert report_view(chosen, two, across, KEYS, PAGE).opens == 1
    assert report_view(chosen, two, TOGETHER, KEYS, PAGE).opens == 0


def test_times_with_and_without_a_profiler_stand_in_columns_of_their_own():
    traced = timed(9e6).metrics["step_time_ns"]
    traced = Result(metrics={"step_time_ns": replace(traced, title="Step time, with a profiler")})
    overview = arranged(run("a", timed(2e6), batch=1), run("b", traced, batch=2)).overview
    table = overview.tables[0]
    assert [column.label for column in table.columns[2:4]] == [
        "Step time",
        "Step time, with a profiler",
    ]
    assert [row[2:4] for row in table.rows] == [(2e6, None), (None, 9e6)]
    assert table.reasons["1,2"] == "it was measured as: Step time, with a profiler"
    assert [chart.title for chart in overview.charts] == [
        "Step time, by batch",
        "Step time, with a profiler, by batch",
    ]


def test_runs_are_compared_by_their_means_where_steps_of_one_are_uneven():
    def unprofiled(median, means, *, is_mean):
        title = step_time_title(BASELINE, is_mean=is_mean)
        metric = replace(timed(median).metrics["step_time_ns"], title=title)
        rows = tuple(enumerate(means))
        table = Table(title="", columns=("repeat", "mean_ns"), rows=rows)
        return Result(metrics={"step_time_ns": metric}, tables={"per_repeat": table})

    even = unprofiled(2e6, [2.1e6, 2.3e6], is_mean=False)
    uneven = unprofiled(5e6, [5e6, 5e6], is_mean=True)
    table = arranged(run("a", even, batch=1), run("b", uneven, batch=2)).overview.tables[0]
    assert [column.label for column in table.columns[2:-1]] == ["Unprofiled step time, mean"]
    assert [row[2] for row in table.rows] == [2.2e6, 5e6]
    both = arranged(run("a", even, batch=1), run("b", even, batch=2)).overview.tables[0]
    assert [row[2] for row in both.rows] == [2e6, 2e6]


@pytest.mark.parametrize(
    ("others", "best"), [((2.5e6, 3.5e6), ((0, 2),)), ((1.5e6, 3.5e6), ()), (None, ())]
)
def test_a_best_number_is_marked_only_where_no_other_interval_meets_its_own(others, best):
    def about(value, ends):
        metric = timed(value).metrics["step_time_ns"]
        known = ends and Interval(low=ends[0], high=ends[1], confidence=0.95)
        return Result(metrics={"step_time_ns": replace(metric, interval=known)})

    view_of = arranged(
        run("a", about(2e6, (1.9e6, 2.1e6)), batch=1), run("b", about(3e6, others), batch=2)
    )
    assert view_of.overview.tables[0].best == best


def test_what_no_run_knows_is_looked_for_in_each_run_and_not_in_all_for_each():
    asked: list[str] = []

    class Documents(dict[str, Document]):
        def get(self, key, default=None):
            asked.append(key)
            return super().get(key, default)

    def looks(count):
        asked.clear()
        runs = [run(f"r{number}", Result(), batch=number) for number in range(count)]
        arranged(*(replace(one, documents=Documents(one.documents)) for one in runs))
        return len(asked)

    assert looks(40) <= 2 * looks(20)


def test_key_numbers_are_drawn_against_the_swept_number_with_a_series_for_the_rest():
    drawn = arranged(
        run("a", timed(2e6), model="gpt", batch=1),
        run("b", timed(3e6), model="gpt", batch=8),
        run("c", timed(4e6), model="cnn", batch=1),
    ).overview
    assert drawn.charts == (
        view.Chart(
            title="Step time, by batch", kind="line", table=2, x=0, y=(2,), color=1, log=("x",)
        ),
    )
    assert drawn.tables[2].rows == ((1, "gpt", 2e6), (8, "gpt", 3e6), (1, "cnn", 4e6))


def test_a_seed_is_a_series_and_not_the_axis():
    drawn = arranged(
        *(
            run(f"{seed}{size}", timed(2e6), seed=seed, batch=size)
            for seed in (1, 2, 3)
            for size in (1, 2)
        )
    ).overview
    assert drawn.tables[2].columns[0] == view.Column(label="batch", unit="id")
    assert drawn.tables[2].rows[0] == (1, "seed 1", 2e6)


def test_key_numbers_are_bars_where_only_names_vary():
    drawn = arranged(run("a", timed(2e6), model="gpt"), run("b", timed(3e6), model="cnn")).overview
    assert drawn.charts == (
        view.Chart(title="Step time, by model", kind="bar", table=2, x=0, y=(2,), horizontal=True),
    )
    assert drawn.tables[2].rows == (("gpt", "", 2e6), ("cnn", "", 3e6))


def test_a_key_number_that_no_run_has_is_not_drawn():
    drawn = arranged(run("a", Result(), model="gpt"), run("b", Result(), model="cnn")).overview
    assert drawn.charts == ()


def test_without_a_title_the_page_is_called_after_what_varies():
    def title(*runs: result_tree.Run) -> str:
        selection = result_tree.Selection(title="", runs=tuple(run.selected for run in runs))
        return report_view(selection, runs, TOGETHER, KEYS, PAGE).title

    assert title(run("a")) == "Profile of a"
    assert title(run("a", batch=1, model="x"), run("b", batch=2)) == "2 runs by batch and model"


def test_a_value_that_names_its_setting_is_a_label_alone():
    runs = [run("a", zero="none", batch=1), run("b", zero="zero2", batch=1)]
    assert [shown.label for shown in arranged(*runs).runs] == [
        "zero none, batch 1",
        "zero2, batch 1",
    ]


def test_one_run_is_compared_with_nothing():
    assert arranged(run("a", timed(2e6))).overview == view.Drawn()


def test_an_abstention_is_the_reason_why_a_key_number_is_not_known():
    shown = arranged(run("a", Result.abstain("step times", "no step was recorded"))).runs[0]
    reason = "no step was recorded"
    assert shown.numbers == (Number(title="step times", value=None, unit="", reason=reason),)
    # It is out of the way of the sections that tell something.
    assert shown.topics == ()
    assert shown.silent[0].abstentions == (
        Abstention(what="step times", reason="no step was recorded"),
    )


def test_findings_are_ranked_over_all_runs_and_the_same_ones_put_together():
    first = Result(findings=(found(Severity.INFO, "a info"), found(Severity.WARN, "a second")))
    second = Result(findings=(found(Severity.BAD, "b bad"),))
    groups = arranged(run("a", first, batch=1), run("b", second, batch=2)).findings
    assert [
        [group.first.message, *(other.message for other in group.others)] for group in groups
    ] == [["b bad", "a info"], ["a second"]]
    assert groups[0].first == view.Finding(
        severity="bad",
        message="b bad",
        number=Number(title="idle", value=1, unit="share"),
        evidence=(),
        advice="",
        run=view.Link(text="batch 2", href="#run-2"),
        section=view.Link(text="Steps", href="#run-2-1"),
    )


def test_an_analysis_without_a_result_says_so():
    section = arranged(run("a")).runs[0].topics[0].sections[0]
    assert section.abstentions == (
        Abstention(
            what="all of this analysis",
            reason="analyze/steps.json was not there when this page was made",
        ),
    )


def test_tables_and_charts_are_placed_by_position_and_keep_raw_values():
    table = Table(title="Rows", columns=("name", "total_ns"), rows=(("x", 1), ("y", 2**60)))
    chart = Chart(kind="bar", title="Bars", table="rows", x="name", y=("total_ns",))
    shown = arranged(run("a", Result(tables={"rows": table}, charts=(chart,)))).runs[0]
    assert shown.drawn == view.Drawn(
        tables=(
            view.Table(
                title="Rows",
                name="steps-rows",
                columns=(view.Column(label="Name"), view.Column(label="Total", unit="ns")),
                rows=(("x", 1), ("y", "1152921504606846976")),
                total=2,
            ),
        ),
        charts=(view.Chart(title="Bars", kind="bar", table=0, x=0, y=(1,)),),
    )
    assert shown.topics[0].sections[0].tables == (0,)
    assert shown.topics[0].sections[0].charts == (0,)


@pytest.mark.parametrize(
    ("kind", "color", "rows", "is_drawn"),
    [
        ("bar", "", [("a", "x", 1)], False),
        ("bar", "", [("a", "x", 1), ("b", "x", 2)], True),
        ("bar", "series", [("a", "x", 1), ("a", "y", 2)], True),
        ("bar", "", [("a", "x", 1), (None, "x", 2)], False),
        ("line", "series", [("a", "x", 1), ("a", "y", 2)], False),
        ("stacked_bar", "series", [("a", "x", 1), ("a", "y", 2)], False),
        ("line", "", [("a", "x", 1), ("b", "x", None)], False),
        ("box", "", [("a", "x", 1), ("a", "x", 2)], True),
        ("scatter", "", [("a", "x", 1)], False),
        ("waterfall", "", [("a", "x", 1)], True),
        ("waterfall", "", [], False),
    ],
)
def test_a_chart_of_one_place_is_left_to_its_table(kind, color, rows, is_drawn):
    table = Table(title="Rows", columns=("name", "series", "time_ns"), rows=tuple(rows))
    chart = Chart(kind=kind, title="T", table="rows", x="name", y=("time_ns",), color=color)
    shown = arranged(run("a", Result(tables={"rows": table}, charts=(chart,)))).runs[0]
    assert len(shown.drawn.charts) == is_drawn
    assert len(shown.drawn.tables) == 1


def test_ranks_have_the_names_of_their_files_in_tables_charts_and_evidence():
    columns = ("rank", "slowest_rank", "calls_per_rank", "first_step")
    rows = ((0, 1, 1, 0), (1, 2, 0, 3), (None, -1, 1, -1))
    finding = replace(found(Severity.WARN, "slow"), evidence={"rank": 1, "step": 1})
    result = Result(
        tables={"by_rank": Table(title="Ranks", columns=columns, rows=rows)}, findings=(finding,)
    )
    capture = result_tree.Captured(
        tool="baseline",
        repeat=0,
        attempt=1,
        status="ok",
        ranks=("rank0_dp0_tp0_pp0", "rank1_dp0_tp1_pp0"),
    )
    # A rank that was killed keeps the name that it began with.
    failed = replace(capture, repeat=1, status="error", ranks=("rank1_dp1_tp0_pp0",))
    shown = arranged(replace(run("a", result), captures=(capture, failed))).runs[0]
    assert shown.drawn.tables[0].rows == (
        ("rank0_dp0_tp0_pp0", "rank1_dp0_tp1_pp0", 1, 0),
        ("rank1_dp0_tp1_pp0", 2, 0, 3),
        (None, -1, 1, None),
    )
    assert shown.topics[0].sections[0].findings[0].evidence == (
        Item(label="Rank", value="rank1_dp0_tp1_pp0", unit="id"),
        Item(label="Step", value=1, unit="id"),
    )


def test_ranks_of_imported_files_are_numbers_as_nobody_said_their_coordinates():
    capture = result_tree.Captured(
        tool="torch_profiler", repeat=0, attempt=1, status="ok", ranks=("rank3_dp1_tp1_pp0",)
    )
    known = replace(run("a", Result()), captures=(capture,))
    assert known.rank_names == {3: "rank3_dp1_tp1_pp0"}
    imported = replace(known, manifest={"behaviour": {"imported": "trace"}})
    assert imported.rank_names == {}


def test_ranks_that_are_data_parallel_alone_are_numbers_in_all_views():
    capture = result_tree.Captured(
        tool="baseline",
        repeat=0,
        attempt=1,
        status="ok",
        ranks=("rank0_dp0_tp0_pp0", "rank1_dp1_tp0_pp0"),
    )
    assert replace(run("a", Result()), captures=(capture,)).rank_names == {}


def test_a_table_that_does_not_fit_is_cut_and_its_chart_says_so():
    rows = tuple((f"kernel {index}", index) for index in range(1000))
    table = Table(title="Rows", columns=("name", "total_ns"), rows=rows)
    chart = Chart(kind="bar", title="Bars", table="rows", x="name", y=("total_ns",))
    small = replace(KEYS, page_bytes=(PageSize(runs=1, bytes=7500),))
    shown = arranged(run("a", Result(tables={"rows": table}, charts=(chart,))), settings=small)
    kept = shown.runs[0].drawn.tables[0]
    assert (kept.total, kept.rows) == (1000, rows[: len(kept.rows)])
    assert 100 < len(kept.rows) < 300
    assert (
        shown.runs[0].drawn.charts[0].note
        == f"Drawn from the first {len(kept.rows)} of 1,000 rows."
    )


def test_a_chart_of_a_column_that_is_not_there_is_a_readable_error():
    table = Table(title="Rows", columns=("name",), rows=())
    chart = Chart(kind="bar", title="Bars", table="rows", x="name", y=("total_ns",))
    with pytest.raises(InputError, match="the chart 'Bars' draws total_ns, which table 'rows'"):
        arranged(run("a", Result(tables={"rows": table}, charts=(chart,))))


def test_a_chart_without_data_is_not_drawn():
    table = Table(title="Rows", columns=("name", "total_ns"), rows=())
    chart = Chart(kind="bar", title="Bars", table="rows", x="name", y=("total_ns",))
    shown = arranged(run("a", Result(tables={"rows": table}, charts=(chart,)))).runs[0]
    assert (shown.drawn.charts, shown.topics[0].sections[0].tables) == ((), (0,))


def test_a_failed_capture_is_a_problem_with_its_reason_and_the_end_of_its_log():
    failed = result_tree.Captured(
        tool="baseline",
        repeat=1,
        status="oom",
        folder="capture/baseline/rep1",
        reason="CUDA out of memory",
        command=("python", "a b.py"),
        exit_code=1,
        log_tail=("one", "two"),
    )
    shown = arranged(replace(run("a"), captures=(failed,)))
    assert shown.problems == (
        view.Problem(
            run=view.Link(text="a", href="#run-1"),
            tool="baseline",
            repeat=1,
            attempt=1,
            status="oom",
            reason="CUDA out of memory",
            exit_code=1,
            command="python 'a b.py'",
            log_tail="one\ntwo",
            folder=view.Link(text="capture/baseline/rep1", href="runs/a/capture/baseline/rep1"),
        ),
    )
    assert shown.runs[0].statuses == (Item(label="baseline", value="1 of 1 oom", unit="oom"),)


def test_an_analysis_that_failed_is_a_problem_and_no_finding():
    job = result_tree.FailedJob(
        stage="analysis",
        name="steps",
        status="failed",
        reason="KeyError: 'x'",
        attempt=2,
        log="logs/analyze/steps.log",
    )
    made = run("a", Result())
    documents = {
        name: replace(document, status="failed", reason="KeyError: 'x'", result=Result())
        for name, document in made.documents.items()
    }
    shown = arranged(replace(made, documents=documents, failed_jobs=(job,)))
    assert shown.problems == (
        view.Problem(
            run=view.Link(text="a", href="#run-1"),
            tool="steps",
            attempt=2,
            status="failed",
            reason="KeyError: 'x'",
            folder=view.Link(text="logs/analyze/steps.log", href="runs/a/logs/analyze/steps.log"),
            stage="analysis",
        ),
    )
    reasons = [known.reason for known in shown.runs[0].topics[0].sections[0].abstentions]
    assert reasons == ["the analysis failed: KeyError: 'x'"]


def test_the_same_remark_of_several_runs_is_made_once():
    noted = result_tree.Conversion(
        tool="baseline",
        notes=(result_tree.Note(file="f1", text="cut"), result_tree.Note(file="f2", text="cut")),
    )
    shown = arranged(
        replace(run("a", batch=1), conversions=(noted,)),
        replace(run("b", batch=2), conversions=(noted,)),
    )
    assert shown.remarks == (
        view.Remark(
            tool="baseline",
            text="cut",
            runs=(
                view.RunFiles(run=view.Link(text="batch 1", href="#run-1"), files=("f1", "f2")),
                view.RunFiles(run=view.Link(text="batch 2", href="#run-2"), files=("f1", "f2")),
            ),
        ),
    )


def test_what_the_machine_did_during_captures_is_remarked_on_once():
    busy = {"cpu": {}, "warnings": ["other processes took more than 10% of the CPUs' time"]}
    captured = tuple(
        result_tree.Captured(
            tool="baseline", repeat=repeat, status="ok", folder=f"rep{repeat}", conditions=busy
        )
        for repeat in range(2)
    )
    (remark,) = arranged(replace(run("a"), captures=captured)).remarks
    assert remark.text == "other processes took more than 10% of the CPUs' time"
    assert [files_of_run.files for files_of_run in remark.runs] == [("rep0", "rep1")]


def test_names_of_files_become_quoted_relative_links_and_never_schemes():
    files = (
        result_tree.File(path="javascript:alert(1)", size_bytes=1),
        result_tree.File(path='convert/baseline/"><b>.svg', size_bytes=2),
        result_tree.File(path="convert/of_another_tool/x.svg", size_bytes=3),
    )
    hostile = replace(run("a"), files=files)
    odd = replace(hostile, selected=replace(hostile.selected, folder="results"))
    links = [file.link.href for folder in arranged(odd).runs[0].folders for file in folder.files]
    assert links == ["convert/baseline/%22%3E%3Cb%3E.svg", "javascript%3Aalert%281%29"]


def test_files_beyond_the_limit_are_counted():
    files = tuple(result_tree.File(path=f"logs/{index}.log", size_bytes=1) for index in range(5))
    settings = replace(KEYS, max_files_per_folder=2)
    folder = arranged(replace(run("a"), files=files), settings=settings).runs[0].folders[0]
    assert (len(folder.files), folder.hidden) == (2, 3)


def test_what_is_about_all_runs_has_a_part_of_its_own_and_its_findings_count():
    result = Result(
        findings=(found(Severity.WARN, "b is slower than a"),),
        tables={"ops": Table(title="Operators", columns=("name",), rows=(("mm",),))},
    )
    selected = result_tree.Selected(
        run="all runs", folder="results/selection", analyses=("trace_diff", "gone")
    )
    together = result_tree.Run(
        selected=selected, documents={"trace_diff": document("trace_diff", result)}
    )
    runs = (run("a", batch=1), run("b", batch=2))
    selection = result_tree.Selection(
        title="", runs=tuple(run.selected for run in runs), across=selected
    )
    shown = report_view(selection, runs, together, KEYS, PAGE)
    first, second = shown.across.sections
    assert (first.anchor, first.tables, len(shown.across.drawn.tables)) == ("across-1", (0,), 1)
    assert first.file == view.Link(
        text="analyze/trace_diff.json", href="selection/analyze/trace_diff.json"
    )
    assert second.abstentions[0].what == "all of this analysis"
    assert shown.findings[0].first.run == view.Link(text="all runs", href="#across")


def test_a_single_run_has_what_its_topics_name_of_the_results_across_runs():
    tables = {"within": Table(title="From start to end", columns=("line",), rows=(("a",),))}
    selected = result_tree.Selected(
        run="all runs", folder="results/selection", analyses=("snapshot_diff", "trace_diff")
    )
    documents = {
        name: document(name, Result(tables=tables)) for name in ("snapshot_diff", "trace_diff")
    }
    together = result_tree.Run(selected=selected, documents=documents)
    one, other = run("a", batch=1), run("b", batch=2)

    def titles(*runs):
        selection = result_tree.Selection(
            title="", runs=tuple(run.selected for run in runs), across=selected
        )
        shown = report_view(selection, runs, together, Settings(), PAGE)
        memory = [topic for topic in shown.runs[0].topics if topic.name == "memory"]
        own = [section for topic in memory for section in topic.sections]
        return [section.file.href for section in own], len(shown.across.sections)

    assert titles(one) == (["selection/analyze/snapshot_diff.json"], 1)
    assert titles(one, other) == ([], 2)


def test_what_is_about_all_runs_calls_them_as_the_page_does():
    names = ("gpt-b1-0a1b2c3d", "gpt-b2-4e5f6a7b")
    result = Result(
        findings=(found(Severity.INFO, f"{names[1]} holds more than {names[0]}; not-{names[0]}"),),
        tables={"runs": Table(title=f"Over {names[0]}", columns=("run",), rows=((names[1],),))},
    )
    across = result_tree.Selected(run="all runs", folder="results/selection", analyses=("diff",))
    together = result_tree.Run(selected=across, documents={"diff": document("diff", result)})
    runs = tuple(run(name, batch=batch) for batch, name in enumerate(names, start=1))
    selection = result_tree.Selection(
        title="", runs=tuple(run.selected for run in runs), across=across
    )
    (section,) = report_view(selection, runs, together, KEYS, PAGE).across.sections
    assert section.findings[0].message == f"batch 2 holds more than batch 1; not-{names[0]}"
    (shown,) = report_view(selection, runs, together, KEYS, PAGE).across.drawn.tables
    assert (shown.title, shown.rows) == ("Over batch 1", (("batch 2",),))
