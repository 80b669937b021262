"""The report in a real browser, opened from a file with the network blocked."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, Route

from tests.report.conftest import report_of
from tests.report.demo import HOSTILE, MARKUP

NOT_KNOWN = "\u2013"
GROUND = "getComputedStyle(document.body).backgroundColor"
INK = "getComputedStyle(document.querySelector('figure .axes')).fill"
PALE = "rgb(230, 235, 241)"
# All that is in view, or soon may be, is drawn.
AT_REST = """() => [...document.querySelectorAll('[data-waits]')].every(place => {
  const { top, bottom } = place.getBoundingClientRect();
  return !place.checkVisibility() || bottom < -400 || top > innerHeight + 400;
})"""
VIEWS = ("#/overview", "#/timeline", "#/compute", "#/compare", "#/data")
SETTLED = "() => document.querySelector('[data-waits]') === null"


@dataclass
class Watched:
    """A page, with what it asked for and what it complained about."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


def opened(browser: Browser, report: Path, width: int = 1600, scheme: str = "light") -> Watched:
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
    )
    page = context.new_page()
    watched = Watched(page)

    def blocked(route: Route) -> None:
        if route.request.url.startswith("file:"):
            route.continue_()
        else:
            route.abort()

    page.route("**/*", blocked)
    page.on("request", lambda request: watched.requests.append(request.url))
    page.on("console", lambda message: watched.complaints.append(message.text))
    page.on("pageerror", lambda error: watched.complaints.append(str(error)))
    page.goto(report.as_uri())
    return watched


GO = """(address) => new Promise((done) => {
  if (location.hash === address) { done(); return; }
  addEventListener("hashchange", () => done(), { once: true });
  location.hash = address;
})"""
"""Goes to an address: the page has heard of it once this is done, as it listens for longer."""


def show(page: Page, address: str) -> Page:
    """Go to `address` in the page and draw all that is there."""
    page.evaluate(GO, address)
    page.evaluate("profkit.drawAll()")
    page.wait_for_function(SETTLED)
    return page


BACK = """() => new Promise((done) => {
  addEventListener("hashchange", done, { once: true });
  history.back();
})"""


def go_back(page: Page) -> None:
    """Go back by one entry of what the page knows: on a busy machine the browser knows of less."""
    page.evaluate(BACK)


@pytest.fixture(scope="module")
def watched(chromium: Browser, demo_report: Path) -> Iterator[Watched]:
    found = opened(chromium, demo_report)
    yield found
    found.page.context.close()


OUTSIDE = """figures => figures.flatMap(figure => {
  const room = figure.getBoundingClientRect();
  return [...figure.querySelectorAll('.below')].filter(label => {
    const box = label.getBoundingClientRect();
    return box.left < room.left || box.right > room.right;
  }).map(label => label.textContent);
})"""


@pytest.mark.parametrize("view", VIEWS)
def test_no_name_below_a_chart_stands_out_of_it(watched, view):
    page = show(watched.page, view)
    assert page.locator("figure.chart").evaluate_all(OUTSIDE) == []


def test_the_places_of_bars_have_their_names(watched):
    page = show(watched.page, "#/compute")
    figure = page.locator("figure.chart", has_text="Held at each instant").first
    assert figure.locator(".below").last.text_content() == "step 2, optimizer"


def test_an_axis_of_multiples_has_no_prefix_beside_its_unit(watched):
    figure = show(watched.page, "#/compute").locator("figure.chart", has_text="logarithmic")
    (unit,) = figure.locator(".title-beside").all_text_contents()
    ticks = figure.locator(".beside").all_text_contents()
    assert unit == "Held (MiB)"
    assert {"0.001", "0.1", "10"} <= set(ticks), ticks


@pytest.fixture
def operators(watched: Watched) -> Locator:
    table = show(watched.page, "#/compute").locator("#run-1-3 .table").first
    every = table.get_by_role("button", name="Show all:")
    if every.inner_text() == "Show all":
        every.click()
    return table


def column(table: Locator, number: int) -> list[str]:
    return table.locator(f"tbody td:nth-child({number})").all_inner_texts()


def test_nothing_is_asked_for_but_the_page_and_nothing_complains(watched, demo_report):
    assert watched.requests == [demo_report.as_uri()]
    assert watched.complaints == []


def test_every_chart_of_every_view_is_drawn(watched):
    counts = []
    marks = "f => f.querySelectorAll('.marks > *, .piece').length"
    for view in VIEWS:
        figures = show(watched.page, view).locator("figure.chart")
        drawn = figures.evaluate_all(f"figures => figures.map({marks})")
        assert min(drawn, default=1) > 0, view
        counts.append(len(drawn))
    assert counts == [0, 3, 7, 3, 0]
    assert watched.complaints == []


def test_charts_wait_until_they_are_seen(chromium, demo_report):
    fresh = opened(chromium, demo_report)
    fresh.page.evaluate("location.hash = '#/compute'")
    fresh.page.wait_for_function(AT_REST)
    last = fresh.page.locator("figure.chart").last
    assert last.get_attribute("data-drawn") is None
    last.scroll_into_view_if_needed()
    fresh.page.wait_for_function(
        "() => [...document.querySelectorAll('figure.chart')].at(-1).dataset.drawn === 'yes'"
    )
    fresh.page.context.close()


def test_a_table_sorts_by_value_and_says_so(operators):
    head = operators.locator("th").nth(2)
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    assert column(operators, 3)[:3] == ["2.82 ms", "1.41 ms", "940 µs"]
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert column(operators, 3)[:2] == ["201 µs", "217 µs"]
    assert column(operators, 3)[-1] == NOT_KNOWN  # stays last


def test_a_table_filters_by_all_words(operators):
    operators.get_by_role("searchbox").fill("aten MM")
    operators.get_by_text("2 rows (of 15)").wait_for()
    assert sorted(column(operators, 1)) == ["aten::addmm", "aten::mm"]
    operators.get_by_role("searchbox").fill("no such operator")
    operators.get_by_text("No row has all of these words.").wait_for()
    operators.get_by_role("searchbox").fill("")
    operators.get_by_text("15 rows").wait_for()


def test_five_thousand_rows_are_paged_sorted_and_searched(watched):
    kernels = show(watched.page, "#/compute").locator("#run-1-4 .table").first
    assert kernels.locator("tbody tr").count() == 10
    kernels.get_by_role("button", name="Calls").click()
    assert column(kernels, 3)[0] == "5,011"
    kernels.get_by_role("button", name="Next page").click()
    assert column(kernels, 3)[0] == "5,001"
    kernels.get_by_role("searchbox").fill("add_4999")
    kernels.get_by_text("1 row (of 5,000)").wait_for()
    assert column(kernels, 1) == ["triton_poi_fused_add_4999"]


def test_values_are_human_and_the_raw_one_is_in_the_tooltip(operators):
    cell = operators.locator("tbody tr", has_text="aten::addmm").locator("td").nth(2)
    assert cell.inner_text() == "2.82 ms"
    assert cell.get_attribute("title") == "2821000 ns"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        ("0", "ns", "0 ns"),
        ("999", "ns", "999 ns"),
        ("1500", "ns", "1.50 µs"),
        ("61e9", "ns", "61.0 s"),
        ("1536", "bytes", "1.50 KiB"),
        ("24852520000", "bytes_per_s", "24.9 GB/s"),
        ("3.1e14", "flops_per_s", "310 TFLOP/s"),
        ("0.1234", "share", "12.3%"),
        ("0.00001", "share", "<0.01%"),
        ("12.5", "percent", "12.5%"),
        ("1.5", "ratio", "1.50\u00d7"),
        ("12345", "count", "12,345"),
        ("12345", "id", "12345"),
        ("2.5", "samples_per_s", "2.50 samples/s"),
        ("2.5", "per_s", "2.50/s"),
        ("null", "ns", "not known"),
    ],
)
def test_numbers_get_the_unit_that_suits_them(watched, value, unit, text):
    assert watched.page.evaluate(f"profkit.human({value}, '{unit}')") == text


def test_a_hostile_name_is_text_everywhere(watched, operators):
    page = watched.page
    assert page.locator("img").count() == 0
    assert HOSTILE in column(operators, 1)
    labels = page.locator("#run-1-3 figure .beside").all_text_contents()
    assert HOSTILE in labels
    assert any(label.startswith(MARKUP[:14]) and label.endswith(MARKUP[-5:]) for label in labels)
    assert page.locator("figure svg a").count() == 0
    show(page, "#/overview")
    assert page.locator("#findings .message", has_text=HOSTILE).count() > 0
    assert page.locator("#problems pre.log", has_text=HOSTILE).count() == 2


@pytest.mark.parametrize(("bar", "name"), [(12, HOSTILE), (13, MARKUP)])
def test_a_hostile_name_is_text_in_the_label_under_the_pointer(watched, bar, name):
    figure = show(watched.page, "#/compute").locator("#run-1-3 figure").first
    figure.scroll_into_view_if_needed()
    figure.locator(".marks rect").nth(bar).hover(force=True)
    figure.locator(".pointed", has_text=name).wait_for()


@pytest.mark.parametrize("width", [390, 800, 2560])
def test_the_page_never_scrolls_sideways(chromium, demo_report, width):
    found = opened(chromium, demo_report, width)
    for view in VIEWS:
        show(found.page, view)
        assert found.page.evaluate("document.documentElement.scrollWidth") == width, view
    show(found.page, "#/timeline")
    found.page.emulate_media(color_scheme="dark")
    found.page.wait_for_function(f"() => {INK} === '{PALE}'")
    assert found.complaints == []
    found.page.context.close()


@pytest.mark.parametrize("width", [390, 1280])
def test_the_button_of_the_search_is_one_line_high(chromium, demo_report, width):
    page = opened(chromium, demo_report, width).page
    heights = [
        page.get_by_role("button", name=name, exact=True).evaluate(
            "button => [button.scrollHeight - button.clientHeight, button.offsetHeight]"
        )
        for name in ("Search", "Dark theme")
    ]
    assert heights[0] == heights[1]
    assert heights[0][0] == 0
    page.context.close()


def test_the_theme_follows_the_system_and_the_button_and_is_remembered(chromium, demo_report):
    found = opened(chromium, demo_report, scheme="dark")
    page = found.page
    light = "rgb(245, 246, 248)"
    show(page, "#/timeline")
    assert (page.evaluate(GROUND), page.evaluate(INK)) == ("rgb(14, 19, 25)", PALE)
    page.get_by_role("button", name="Dark theme").click()
    assert (page.evaluate(GROUND), page.evaluate(INK)) == (light, "rgb(26, 35, 48)")
    page.reload()
    assert page.evaluate(GROUND) == light
    page.context.close()


def test_a_run_is_chosen_from_the_menu_and_back_returns(chromium, tmp_path):
    found = opened(chromium, report_of(tmp_path, count=12, rows=20))
    page = found.page
    page.locator("#tabs").get_by_text("Compute").click()
    page.locator("#runs-menu").select_option(index=11)
    page.wait_for_function("() => location.hash === '#/compute?run=12'")
    page.locator("#run-12-3 figure.chart").first.wait_for()
    go_back(page)
    page.wait_for_function("() => document.querySelector('#runs-menu').selectedIndex === 0")
    page.locator("#run-1-3").wait_for()
    assert found.complaints == []
    page.context.close()


@pytest.mark.parametrize("anchor", ["run-5-how", "run-2-4", "across", "problems"])
def test_an_old_link_leads_to_its_place_though_what_is_above_is_drawn_late(
    chromium, demo_report, anchor
):
    page = opened(chromium, demo_report).page
    page.evaluate("anchor => { location.hash = anchor; }", anchor)
    page.locator(f"#{anchor}").wait_for()
    page.wait_for_function(AT_REST)
    top = page.locator(f"#{anchor}").evaluate("place => place.getBoundingClientRect().top")
    reached = page.evaluate("innerHeight + scrollY >= document.body.scrollHeight - 2")
    assert reached or 90 <= top <= 130
    page.context.close()


def test_the_search_finds_a_name_in_a_table_and_leads_to_it(chromium, demo_report):
    found = opened(chromium, demo_report)
    page = found.page
    page.keyboard.press("/")
    page.get_by_label("Search in this report").fill("native_layer")
    hit = page.locator("#search-hits a").first
    assert hit.inner_text() == "aten::native_layer_norm"
    page.keyboard.press("Enter")
    page.locator("#run-1-3").wait_for()
    assert page.evaluate("location.hash").startswith("#/compute?at=run-1-3&details.of=aten")
    page.get_by_role("heading", name="aten::native_layer_norm").wait_for()
    assert not page.locator("#search").is_visible()
    page.keyboard.press("/")
    page.get_by_label("Search in this report").fill("Net")
    page.locator("#search-hits li", has_text="A step by module").get_by_text(
        "Net", exact=True
    ).click()
    assert page.evaluate("location.hash").endswith("&frames.find=Net")
    page.locator("#drawing-frames .timeline-count", has_text="1 found").wait_for()
    frames = page.locator("#drawing-frames")
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "Enter"):
        frames.locator("svg").press(key)
    frames.get_by_role("button", name="All that is known of it").click()
    page.get_by_role("complementary", name="Details").get_by_role("heading", name="Net").wait_for()
    for command, done in (("only rank 1", "filter.rank=1"), ("go to data", "#/data?filter.rank=1")):
        page.keyboard.press(">")
        page.get_by_label("Search in this report").fill(f"> {command}")
        page.locator("#search-hits button").first.wait_for()
        page.keyboard.press("Enter")
        page.wait_for_function("done => location.hash.includes(done)", arg=done)
    page.context.close()


def test_a_bar_opens_all_that_is_known_of_its_name(watched):
    show(watched.page, "#/compute")
    figure = watched.page.locator("figure.chart", has=watched.page.locator(".plot rect")).filter(
        has_text="aten::addmm"
    )
    figure.first.locator(".plot svg").focus()
    watched.page.keyboard.press("ArrowDown")
    name = figure.first.locator(".pointed div").first.inner_text()
    watched.page.keyboard.press("Enter")
    watched.page.get_by_role("complementary", name="Details").get_by_role(
        "heading", name=name
    ).wait_for()
    watched.page.keyboard.press("Escape")


def test_the_keys_of_a_dialog_do_nothing_behind_it(chromium, demo_report):
    found = opened(chromium, demo_report)
    page = found.page
    show(page, "#/compute?details.of=aten%3A%3Aaddmm")
    page.locator("#details").wait_for()
    page.keyboard.press("?")
    page.keyboard.press("1")
    page.keyboard.press("Escape")
    assert not page.locator("#keys").is_visible()
    assert page.locator("#details").is_visible()
    page.keyboard.press("Escape")
    page.locator("#details").wait_for(state="hidden")
    assert page.evaluate("location.hash").startswith("#/compute")
    assert found.complaints == []
    page.context.close()


def test_keys_turn_the_views_and_the_runs_and_are_listed(chromium, demo_report):
    page = opened(chromium, demo_report).page
    page.keyboard.press("2")
    page.wait_for_function("() => location.hash === '#/timeline'")
    page.keyboard.press("]")
    page.wait_for_function("() => location.hash === '#/timeline?run=2'")
    page.keyboard.press("?")
    assert page.locator("#keys kbd").first.inner_text() == "/"
    page.keyboard.press("Escape")
    assert not page.locator("#keys").is_visible()
    page.context.close()


def test_a_key_straight_behind_another_goes_on_from_where_that_one_led(chromium, demo_report):
    page = opened(chromium, demo_report).page
    # Both keys are pressed before the page is told of the first one's new hash.
    page.evaluate("""() => {
        for (const key of ["2", "]"]) document.body.dispatchEvent(
            new KeyboardEvent("keydown", { key, bubbles: true }));
    }""")
    page.wait_for_function("() => location.hash === '#/timeline?run=2'")
    page.locator(".timeline-canvas").wait_for()
    page.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_there_is_no_serious_finding_of_axe(chromium, demo_report, axe, scheme):
    found = opened(chromium, demo_report, 1400, scheme)
    chosen = "#/timeline?timeline.pick=0.0&timeline.range=1000-90000"
    for view in (*VIEWS, "#/compute?details.of=aten%3A%3Aaddmm", chosen):
        show(found.page, view)
        # Evaluated from outside, as the page's own policy runs nothing else.
        found.page.evaluate(axe)
        result = found.page.evaluate("axe.run({ resultTypes: ['violations'] })")
        serious = [
            (rule["id"], rule["nodes"][0]["html"][:200])
            for rule in result["violations"]
            if rule["impact"] in ("serious", "critical")
        ]
        assert serious == [], view
    found.page.context.close()


def test_the_first_screen_says_what_ran_and_shows_a_typical_step(watched):
    page = show(watched.page, "#/overview")
    assert page.locator(".top .facts").inner_text().startswith("gpt_tiny\nbatch 1\n2 ranks")
    step = page.locator(".mini")
    step.locator("rect").first.wait_for()
    title = step.locator("b").inner_text()
    assert re.fullmatch(r"Step 6 \(typical\), rank 1, [\d.]+ [mµ]s as traced", title), title
    assert step.get_by_text("Phases").count() == 1
    step.get_by_role("link", name="Timeline").click()
    page.locator(".timeline-canvas").wait_for()
    go_back(page)


def test_a_rank_is_chosen_for_all_views_and_back_shows_all(watched):
    page = show(watched.page, "#/timeline")
    before = page.locator("#run-1-2 .table tbody tr").first.inner_text()
    page.locator("#filters label", has_text="Rank").locator("select").select_option("1")
    page.wait_for_url("**#/timeline?filter.rank=1")
    show(page, "#/timeline?filter.rank=1")
    notes = page.locator(".table .note", has_text="Only rank 1:")
    assert notes.count() > 0
    page.locator(".timeline-rank", has_text="rank 1").first.wait_for()
    assert page.locator(".timeline-rank", has_text="rank 0").count() == 0
    page.get_by_role("link", name="Compute").click()
    assert page.url.endswith("#/compute?filter.rank=1")
    frames = show(page, "#/compute?filter.rank=1").locator("#drawing-frames")
    frames.get_by_text("GPU time: 1.00 µs").wait_for()
    assert frames.get_by_label("Rank").input_value() == "rank 1"
    go_back(page)
    go_back(page)
    page.locator(".timeline-rank", has_text="rank 0").first.wait_for()
    show(page, "#/timeline")
    assert page.locator("#run-1-2 .table tbody tr").first.inner_text() == before


def test_a_finding_marks_its_evidence_until_escape(watched):
    page = show(watched.page, "#/overview")
    page.locator("#findings").get_by_role("button", name="Show evidence").first.click()
    page.wait_for_url("**filter.evidence=run-*")
    page.locator(".evidence-bar").wait_for()
    page.evaluate("profkit.drawAll()")
    page.wait_for_function(SETTLED)
    marked, others = page.locator("tr.marked"), page.locator("tr.dimmed")
    marked.first.wait_for(state="attached")
    others.first.wait_for(state="attached")
    assert page.locator(".evidence-bar").inner_text().startswith("Evidence of")
    page.keyboard.press("Escape")
    page.wait_for_function("() => document.querySelector('.evidence-bar') === null")
    assert page.locator("tr.marked, tr.dimmed").count() == 0


def test_any_two_runs_are_chosen_and_a_link_keeps_them(watched):
    page = show(watched.page, "#/compare?pair.a=3")
    pair = page.locator("#pair")
    pair.get_by_label("Run B").select_option(index=4)
    heads = pair.locator("table").first.locator("thead th").all_inner_texts()
    labels = page.locator("#runs-menu option").all_inner_texts()
    assert heads[1:3] == [labels[2], labels[4]]
    assert "pair.a=3&pair.b=5" in page.url
    assert "profkit compare " in pair.locator("pre").inner_text()
    assert watched.complaints == []


def test_paper_gets_a_digest_of_a_few_pages_with_its_provenance(watched):
    page = show(watched.page, "#/compute")
    pages = page.pdf(prefer_css_page_size=True).count(b"/Type /Page\n")
    assert 1 <= pages <= 6
    digest = page.locator("#digest")
    assert not digest.is_visible()
    assert "train-gpt_tiny-b1-00000000" in digest.locator(".paper-footer").text_content()
    assert digest.locator("h2").all_text_contents() == [
        "Costs of a step, rank 1",
        "Runs by their key numbers",
        "Failures",
        "Findings",
        "About this report",
    ]
    assert "printing" not in page.locator("html").get_attribute("class")


def test_a_command_is_copied(chromium, demo_report):
    found = opened(chromium, demo_report)
    button = show(found.page, "#/data").locator("button.copy").first
    button.click()
    found.page.get_by_role("button", name="Copied").wait_for()
    found.page.context.close()


def test_of_a_hundred_runs_only_the_one_that_is_open_is_in_the_page(chromium, tmp_path):
    found = opened(chromium, report_of(tmp_path, count=100, rows=60))
    found.page.wait_for_function(AT_REST)
    assert found.page.locator("#runs-menu option").count() == 100
    assert found.page.locator("*").count() < 2000
    same = found.page.locator("details.others").first
    same.locator("summary").click()
    assert same.locator("li").nth(98).inner_text()
    assert found.complaints == []
    found.page.context.close()


def test_a_name_opens_all_that_is_known_of_it_and_escape_goes_back(watched, operators):
    page = watched.page
    name = operators.locator("button.thing", has_text="aten::addmm")
    name.focus()
    page.keyboard.press("Enter")
    drawer = page.get_by_role("complementary", name="Details")
    assert page.url.endswith("&details.of=aten%3A%3Aaddmm")
    assert "2.82 ms" in drawer.locator("section", has_text="Operators by").first.inner_text()
    assert drawer.get_by_role("region", name="in each run").locator("tbody tr").count() == 6
    drawer.get_by_role("button", name="Copy as Markdown").click()
    drawer.get_by_role("button", name="Copied").wait_for()
    page.keyboard.press("Escape")
    assert not drawer.is_visible()
    assert name.evaluate("button => button === document.activeElement")
    go_back(page)
    assert drawer.get_by_role("heading", name="aten::addmm").is_visible()
    go_back(page)
    assert not drawer.is_visible()
    assert watched.complaints == []


def test_a_link_restores_a_table_and_back_undoes_what_was_chosen(watched):
    page = watched.page
    kernels = show(page, "#/compute").locator("#run-1-4 .table").first
    first = column(kernels, 1)
    kernels.get_by_role("button", name="Calls").click()
    sorted_by_calls = column(kernels, 1)
    assert sorted_by_calls != first
    kernels.get_by_role("searchbox").fill("gemm")
    page.wait_for_function("() => location.hash.includes('.find=gemm')")
    kernels.get_by_text("Columns", exact=True).click()
    last = kernels.locator("thead th:visible").last.inner_text()
    kernels.get_by_label(last, exact=True).uncheck()
    shown, link = kernels.locator("tbody").inner_text(), page.url
    show(page, "#/overview")
    show(page, f"#{link.partition('#')[2]}")
    assert kernels.locator("tbody").inner_text() == shown
    assert kernels.get_by_role("searchbox").input_value() == "gemm"
    assert kernels.locator("[aria-sort=descending]").inner_text().strip() == "Calls"
    assert last not in kernels.locator("thead th:visible").all_inner_texts()
    for _ in ("the link", "the overview", "a column", "the order"):
        go_back(page)
    kernels.locator("[aria-sort=descending]").wait_for(state="detached")
    assert column(kernels, 1) == first
    assert watched.complaints == []


def test_of_a_long_table_the_rows_in_sight_are_drawn(watched):
    page = watched.page
    long = show(page, "#/compute").locator(".table", has=page.get_by_text("5,000 rows")).first
    long.get_by_role("button", name="Show all:").click()
    rows, scroller = long.locator("tbody tr[aria-rowindex]"), long.locator(".scroller")
    assert long.locator("table").get_attribute("aria-rowcount") == "5001"
    assert rows.count() < 60
    first = rows.first.inner_text()
    scroller.evaluate("place => { place.scrollTop = place.scrollHeight; }")
    long.locator("[aria-rowindex='5001']").wait_for()
    assert rows.count() < 60
    scroller.evaluate("place => { place.scrollTop = 0; }")
    long.locator("[aria-rowindex='2']").wait_for()
    assert rows.first.inner_text() == first
    # Elements are used again, and show what a new one would.
    rows.evaluate_all("rows => rows.forEach((row, at) => { row.madeAs = at; })")
    for top in (33 * 8, 33 * 2000, 33 * 1980):
        scroller.evaluate("(place, top) => { place.scrollTop = top; }", top)
        long.locator(f"[aria-rowindex='{top // 33 + 3}']").wait_for()
        assert rows.evaluate_all("rows => rows.every(row => row.madeAs >= 0)")
    used = rows.evaluate_all("rows => rows.map(row => row.outerHTML)")
    places = rows.evaluate_all("rows => rows.map(row => row.getAttribute('aria-rowindex'))")
    assert sorted(places, key=int) == places
    long.get_by_role("button", name="Show pages:").click()
    long.get_by_role("button", name="Show all:").click()
    scroller.evaluate("place => { place.scrollTop = 33 * 1980; }")
    long.locator("[aria-rowindex='1983']").wait_for()
    assert rows.evaluate_all("rows => rows.map(row => row.outerHTML)") == used
    long.get_by_role("button", name="Show pages:").click()
    assert long.locator("tbody tr").count() == 10


def test_a_row_opens_what_is_known_of_it_and_its_columns_are_chosen(watched, operators):
    page = watched.page
    row = operators.locator("tbody tr", has_text="aten::addmm")
    row.locator("td.number").first.click()
    page.get_by_role("heading", name="aten::addmm").wait_for()
    page.keyboard.press("Escape")
    heads = operators.locator("thead th:visible")
    last = heads.last.inner_text()
    operators.get_by_text("Columns", exact=True).click()
    operators.get_by_label(last, exact=True).uncheck()
    assert last not in heads.all_inner_texts()
    assert row.locator("td:visible").count() == heads.count()
    operators.get_by_label(last, exact=True).check()
    assert heads.last.inner_text() == last
    assert watched.complaints == []


def test_a_tree_tells_what_is_under_the_pointer_and_opens_by_a_click(watched):
    figure = show(watched.page, "#/compute").locator("figure.chart", has_text="as a sunburst")
    assert figure.locator(".tree-told").inner_text().endswith("100.0% of all")
    layers = figure.locator(".piece").nth(1)
    layers.dispatch_event("pointerenter")  # the middle of a ring is not on it
    told = figure.locator(".tree-told").inner_text()
    assert told.startswith("model / layers: ")
    before = figure.locator(".piece").count()
    layers.dispatch_event("click")
    assert figure.locator(".piece").count() < before
    figure.get_by_role("button", name="Show all").click()
    assert figure.locator(".piece").count() == before


def test_the_arrow_keys_go_through_a_tree_enter_opens_and_escape_and_back_return(watched):
    page = show(watched.page, "#/compute")
    figure = page.locator("figure.chart", has_text="as a sunburst")
    whole = figure.locator(".piece").count()
    figure.locator("svg").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    told = figure.locator(".tree-told")
    assert told.inner_text().startswith("model / layers: ")
    page.keyboard.press("Enter")
    assert figure.locator(".piece").count() < whole
    link = page.url
    page.keyboard.press("Escape")
    assert told.inner_text().startswith("model: ")
    go_back(page)
    page.wait_for_function("link => location.href === link", arg=link)
    assert told.inner_text().startswith("model / layers: ")
    show(page, "#/overview")
    assert watched.complaints == []


def test_the_part_of_an_axis_is_in_the_address_and_back_and_escape_show_all(watched):
    page = show(watched.page, "#/compute")
    figure = page.locator("figure.chart", has_text="Allocated memory over a step")
    figure.scroll_into_view_if_needed()
    whole = figure.locator(".below").all_inner_texts()
    back = figure.get_by_role("button", name="Show all")

    def drag():
        box = figure.locator("svg").bounding_box()
        page.mouse.move(box["x"] + box["width"] / 3, box["y"] + box["height"] / 2)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 2 / 3, box["y"] + box["height"] / 2)
        page.mouse.up()
        back.wait_for()

    drag()
    part, link = figure.locator(".below").all_inner_texts(), page.url
    assert part != whole
    go_back(page)
    back.wait_for(state="detached")
    drag()
    page.keyboard.press("Escape")
    back.wait_for(state="detached")
    assert figure.locator(".below").all_inner_texts() == whole
    show(page, f"#{link.partition('#')[2]}")
    back.wait_for()
    assert figure.locator(".below").all_inner_texts() == part
    show(page, "#/overview")
    assert watched.complaints == []


def test_what_is_shown_of_a_table_is_copied_as_markdown(watched, operators):
    page = watched.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    operators.get_by_role("button", name=re.compile(r"Copy .* as Markdown")).click()
    operators.get_by_text("Copied", exact=True).wait_for()
    title, _, heads, dashes, *rows = page.evaluate("navigator.clipboard.readText()").splitlines()
    assert title.startswith("**")
    assert set(dashes) == set("| -")
    assert (
        heads.count("|") == dashes.count("|") == operators.locator("thead th:visible").count() + 1
    )
    assert len(rows) == operators.locator("tbody tr").count()
