"""Names that try to become code, in every place of the page that shows one."""

from urllib.parse import quote

import pytest

from profkit.analyze.step_timeline import analyze
from profkit.core.drawing import Drawing
from profkit.core.result import Abstention, Chart, Finding, Metric, Result, Severity, Table
from profkit.report.render import render
from profkit.testing import run as analyzed
from tests.recorded_ranks import tables
from tests.report.test_browser import opened, show
from tests.report.test_build_view import arranged, run

ACT = "window.ran=1"
PAYLOADS = (
    f"<script>{ACT}</script>",
    f"</script><script>{ACT}</script>",
    f"<img src=x onerror={ACT}>",
    f"<svg onload={ACT}>",
    f"<svg><script>{ACT}</script></svg>",
    f"<svg><animate onbegin={ACT} attributeName=x>",
    f"<iframe srcdoc='<script>parent.{ACT}</script>'>",
    f"<iframe src=javascript:parent.{ACT}>",
    "<object data=https://example.org/a>",
    "<embed src=https://example.org/a>",
    "<link rel=stylesheet href=https://example.org/a.css>",
    "<base href=https://example.org/>",
    "<meta http-equiv=refresh content=0;url=https://example.org/>",
    "<form action=https://example.org/><input autofocus>",
    f"<details open ontoggle={ACT}>",
    f"<input autofocus onfocus={ACT}>",
    f"<a href=javascript:{ACT}>a</a>",
    f"javascript:{ACT}",
    f"data:text/html,<script>{ACT}</script>",
    f'"><img src=x onerror={ACT}>',
    f"' onmouseover='{ACT}",
    f'" onfocus="{ACT}" autofocus x="',
    f"${{{ACT}}}",
    f"{{{{constructor.constructor('{ACT}')()}}}}",
    f"`+({ACT})+`",
    f"\\u003cimg src=x onerror={ACT}\\u003e",
    f"&lt;img src=x onerror={ACT}&gt;",
    f"<!--<script>{ACT}//-->",
    f"\u2028{ACT}\u2029//",
    "<style>*{background:url(https://example.org/a)}</style>",
    f"<math><mtext><table><mglyph><style><!--</style><img title='--><img src=x onerror={ACT}>'>",
    "__proto__",
)
ALL = " ".join(PAYLOADS)
FOREIGN = "script, iframe, object, embed, img, link, base, meta, form, style, math, svg a, [onload]"


def hostile() -> Result:
    rows = tuple((name, index + 1) for index, name in enumerate(PAYLOADS))
    finding = Finding(
        severity=Severity.BAD, message=ALL, metric=ALL, value=1, unit="share",
        evidence={ALL[:40]: ALL}, advice=f"`{ALL}`",
    )  # fmt: skip
    codes = list(range(len(PAYLOADS)))
    keys = dict.fromkeys(("cause", "module", "operator", "kernel", "library", "file"), codes)
    costs = keys | {"calls_per_step": codes, "ms_per_step": codes, "texts": list(PAYLOADS)}
    drawing = Drawing(
        kind="costs", title=ALL, data={"ranks": [0], "ranks_recorded": 1, "first": costs}
    )
    side = {"of": ALL, "names": list(PAYLOADS)}
    layer = {"title": ALL, "group": ALL, "unit": "us", "columns": len(PAYLOADS)}
    cells = [index % 7 for index in range(len(PAYLOADS) ** 2)]
    layers = [layer | {"values": cells}, layer | {"title": "plain", "values": cells}]
    map_data = {"rows": side, "columns": side, "layers": layers}
    unknown = Drawing(kind=ALL, title=ALL, data={ALL: ALL})
    return Result(
        findings=(finding,),
        metrics={"time": Metric(value=1, unit="ns", title=ALL)},
        tables={"rows": Table(title=ALL, columns=("name", "time_ns"), rows=rows, note=ALL)},
        charts=(
            Chart(kind="bar", title=ALL, table="rows", x="name", y=("time_ns",), horizontal=True),
            Chart(kind="sunburst", title=ALL, table="rows", x="name", y=("time_ns",)),
        ),
        drawings={
            "costs": drawing, "unknown": unknown,
            "map": Drawing(kind="matrix", title=ALL, data=map_data),
            **analyzed(analyze, **tables(ALL)).drawings,
        },
        abstentions=(Abstention(what=ALL, reason=ALL),),
    )  # fmt: skip


@pytest.fixture(scope="module")
def watched(chromium, tmp_path_factory):
    path = tmp_path_factory.mktemp("hostile") / "report.html"
    runs = (run("a", hostile(), model=ALL), run("b", hostile(), model="plain"))
    path.write_text(render(arranged(*runs)), encoding="utf-8")
    found = opened(chromium, path, 1400)
    found.page.on("dialog", lambda dialog: found.complaints.append(dialog.message))
    yield found
    found.page.context.close()


def test_no_name_runs_or_loads_anything_in_any_view(watched):
    page = watched.page
    views = ("#/overview", "#/timeline", "#/compare", "#/data")
    assert page.locator("#tabs a").evaluate_all("tabs => tabs.map(tab => tab.hash)") == list(views)
    for view in views:
        show(page, view)
        assert page.locator("main").locator(FOREIGN).count() == 0, view
    assert page.locator("h1, title, select").locator(FOREIGN).count() == 0
    assert page.evaluate("window.ran") is None
    assert len(watched.requests) == 1
    assert watched.complaints == []


def test_nor_in_the_drawer_the_search_and_what_is_copied(watched):
    page = show(watched.page, "#/timeline")
    cells = page.locator("main .table .thing")
    names = cells.all_inner_texts()
    assert len(names) == 10
    for name in PAYLOADS:
        page.evaluate("hash => { location.hash = hash; }", f"#/timeline?details.of={quote(name)}")
        drawer = page.locator("#details")
        drawer.locator("h2").filter(has_text=name[:6].strip()).wait_for()
        assert drawer.locator(FOREIGN).count() == 0, name
        assert drawer.locator("h2").text_content() == name
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.get_by_label("Search in this report").fill("window.ran")
    assert page.locator("#search-hits a").count() > 10
    assert page.locator("#search-hits").locator(FOREIGN).count() == 0
    page.keyboard.press("Escape")
    assert page.evaluate("window.ran") is None
    assert len(watched.requests) == 1
    assert watched.complaints == []


def test_nor_in_the_map_the_evidence_and_the_chosen_slice(watched):
    watched.page.reload()
    page = show(watched.page, "#/timeline")
    svg = page.locator("#drawing-map svg")
    svg.focus()
    svg.press("ArrowRight")
    pointed = page.locator("#drawing-map .pointed")
    pointed.wait_for()
    assert "onerror" in pointed.inner_text() or "<script>" in pointed.inner_text()
    page.locator(".timeline-canvas").focus()
    page.keyboard.press(".")
    page.locator(".timeline-panel h4").wait_for()
    page.get_by_role("button", name="Show evidence").first.click()
    page.locator(".evidence-bar").wait_for()
    assert page.locator("main").locator(FOREIGN.replace("img, ", "")).count() == 0
    assert page.evaluate("window.ran") is None
    assert len(set(watched.requests)) == 1
    assert watched.complaints == []
