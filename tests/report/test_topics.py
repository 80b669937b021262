"""Analyses of one subject under one heading, with what each rank left to open."""

from dataclasses import replace
from pathlib import Path

import pytest

from profkit.core.result import Chart, Document, Metric, Provenance, Result, Table, read, write
from profkit.report import result_tree, view
from profkit.report.__main__ import main
from profkit.report.build_view import Page, report_view
from profkit.report.settings import Settings
from tests.report.demo import build

RANKS = ("rank0_dp0_tp0_pp0", "rank10_dp10_tp0_pp0", "rank2_dp2_tp0_pp0")

KNOWN = Result(metrics={"time_ns": Metric(value=1, unit="ns", title="Time")})


def run(*analyses, files=(), tools=("memory_snapshot",)):
    provenance = Provenance(settings={}, modules={}, packages={}, inputs={})
    return result_tree.Run(
        selected=result_tree.Selected(
            run="a", folder="results/runs/a", tools={name: {} for name in tools}, analyses=analyses
        ),
        documents={
            name: Document(
                analysis=name, title=name, summary="", result=KNOWN, provenance=provenance
            )
            for name in analyses
        },
        files=tuple(result_tree.File(path=path, size_bytes=1) for path in files),
    )


def arranged(shown):
    selection = result_tree.Selection(title="", runs=(shown.selected,))
    page = Page(folder="results", made="", version="", code_bytes=0)
    return report_view(selection, [shown], replace(shown, documents={}), Settings(), page).runs[0]


def test_analyses_of_a_view_stand_in_the_order_of_the_settings_and_others_in_compute():
    shown = arranged(run("fragmentation", "steps", "of_a_plugin", "memory_model", "memory_peak"))
    timeline, compute, memory = shown.topics
    assert [section.title for section in timeline.sections] == ["steps"]
    assert [section.title for section in compute.sections] == ["of_a_plugin"]
    assert (memory.title, memory.name, memory.anchor) == ("Memory", "memory", "run-1-memory")
    titles = [section.title for section in memory.sections]
    assert titles == ["memory_peak", "memory_model", "fragmentation"]


def test_files_of_further_settings_of_a_tool_say_which():
    tools = ("memory_snapshot", "memory_snapshot@stacks-all")
    files = [f"convert/{tool}/{RANKS[0]}.rep0.a.svg" for tool in tools]
    (memory,) = arranged(run(files=files, tools=tools)).topics
    (rank,) = memory.opened
    assert [link.text for link in rank.links] == ["a.svg", "a.svg (stacks-all)"]


def test_what_only_abstains_stands_apart_but_its_files_stay():
    shown = run("memory_peak", "steps", files=[f"convert/memory_snapshot/{RANKS[0]}.rep0.a.svg"])
    nothing = Result.abstain("the peak", "nothing was allocated")
    silent = replace(shown.documents["memory_peak"], result=nothing)
    documents = {**shown.documents, "memory_peak": silent}
    page = arranged(replace(shown, documents=documents))
    assert [section.title for section in page.silent] == ["memory_peak"]
    timeline, memory = page.topics
    assert [section.title for section in timeline.sections] == ["steps"]
    assert (memory.sections, len(memory.opened)) == ((), 1)
    (timeline,) = arranged(replace(shown, documents=documents, files=())).topics
    assert timeline.name == "timeline"


def test_files_to_open_make_a_view_without_an_analysis():
    shown = arranged(run("steps", files=[f"convert/memory_snapshot/{RANKS[0]}.x"]))
    assert [topic.name for topic in shown.topics] == ["timeline", "memory"]
    assert [topic.name for topic in arranged(run("steps")).topics] == ["timeline"]


def test_what_each_rank_left_is_linked_by_rank_and_repeat():
    files = [f"convert/memory_snapshot/{rank}.rep0.memory.svg" for rank in RANKS]
    files += [
        f"convert/memory_snapshot/{RANKS[0]}.mine.rep1.timeline.html",
        f"convert/memory_layers/memory_trace/{RANKS[0]}/memory.log",
        f"convert/memory_layers/memory_trace/{RANKS[0]}.rep1/memory.log",
        f"convert/py_spy/{RANKS[0]}.rep0.svg",
        f"tables/memory_snapshot/{RANKS[0]}.parquet",
    ]
    shown = arranged(run("memory_peak", files=files, tools=("memory_snapshot", "memory_layers")))
    folder = "runs/a/convert"

    def row(rank, repeat, **links):
        shown = tuple(view.Link(text=name, href=f"{folder}/{path}") for name, path in links.items())
        return view.RankFiles(rank=rank, repeat=repeat, links=shown)

    def svg(rank):
        return {"memory.svg": f"memory_snapshot/{rank}.rep0.memory.svg"}

    trace = f"memory_layers/memory_trace/{RANKS[0]}"
    page = f"memory_snapshot/{RANKS[0]}.mine.rep1.timeline.html"
    assert shown.topics[0].opened == (
        row(RANKS[0], 0, **svg(RANKS[0]), **{"memory.log": f"{trace}/memory.log"}),
        row(RANKS[0], 1, **{"timeline.html": page, "memory.log": f"{trace}.rep1/memory.log"}),
        row(RANKS[2], 0, **svg(RANKS[2])),
        row(RANKS[1], 0, **svg(RANKS[1])),
    )


@pytest.fixture
def of_two_ranks(tmp_path, monkeypatch) -> Path:
    """Write the report of a run in which an analysis draws one of two ranks."""
    selection = build(tmp_path, count=1, rows=10)
    (path,) = tmp_path.glob("results/runs/*/analyze/memory.json")
    rows = ((0, "a", 5), (0, "b", 5), (1, "a", 7), (1, "c", 1))
    table = Table(title="Parts", columns=("rank", "part", "live_bytes"), rows=rows)
    look = {"table": "parts", "x": "part", "y": ("live_bytes",), "choose": "rank"}
    charts = tuple(Chart(kind=kind, title=kind, **look) for kind in ("sunburst", "bar"))
    write(path, replace(read(path), result=Result(tables={"parts": table}, charts=charts)))
    monkeypatch.chdir(tmp_path)
    main(["--selection", str(selection), "--out", "results/report.html"])
    return tmp_path / "results" / "report.html"


def test_the_reader_chooses_a_rank_for_all_charts_of_an_analysis(chromium, of_two_ranks):
    messages = []
    page = chromium.new_page()
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.goto(f"{of_two_ranks.as_uri()}#/compute")
    page.evaluate("profkit.drawAll()")
    tree, bars = page.locator("figure.chart:has(select)").all()
    assert tree.locator(".tree-told").text_content() == "All: 10 B, 100.0% of all"
    bars.locator("select").select_option(index=1)
    assert tree.locator(".tree-told").text_content() == "All: 8 B, 100.0% of all"
    assert tree.locator("select").evaluate("select => select.selectedIndex") == 1
    page.close()
    assert messages == []
